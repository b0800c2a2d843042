"""The training of an estimator's model. It is repeated with a gentler setting if the classifier collapsed."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from lightning_fabric import Fabric

from mmdgm.data import deadline
from mmdgm.data.batches import Reading, Store
from mmdgm.devices import fabric_of_one, random_state_kept, seeded
from mmdgm.errors import CollapseWarning
from mmdgm.estimators.fitting import (
    RESTARTED,
    STRIDE,
    EarlyStopping,
    FitRun,
    History,
    lengths_of,
    refill,
    take_over_networks,
)
from mmdgm.inference.per_row import inference
from mmdgm.models import VAE, ClassWeights, MaxMarginConditionalVAE, MaxMarginVAE
from mmdgm.progress import Display
from mmdgm.training.loop import Summary
from mmdgm.training.plan import StagedTraining
from mmdgm.training.trainer import Trainer

TELLING_STEPS = 30  # after fewer steps, a classifier of one class is only at its beginning
LOOKED_AT, PORTION = 500, 100  # labeled rows, and those that go through the networks at once
MAJORITY = 0.8  # the share of a class that may get all of them
COMPILING = 600  # seconds of `max_time` from which a minute of compiling can pay
GENTLER = 10  # the learning rate is divided by it when training is repeated


@dataclass(frozen=True, kw_only=True)
class Job:
    """Rows for the model of an estimator, and how it is trained on them.

    Missing values have first guesses in the store. `accuracy`: a function of the model, for early stopping. The
    objective uses the current parameters and labels, also if training continues the networks of the last fit.
    """

    estimator: Any
    store: Store
    seed: int
    n_labeled: int = 0
    run: FitRun = field(default_factory=FitRun)
    weights: ClassWeights = ClassWeights()
    accuracy: Callable[[Any], float] | None = None

    def finish(self) -> None:
        """Train, and give the estimator its model and history."""
        estimator, lengths = self.estimator, lengths_of(self.estimator, len(self.store.x))
        fabric = fabric_of_one(estimator.device, precision=lengths.precision)
        history, training = History(), lengths.training(self.store)
        with random_state_kept():
            model, summary = self._trained(training, fabric, history, self.run)
            if summary.steps >= TELLING_STEPS and collapsed(model, self.store):
                model, summary = self._again(model, summary, training, fabric, history)
        estimator.config_ = estimator._config(estimator.codec_)
        estimator.model_, estimator.history_ = model, history.records
        estimator.n_iter_, estimator.n_iter_planned_ = summary.epochs, summary.planned_epochs
        if deadline.is_over() and summary.epochs < summary.planned_epochs:
            estimator._say(f"max_time: ended after {summary.epochs} of {summary.planned_epochs} epochs")

    def _trained(self, training: StagedTraining, fabric: Fabric, history: History, run: FitRun) -> tuple[VAE, Summary]:
        """Return a new model, trained, and the summary of its training."""
        estimator = self.estimator
        config = estimator._config(estimator.codec_)
        with seeded(self.seed):
            model = estimator._build(config, n_rows=max(self.n_labeled, 1), weights=self.weights)
        if estimator._going_on():
            take_over_networks(model, estimator.model_)
        stopping, accuracy = None, self.accuracy
        if accuracy is not None:
            stopping = EarlyStopping(model, lambda: accuracy(model), patience=estimator.n_iter_no_change)
        refilled = self.store.observed is not None and estimator.filler_ is None
        with Display(type(estimator).__name__, estimator._console) as display:
            runs = 1 if deadline.left() > COMPILING else 0  # with 0, the step is not compiled
            summary = Trainer(model, training, fabric=fabric, runs=runs, stride=STRIDE).fit(
                self.store,
                seed=self.seed,
                reading=Reading(hide=0.0 if estimator.codec_.is_image else 0.2),
                checkpoint=run.checkpoint,
                resume=run.resume,
                on_log=[display, *run.listeners, history, *([stopping] if stopping else [])],
                revise=(lambda rows: refill(model, rows)) if refilled else None,
                is_over=deadline.is_over,
            )
        if stopping is not None and stopping.weights:
            model.load_state_dict(stopping.weights)
        return model.eval(), summary

    def _again(
        self, model: VAE, summary: Summary, training: StagedTraining, fabric: Fabric, history: History
    ) -> tuple[VAE, Summary]:
        """Return a model trained with a tenth of the learning rate instead of one that collapsed, and say so."""
        said, estimator = "training put all labeled rows into one class", self.estimator
        if deadline.is_over() or estimator._going_on():
            said += "; give a lower learning_rate, or more max_time"
        else:
            rate = estimator.learning_rate / GENTLER
            without_checkpoint = replace(self.run, checkpoint=None, resume=False)
            model, summary = self._trained(gentler(training), fabric, history, without_checkpoint)
            again = collapsed(model, self.store)
            outcome = "it did so again; give a lower learning_rate, or more labels" if again else "it does no more"
            said += f"; it was repeated with learning_rate={rate:g}: {outcome}"
        estimator._say(said)
        warnings.warn(said, CollapseWarning, stacklevel=6)
        return model, summary


def collapsed(model: VAE, store: Store) -> bool:
    """Return whether a classifier puts all labeled rows into one class, though many of them are of others.

    A row counts with the weight of its class in the hinge loss. With costs of errors, one class may be the cheapest.
    """
    labeled = (store.y >= 0).nonzero()[:, 0]
    if not isinstance(model, MaxMarginVAE | MaxMarginConditionalVAE) or not len(labeled) or model.cost is not None:
        return False
    rows = labeled[torch.linspace(0, len(labeled) - 1, min(len(labeled), LOOKED_AT)).long()]
    with inference(model) as device:
        parts = [model.scores(part.to(device)).argmax(dim=1).cpu() for part in store.x[rows].split(PORTION)]
    weight = torch.ones(model.n_classes) if model.class_weight is None else model.class_weight.cpu()
    shares = torch.bincount(store.y[rows], weight[store.y[rows]], minlength=model.n_classes)
    predicted = torch.cat(parts).unique()
    return len(predicted) == 1 and float(shares[int(predicted)]) < MAJORITY * float(shares.sum())


def gentler(training: StagedTraining) -> StagedTraining:
    """Return the training with a tenth of the learning rate, which rises for three times as long."""
    stages = (
        replace(
            stage,
            name=stage.name + RESTARTED,
            learning_rate=stage.learning_rate / GENTLER,
            warmup_steps=3 * stage.warmup_steps,
        )
        for stage in training.planned
    )
    return replace(training, planned=tuple(stages))
