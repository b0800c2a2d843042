"""The only training loop: stages, schedule, precision, compilation, device, checkpoints.

A run is a function of (settings, data, seed). A checkpoint holds the model, the optimizer, the random state and
the step; rates and batches are functions of the step. So a resumed run computes what the uninterrupted one would
have, on the CPU to the last bit.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from mmdgm.batches import Batches
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.models import VAE
from mmdgm.persistence import read_metadata, read_tensors, write_tensors
from mmdgm.schedules import Schedule, ScheduleName
from mmdgm.settings import setting


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of training with its own length, rate and optimizer; `weights` replaces weights of the objective."""

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
    precision: Literal["32-true", "bf16-mixed"] = setting("32-true", "number format of the computation")
    compile: bool = setting(False, "compile the model with torch.compile")
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
class Record:
    """One log line: where training is, and the means of the objective's terms since the last line."""

    stage: str
    step: int  # steps done, over all stages
    total_steps: int
    epoch: float  # epochs done, over all stages
    total_epochs: int
    learning_rate: float
    metrics: dict[str, float]
    images_per_second: float
    seconds: float  # of training, over all resumed parts


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What training came to."""

    steps: int
    epochs: int
    seconds: float
    images_per_second: float


@dataclass
class _Progress:
    """Where training is: the part of a checkpoint that is not a tensor."""

    stage: int = 0
    step: int = 0  # within the stage
    seconds: float = 0.0
    trivial_steps: int = 0  # consecutive steps that a trivial solution has lasted


class Trainer:
    """A model on its device, ready to be trained, and trained again with other weights and data.

    With `compile`, all calls of `fit` share one compilation: give every seed the same trainer.
    """

    def __init__(self, model: VAE, settings: Training, *, device: str = "auto"):
        self.settings, self.model = settings, model
        self.fabric = Fabric(accelerator=device, devices=1, precision=settings.precision)
        module: nn.Module = torch.compile(model) if settings.compile else model  # type: ignore[assignment]
        self._module = self.fabric.setup_module(module)
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @property
    def device(self) -> torch.device:
        return self.fabric.device

    def fit(
        self,
        batches: Batches,
        *,
        checkpoint: Path | None = None,
        resume: bool = False,
        on_log: Sequence[Callable[[Record], None]] = (),
    ) -> Summary:
        """Train through all stages; with `resume`, go on from the checkpoint where there is one."""
        if not batches.steps_per_epoch:
            raise InputError("there are no rows to train on")
        run = _Run(self, batches, checkpoint, on_log)
        if resume and checkpoint is not None and checkpoint.exists():
            run.restore(checkpoint)
        return run.finish()


class _Run:
    """One call of `Trainer.fit`: its position, and the steps that the loop is made of."""

    def __init__(
        self,
        trainer: Trainer,
        batches: Batches,
        checkpoint: Path | None,
        on_log: Sequence[Callable[[Record], None]],
    ):
        self.fabric, self.model, self.module = trainer.fabric, trainer.model, trainer._module
        self.settings, self.batches, self.checkpoint, self.on_log = (
            trainer.settings,
            batches,
            checkpoint,
            on_log,
        )
        self.stages = self.settings.stages()
        self.stage_steps = [stage.epochs * batches.steps_per_epoch for stage in self.stages]
        self.at = _Progress()
        self.restored_optimizer: dict[str, Tensor] = {}
        self.saved_at = time.monotonic()

    def finish(self) -> Summary:
        """Run what is left of all stages."""
        self.model.train()
        while self.at.stage < len(self.stages):
            self.run_stage()
            self.at.stage, self.at.step = self.at.stage + 1, 0
        if not self.weights_are_finite():
            self.stop("a weight became infinite or no number", "a lower learning_rate")
        steps, seconds = sum(self.stage_steps), self.at.seconds
        return Summary(
            steps=steps,
            epochs=sum(stage.epochs for stage in self.stages),
            seconds=seconds,
            images_per_second=steps * self.batches.rows_per_step / max(seconds, 1e-9),
        )

    def run_stage(self) -> None:
        """Run what is left of the current stage, log interval by log interval."""
        stage, total = self.stages[self.at.stage], self.stage_steps[self.at.stage]
        self.optimizer = self.make_optimizer(stage)
        schedule = self.schedule(stage, total)
        with replaced_attributes(self.model, stage.weights):
            while self.at.step < total:
                start, started = self.at.step, time.monotonic()
                self.at.step = min((start // self.settings.log_every + 1) * self.settings.log_every, total)
                metrics = self.run_interval(range(start, self.at.step), schedule)
                seconds = time.monotonic() - started
                self.at.seconds += seconds
                self.check(metrics, steps=self.at.step - start)
                self.log(metrics, schedule.rate(self.at.step - 1), (self.at.step - start) / seconds)
                self.save_if_due()

    def run_interval(self, steps: range, schedule: Schedule) -> dict[str, float]:
        """Take some steps; the means of the terms leave the device once, at the end."""
        names: tuple[str, ...] = ()
        sums: Tensor | None = None
        offset = self.steps_before()
        for step in steps:
            for group in self.optimizer.param_groups:
                group["lr"] = schedule.rate(step)
            terms = self.module(self.batches[offset + step])
            self.fabric.backward(terms.loss)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            means = torch.stack([term.detach().float().mean() for term in terms])
            names, sums = terms._fields, means if sums is None else sums + means
        assert sums is not None
        return dict(zip(names, (sums / len(steps)).tolist(), strict=True))

    def steps_before(self) -> int:
        """Steps of the stages before the current one."""
        return sum(self.stage_steps[: self.at.stage])

    def make_optimizer(self, stage: Stage) -> torch.optim.Optimizer:
        """Adam; weight decay on weights alone. Takes over a restored state, once."""
        parameters = dict(self.model.named_parameters())
        weights = [p for p in parameters.values() if p.ndim > 1]
        others = [p for p in parameters.values() if p.ndim <= 1]
        groups = [
            {"params": weights, "weight_decay": self.settings.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        optimizer = torch.optim.Adam(groups, lr=stage.learning_rate, fused=True)
        for key, value in self.restored_optimizer.items():
            name, _, kind = key.rpartition("/")
            parameter = parameters[name]
            if value.shape == parameter.shape:
                # fused Adam walks through memory: moments must lie as the (channels-last) parameter does
                value = torch.empty_like(parameter).copy_(value)
            optimizer.state[parameter][kind] = value.to(self.fabric.device)
        self.restored_optimizer = {}
        return cast(torch.optim.Optimizer, self.fabric.setup_optimizers(optimizer))

    def schedule(self, stage: Stage, total: int) -> Schedule:
        s = self.settings
        return Schedule(
            name=s.schedule,
            base=stage.learning_rate,
            total_steps=total,
            steps_per_epoch=self.batches.steps_per_epoch,
            warmup_steps=s.warmup_steps,
            decay_start=s.decay_start,
            decay_every=s.decay_every,
            decay_factor=s.decay_factor,
        )

    def check(self, metrics: dict[str, float], *, steps: int) -> None:
        """Stop when the objective is no number, or has long shown a trivial solution."""
        broken = [name for name, value in metrics.items() if not abs(value) < float("inf")]
        if broken:
            self.stop(f"{', '.join(broken)} became infinite or no number", "a lower learning_rate")
        trivial = self.model.trivial_solution(metrics)
        self.at.trivial_steps = self.at.trivial_steps + steps if trivial else 0
        if trivial and 0 < self.settings.patience <= self.at.trivial_steps:
            remedy = "a lower learning_rate, more warmup_steps, or another seed"
            self.stop(f"for {self.at.trivial_steps} steps {trivial}", remedy)

    def stop(self, reason: str, remedy: str) -> None:
        step = self.steps_before() + self.at.step
        kept = ""
        if self.checkpoint is not None and self.checkpoint.exists():
            kept_step = checkpoint_step(self.checkpoint)
            kept = f"; the last good checkpoint, step {kept_step}, is kept in {self.checkpoint}"
        raise TrainingStopped(f"stopped at step {step}: {reason}; try {remedy}{kept}")

    def log(self, metrics: dict[str, float], rate: float, steps_per_second: float) -> None:
        step = self.steps_before() + self.at.step
        record = Record(
            stage=self.stages[self.at.stage].name,
            step=step,
            total_steps=sum(self.stage_steps),
            epoch=step / self.batches.steps_per_epoch,
            total_epochs=sum(stage.epochs for stage in self.stages),
            learning_rate=rate,
            metrics=metrics,
            images_per_second=steps_per_second * self.batches.rows_per_step,
            seconds=self.at.seconds,
        )
        for listener in self.on_log:
            listener(record)

    # --- checkpoints -------------------------------------------------------------------------------------

    def save_if_due(self) -> None:
        """Save now and then, but never over a good checkpoint with a bad state."""
        due = time.monotonic() - self.saved_at >= self.settings.checkpoint_seconds
        good = self.at.trivial_steps == 0 or self.settings.patience == 0
        if self.checkpoint is not None and due and good and self.weights_are_finite():
            self.save(self.checkpoint)
            self.saved_at = time.monotonic()

    def weights_are_finite(self) -> bool:
        """The terms of a step are computed before its update, so they do not tell."""
        return all(bool(value.isfinite().all()) for value in self.model.state_dict().values())

    def save(self, checkpoint: Path) -> None:
        """Write all that the rest of the run depends on."""
        tensors = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            for kind, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer/{name}/{kind}"] = value
        tensors["random/cpu"] = torch.get_rng_state()
        if self.fabric.device.type == "cuda":
            tensors["random/cuda"] = torch.cuda.get_rng_state(self.fabric.device)
        total_step = self.steps_before() + self.at.step
        write_tensors(checkpoint, tensors, {**vars(self.at), "total_step": total_step})

    def restore(self, checkpoint: Path) -> None:
        """Take up the state of a checkpoint."""
        tensors, metadata = read_tensors(checkpoint)
        metadata.pop("total_step")
        self.at = _Progress(**metadata)
        part: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "random": {}}
        for key, value in tensors.items():
            group, _, name = key.partition("/")
            part[group][name] = value
        self.model.load_state_dict(part["model"])
        self.restored_optimizer = part["optimizer"]
        torch.set_rng_state(part["random"]["cpu"])
        if self.fabric.device.type == "cuda" and "cuda" in part["random"]:
            torch.cuda.set_rng_state(part["random"]["cuda"], self.fabric.device)


def checkpoint_step(checkpoint: Path) -> int:
    """The step, over all stages, at which a checkpoint was made; 0 where there is none."""
    return int(read_metadata(checkpoint)["total_step"]) if checkpoint.exists() else 0


@contextmanager
def replaced_attributes(target: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """Give an object other attribute values for a while."""
    before = {name: getattr(target, name) for name in values}
    for name, value in values.items():
        setattr(target, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(target, name, value)
