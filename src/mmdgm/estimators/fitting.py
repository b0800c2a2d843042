"""Train a model on rows with missing values and missing labels: lengths, batches, stages, when to stop."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmdgm.data.batches import Batches, Store
from mmdgm.devices import make_fabric
from mmdgm.models import VAE
from mmdgm.progress import Record
from mmdgm.training.plan import SemiSupervisedTraining
from mmdgm.training.trainer import Trainer

Values = NDArray[np.float32]
Labels = NDArray[np.int64]  # −1: unlabeled
REFRESHED = 20  # times that missing values are filled in anew in a stage
CHUNK = 1000
STRIDE = 25  # steps after which the clock is read


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How an estimator trains."""

    max_epochs: int | None
    max_time: float | None  # seconds
    batch_size: int | None
    learning_rate: float
    weight_decay: float
    steps: int  # where max_epochs is None: at least so many
    first: float  # share of the epochs that the guessed labels are learned in
    hide: float  # see Batches
    device: str
    precision: Literal["auto", "32-true", "bf16-mixed"]


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What training came to."""

    epochs: int
    planned_epochs: int
    out_of_time: bool
    history: list[dict[str, Any]]


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
        value = self.accuracy()
        self.since += 1
        if value >= self.best:
            self.since = 0 if value > self.best else self.since
            self.best = value
            self.weights = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        if self.since >= self.patience:
            raise StopIteration


@dataclass
class _History:
    """Keeps the terms of a stage."""

    stage: str
    epochs_before: int
    records: list[dict[str, Any]]

    def __call__(self, record: Record) -> None:
        self.records.append({"stage": self.stage, "epoch": self.epochs_before + record.epoch, **record.metrics})


def fit_model(
    model: VAE,
    x: Values,
    y: Labels,
    *,
    observed: NDArray[np.bool_],
    guesses: Labels | None,
    settings: FitSettings,
    began: float,
    seed: int,
    on_log: list[Callable[[Record], None]],
    stopping: EarlyStopping | None = None,
) -> Fitted:
    """Train on rows `(rows, channels, height, width)` with classes y.

    Values of x that are not `observed` are first guesses, which are made anew as the model learns. With `guesses`,
    labels for all rows, a first stage trusts them; then come the given labels alone. `began`: when, by
    `time.monotonic`, the clock of `max_time` was started.
    """
    fabric = make_fabric(settings.device, precision=settings.precision)
    history: list[dict[str, Any]] = []
    epochs_done = 0

    def is_over() -> bool:
        return settings.max_time is not None and time.monotonic() - began > settings.max_time

    stages: list[tuple[str, Labels, float]] = [("labels", y, 1.0)]
    if guesses is not None and settings.max_epochs != 1:
        first = settings.first
        if settings.max_epochs is not None:  # whole epochs, as many as asked for in all
            first = max(1, round(first * settings.max_epochs)) / settings.max_epochs
        stages = [("guesses", guesses, first), ("labels", y, 1 - first)]
    plans = [
        _plan(int((labels >= 0).sum()), int((labels < 0).sum()), settings, share) for _, labels, share in stages
    ]
    for (stage, labels, _), plan in zip(stages, plans, strict=True):
        keep = _History(stage, epochs_done, history)
        labeled, unlabeled = np.flatnonzero(labels >= 0), np.flatnonzero(labels < 0)
        trainer = Trainer(model, plan, fabric=fabric, stride=STRIDE)
        batches = Batches(
            *(_tensor(part, trainer.device) for part in (x[labeled], labels[labeled], x[unlabeled])),
            scale=1.0,
            labeled_batch=plan.batch,
            unlabeled_batch=plan.unlabeled_batch,
            seed=seed,
            hide=settings.hide,
            observed=None if observed.all() else _tensor(observed[labeled], trainer.device),
            observed_unlabeled=None if observed.all() else _tensor(observed[unlabeled], trainer.device),
        )
        refresh = None if observed.all() else _Refresh(model)
        listeners: list[Callable[[Record], None]] = [*on_log, keep]
        if stopping is not None and stage == "labels":
            listeners.append(stopping)
        epochs_done += trainer.fit(batches, on_log=listeners, revise=refresh, is_over=is_over).epochs
        if refresh is not None and refresh.store is not None:
            x = np.empty_like(x)
            x[labeled] = refresh.store.x.cpu().numpy()
            x[unlabeled] = refresh.store.x_unlabeled.cpu().numpy()
        if out_of_time := is_over():
            break
    if stopping is not None and stopping.weights:
        model.load_state_dict(stopping.weights)
    planned = sum(plan.epochs for plan in plans)
    return Fitted(
        epochs=epochs_done,
        planned_epochs=planned,
        out_of_time=out_of_time and epochs_done < planned,
        history=history,
    )


def _plan(labeled: int, unlabeled: int, settings: FitSettings, share: float) -> SemiSupervisedTraining:
    """Batches that are small for few rows, and epochs that make enough steps of them."""
    rows = max(labeled, unlabeled)
    batch = settings.batch_size or int(np.clip(rows // 10, 64, 400))
    steps_per_epoch = max(1, (unlabeled or labeled) // min(batch, unlabeled or labeled))
    whole = settings.max_epochs or max(10, math.ceil(settings.steps / steps_per_epoch))
    epochs = max(1, round(share * whole))
    return SemiSupervisedTraining(
        epochs=epochs,
        batch=min(labeled, batch if not unlabeled else max(100, batch // 2)),
        unlabeled_batch=batch,
        learning_rate=settings.learning_rate,
        warmup_steps=min(100, epochs * steps_per_epoch // 10),
        weight_decay=settings.weight_decay,
        precision=settings.precision,
        log_every=max(1, epochs * steps_per_epoch // REFRESHED),
        patience=0,
    )


class _Refresh:
    """Fills missing values anew with what the model now makes of them, one round from where they are."""

    def __init__(self, model: VAE):
        self.model = model
        self.store: Store | None = None

    @torch.no_grad()
    def __call__(self, store: Store) -> None:
        self.store = store
        self.model.eval()
        for part, observed in ((store.x, store.observed), (store.x_unlabeled, store.observed_unlabeled)):
            for start in range(0, len(part), CHUNK):
                rows = part[start : start + CHUNK]
                assert observed is not None
                for _ in range(3):
                    rebuilt = self.model.reconstruct(rows)
                    rows.copy_(torch.where(observed[start : start + CHUNK], rows, rebuilt))
        self.model.train()


def _tensor(array: NDArray[Any], device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)
