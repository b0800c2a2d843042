"""How a model is trained, as values: rates, batches, number formats, and the stages that training goes through."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mmdgm.settings import setting
from mmdgm.training.schedule import ScheduleName


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of training with its own length, rate and optimizer.

    `weights` replaces numbers of the model meanwhile, named by their attributes, dotted where they lie in a part.
    """

    name: str
    epochs: int
    learning_rate: float
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a model is trained."""

    epochs: int = setting(100, "passes over the (unlabeled) data", least=1)
    batch: int = setting(500, "labeled rows in a batch", least=1)
    learning_rate: float = setting(1e-3, "Adam's rate, before warm-up and decay", above=0)
    schedule: ScheduleName = setting("cosine", "how the rate decays")
    warmup_steps: int = setting(0, "steps over which the rate rises linearly to its value", least=0)
    decay_start: int = setting(0, "step schedule: epoch of the first decay", least=0)
    decay_every: int = setting(1, "step schedule: epochs between decays", least=1)
    decay_factor: float = setting(1.0, "step schedule: factor of each decay", above=0, most=1)
    weight_decay: float = setting(0.0, "L2 penalty on weights (not biases), in the loss of one row", least=0)
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
    patience: int = setting(
        3000, "steps that a trivial solution may last before the run stops; 0: for ever", least=0
    )

    def stages(self) -> list[Stage]:
        return [Stage(name="train", epochs=self.epochs, learning_rate=self.learning_rate)]


@dataclass(frozen=True, kw_only=True)
class SemiSupervisedTraining(Training):
    """Training on labeled and unlabeled rows."""

    unlabeled_batch: int = setting(500, "unlabeled rows in a batch", least=1)


@dataclass(frozen=True, kw_only=True)
class PretrainedTraining(Training):
    """Training that starts from a generative model: first without the margin (C = 0), then with it."""

    pretrain_epochs: int = setting(100, "epochs without the margin first; 0: none", least=0)
    pretrain_learning_rate: float = setting(1e-3, "Adam's rate in those epochs", above=0)

    def stages(self) -> list[Stage]:
        pretrain = Stage(
            name="pretrain",
            epochs=self.pretrain_epochs,
            learning_rate=self.pretrain_learning_rate,
            weights={"C": 0.0},
        )
        return [pretrain, *super().stages()] if self.pretrain_epochs else super().stages()


@dataclass(frozen=True, kw_only=True)
class ClassifierFirstTraining(Training):
    """Training that starts with the recognition network alone: the margin without the bound, without dropout."""

    classifier_epochs: int = setting(10, "epochs of the classifier alone first; 0: none", least=0)

    def stages(self) -> list[Stage]:
        classifier = Stage(
            name="classifier",
            epochs=self.classifier_epochs,
            learning_rate=self.learning_rate,
            weights={"generative_weight": 0.0, "encoder.dropout": 0.0},
        )
        return [classifier, *super().stages()] if self.classifier_epochs else super().stages()
