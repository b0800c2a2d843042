"""How an estimator trains: stages and batches by the rows that there are, missing values, when to stop."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from mmdgm.data.batches import LabelSource, Store
from mmdgm.models import VAE
from mmdgm.progress import Record
from mmdgm.training.plan import Stage, StagedTraining

REFRESHED = 20  # times that missing values are filled in anew in a stage
CHUNK = 1000
STRIDE = 25  # steps after which the clock is read
PROPAGATED = 0.5  # fraction of the epochs that goes by propagated labels, where there are some


@dataclass(frozen=True, kw_only=True)
class FitRun:
    """What a fit leaves behind as it goes, for one that is recorded in a folder."""

    checkpoint: Path | None = None
    resume: bool = False
    listeners: tuple[Callable[[Record], None], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """How long an estimator trains, and in which batches."""

    max_epochs: int | None
    batch_size: int | None
    steps: int  # where max_epochs is None: at least so many
    learning_rate: float
    weight_decay: float
    precision: Literal["auto", "32-true", "bf16-mixed"]

    def training(self, store: Store) -> StagedTraining:
        """One stage on the given labels; before it, where there are propagated ones, one on these."""
        parts: list[tuple[str, LabelSource, float]] = [("labels", "given", 1.0)]
        if store.guess is not None and self.max_epochs != 1:
            share = PROPAGATED
            if self.max_epochs is not None:  # whole epochs, as many as asked for in all
                share = max(1, round(share * self.max_epochs)) / self.max_epochs
            parts = [("propagated", "propagated", share), ("labels", "given", 1 - share)]
        return StagedTraining(
            planned=tuple(self._stage(name, source, share, store.labels(source)) for name, source, share in parts),
            weight_decay=self.weight_decay,
            precision=self.precision,
            patience=0,
        )

    def _stage(self, name: str, source: LabelSource, share: float, labels: Tensor) -> Stage:
        """Batches that are small for few rows, and epochs that make enough steps of them."""
        labeled, unlabeled = int((labels >= 0).sum()), int((labels < 0).sum())
        batch = self.batch_size or int(np.clip(max(labeled, unlabeled) // 10, 64, 400))
        steps_per_epoch = max(1, (unlabeled or labeled) // min(batch, unlabeled or labeled))
        whole = self.max_epochs or max(10, math.ceil(self.steps / steps_per_epoch))
        epochs = max(1, round(share * whole))
        return Stage(
            name=name,
            epochs=epochs,
            learning_rate=self.learning_rate,
            batch=min(labeled, batch if not unlabeled else max(100, batch // 2)),
            unlabeled_batch=batch,
            warmup_steps=min(100, epochs * steps_per_epoch // 10),
            log_every=max(1, epochs * steps_per_epoch // REFRESHED),
            labels=source,
        )


@dataclass
class EarlyStopping:
    """Keeps the best weights by accuracy on held-out rows; stops when they have not changed for some intervals."""

    model: VAE
    accuracy: Callable[[], float]
    patience: int
    best: float = -math.inf
    since: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)

    def __call__(self, record: Record) -> None:
        if record.stage != "labels":
            return
        value = self.accuracy()
        self.since += 1
        if value >= self.best:
            self.since = 0 if value > self.best else self.since
            self.best = value
            self.weights = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        if self.since >= self.patience:
            raise StopIteration


@dataclass
class History:
    """Keeps the lines of metrics.csv."""

    records: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, record: Record) -> None:
        self.records.append(record.row())


def refill(model: VAE, store: Store) -> None:
    """Fill missing values anew with what the model now makes of them: three rounds from where they are."""
    assert store.observed is not None
    model.eval()
    with torch.no_grad():
        for part in (store.y >= 0, store.y < 0):
            for rows in part.nonzero()[:, 0].split(CHUNK):
                x, observed = store.x[rows], store.observed[rows]
                for _ in range(3):
                    x = torch.where(observed, x, model.reconstruct(x))
                store.x[rows] = x
    model.train()
