"""Training settings: rates, batches, number formats, and the stages of training."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mmdgm.data.batches import LabelSource
from mmdgm.settings import setting
from mmdgm.training.schedule import ScheduleName


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of training with its own length, rate, batches and optimizer.

    `labels`: whether to use the propagated labels of unlabeled rows as if they were given.
    `changes` replaces settings of the model's objective in this stage.
    """

    name: str
    epochs: int
    learning_rate: float
    batch: int
    unlabeled_batch: int
    warmup_steps: int
    log_every: int
    labels: LabelSource = "given"
    changes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Training:
    """Settings of training."""

    epochs: int = setting(100, "passes over the (unlabeled) data", least=1)
    batch: int = setting(500, "labeled rows in a batch", least=1)
    learning_rate: float = setting(1e-3, "Adam's rate, before warm-up and decay", above=0)
    schedule: ScheduleName = setting("cosine", "how the rate decays")
    warmup_steps: int = setting(0, "steps over which the rate rises linearly to its value", least=0)
    decay_start: int = setting(0, "step schedule: epoch of the first decay", least=0)
    decay_factor: float = setting(1.0, "step schedule: factor of each epoch's decay from then on", above=0, most=1)
    weight_decay: float = setting(0.0, "L2 penalty on weights (not biases), in the loss of one row", least=0)
    decoupled_decay: bool = setting(False, "whether weight decay acts apart from the loss, as in AdamW")
    beta2: float = setting(0.999, "Adam's decay of squared gradients", least=0, below=1)
    precision: Literal["auto", "32-true", "bf16-mixed"] = setting(
        "auto", "number format of the computation; auto: bf16-mixed on a GPU, else 32-true"
    )
    execution: Literal["auto", "plain", "compiled", "captured", "compiled+captured"] = setting(
        "auto", "how a step is executed; auto: captured in a CUDA graph on a GPU, and compiled where that pays"
    )
    log_every: int = setting(100, "steps between log lines", least=1)
    checkpoint_seconds: float = setting(
        60.0, "a checkpoint is due after so many seconds; 0: at every log line", least=0
    )
    patience: int = setting(3000, "steps that a trivial solution may last before the run stops; 0: for ever", least=0)

    def stages(self) -> list[Stage]:
        """Return the stages of training, in order."""
        return [self._stage("train")]

    def _stage(self, name: str, **differences: Any) -> Stage:
        """Return a stage with these settings, apart from `differences`."""
        names = ("epochs", "learning_rate", "batch", "warmup_steps", "log_every")
        own = {name: getattr(self, name) for name in names} | {"unlabeled_batch": 0}
        return Stage(name=name, **(own | differences))


@dataclass(frozen=True, kw_only=True)
class SemiSupervisedTraining(Training):
    """Training on labeled and unlabeled rows."""

    unlabeled_batch: int = setting(500, "unlabeled rows in a batch", least=1)

    def stages(self) -> list[Stage]:
        return [self._stage("train", unlabeled_batch=self.unlabeled_batch)]


@dataclass(frozen=True, kw_only=True)
class GenerativeLastTraining(SemiSupervisedTraining):
    """Training that ends with the generative part alone, given the labels that the classifier predicts."""

    bound_epochs: int = setting(50, "epochs of the bound alone at the end; 0: none", least=0)
    bound_batch: int = setting(100, "unlabeled rows in a batch of those epochs, with one labeled row", least=1)
    bound_learning_rate: float = setting(1e-3, "Adam's rate in those epochs", above=0)

    def stages(self) -> list[Stage]:
        bound = self._stage(
            "bound",
            epochs=self.bound_epochs,
            batch=1,
            unlabeled_batch=self.bound_batch,
            learning_rate=self.bound_learning_rate,
            changes={"alpha": 0.0, "straight_through": 0.0, "bound_share": 1.0},
        )
        return [*super().stages(), bound] if self.bound_epochs else super().stages()


@dataclass(frozen=True, kw_only=True)
class PretrainedTraining(Training):
    """Training that starts with a generative model: first without the margin (C = 0), then with it."""

    pretrain_epochs: int = setting(100, "epochs without the margin first; 0: none", least=0)
    pretrain_learning_rate: float = setting(1e-3, "Adam's rate in those epochs", above=0)

    def stages(self) -> list[Stage]:
        pretrain = self._stage(
            "pretrain",
            epochs=self.pretrain_epochs,
            learning_rate=self.pretrain_learning_rate,
            changes={"C": 0.0},
        )
        return [pretrain, *super().stages()] if self.pretrain_epochs else super().stages()


@dataclass(frozen=True, kw_only=True)
class ClassifierFirstTraining(Training):
    """Training that starts with the recognition network alone: only the margin, without the bound or dropout."""

    classifier_epochs: int = setting(10, "epochs of the classifier alone first; 0: none", least=0)

    def stages(self) -> list[Stage]:
        changes = {"generative_weight": 0.0, "dropout": 0.0}
        classifier = self._stage("classifier", epochs=self.classifier_epochs, changes=changes)
        return [classifier, *super().stages()] if self.classifier_epochs else super().stages()


@dataclass(frozen=True, kw_only=True)
class StagedTraining(Training):
    """Training through the given stages, which depend on the rows of the data."""

    planned: tuple[Stage, ...] = ()

    def stages(self) -> list[Stage]:
        return list(self.planned)
