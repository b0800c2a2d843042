"""Training of an estimator: stages and batches for the given rows, missing values, early stopping."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from mmdgm.data import deadline
from mmdgm.data.batches import LabelSource, Store
from mmdgm.data.codecs import Codec, ImageCodec
from mmdgm.devices import bf16_is_fast, pick_device
from mmdgm.errors import InputError
from mmdgm.models import VAE
from mmdgm.networks.likelihoods import LIKELIHOODS, Likelihood, MixedColumns
from mmdgm.progress import Record
from mmdgm.propagation.features import has_outlines
from mmdgm.training.plan import Stage, StagedTraining

REFRESHED = 20  # how often missing values are filled again in a stage
CHUNK = 1000
RESTARTED = ", repeated"  # at the end of the names of such stages
IMAGES_IN_BATCH, IMAGE_STEPS = 200, 1200
TABLE_STEPS, WIDE, LEAST_STEPS = 2000, 1000, 100  # tables with more than WIDE encoded columns get fewer steps
STRIDE = 25  # steps between looks at the clock


@dataclass(frozen=True, kw_only=True)
class FitRun:
    """The checkpoint and listeners of a fit that is recorded in a folder."""

    checkpoint: Path | None = None
    resume: bool = False
    listeners: tuple[Callable[[Record], None], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """The length of an estimator's training, its batches and its rates."""

    max_epochs: int | None
    batch_size: int | None
    steps: int  # the least number of steps if max_epochs is None
    by_share: bool  # whether the objective weighs classes by their shares, where the labels are the given ones
    propagated: float  # fraction of the epochs that uses propagated labels, if there are any
    learning_rate: float
    weight_decay: float
    precision: Literal["auto", "32-true", "bf16-mixed"]

    def training(self, store: Store) -> StagedTraining:
        """Return the training: a stage on propagated labels if there are any, then one on the given labels.

        The last stage is named "labels". It is the only one if there are no propagated labels, or if all epochs use
        them.
        """
        parts: list[tuple[str, LabelSource, float]] = [("labels", "given", 1.0)]
        if store.guess is not None and self.propagated == 1:
            parts = [("labels", "propagated", 1.0)]
        elif store.guess is not None and self.max_epochs != 1:
            share = self.propagated
            if self.max_epochs is not None:  # whole epochs, with the wanted total
                share = max(1, round(share * self.max_epochs)) / self.max_epochs
            parts = [("propagated", "propagated", share), ("labels", "given", 1 - share)]
        return StagedTraining(
            planned=tuple(self._stage(name, source, share, store.labels(source)) for name, source, share in parts),
            weight_decay=self.weight_decay,
            precision=self.precision,
            patience=0,
        )

    def _stage(self, name: str, source: LabelSource, share: float, labels: Tensor) -> Stage:
        """Return a stage with small batches for few rows, and with enough epochs for the number of steps."""
        labeled, unlabeled = int((labels >= 0).sum()), int((labels < 0).sum())
        if source == "propagated":  # few rows have no label: as the mean over them, the hat loss would weigh too much
            unlabeled = 0
        batch = self.batch_size or int(np.clip(max(labeled, unlabeled) // 10, 64, 400))
        steps_per_epoch = max(1, (unlabeled or labeled) // min(batch, unlabeled or labeled))
        whole = self.max_epochs or max(10, math.ceil(self.steps / steps_per_epoch))
        epochs = max(1, round(share * whole))
        return Stage(
            name=name,
            epochs=epochs,
            learning_rate=self.learning_rate,
            batch=min(labeled, batch if not unlabeled else max(100, batch // 2)),
            unlabeled_batch=batch if unlabeled else 0,
            warmup_steps=min(100, epochs * steps_per_epoch // 10),
            log_every=max(1, epochs * steps_per_epoch // REFRESHED),
            labels=source,
            changes={"hinge_by_share": True} if self.by_share and source == "given" else {},
        )


def lengths_of(estimator: Any, n_rows: int) -> Lengths:
    """Return the lengths of an estimator's training on so many rows."""
    image, precision = estimator.codec_.is_image, estimator.precision
    if precision == "auto" and image and pick_device(estimator.device).type == "cpu" and bf16_is_fast():
        precision = "bf16-mixed"
    steps = int(np.clip(2.5 * n_rows, TABLE_STEPS, 3000))
    if not image and (width := estimator.codec_.shape[0]) > WIDE:
        steps = max(LEAST_STEPS, steps * WIDE // width)
    return Lengths(
        max_epochs=estimator.max_epochs,
        batch_size=estimator.batch_size or (IMAGES_IN_BATCH if image else None),
        steps=IMAGE_STEPS if image else steps,
        by_share=hasattr(estimator._config_class, "hinge_by_share") and estimator.class_weight is None,
        propagated=(1.0 if has_outlines((1, *estimator.codec_.shape)) else 0.5) if image else 0.5,
        learning_rate=estimator.learning_rate,
        weight_decay=1e-4 if image else 1e-5,
        precision=precision,
    )


@dataclass
class EarlyStopping:
    """Keeps the weights with the best accuracy on held-out rows; stops after `patience` intervals without a gain."""

    model: VAE
    accuracy: Callable[[], float]
    patience: int
    best: float = -math.inf
    since: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)

    def __call__(self, record: Record) -> None:
        if record.stage.removesuffix(RESTARTED) != "labels":
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
    """Keeps the rows of metrics.csv."""

    records: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, record: Record) -> None:
        self.records.append(record.row())


def refill(model: VAE, store: Store) -> None:
    """Fill missing values again with the current model: three rounds that start from the current values."""
    assert store.observed is not None
    model.eval()
    with torch.no_grad():
        for part in (store.y >= 0, store.y < 0):
            for rows in part.nonzero()[:, 0].split(CHUNK):
                if deadline.is_over():
                    break
                x, observed = store.x[rows], store.observed[rows]
                for _ in range(3):
                    x = torch.where(observed, x, model.reconstruct(x))
                store.x[rows] = x
    model.train()


def likelihood_of(codec: Codec) -> Likelihood:
    """Return p(x|z) for the rows of a codec."""
    if isinstance(codec, ImageCodec):
        return LIKELIHOODS["gaussian" if codec.gaussian else "bernoulli"]
    binary = [kind != "number" for kind in codec.table.each("kind")]
    low, high, deviation = (codec.table.each(name) for name in ("low", "high", "deviation"))
    return MixedColumns(binary, low, high, deviation)


def take_over_networks(model: VAE, trained: VAE) -> None:
    """Copy the weights of a trained model into a model."""
    try:
        model.load_state_dict(trained.state_dict())
    except RuntimeError:
        raise InputError(
            "warm_start: the parameters ask for other networks than the last fit's; make a new estimator"
        ) from None
