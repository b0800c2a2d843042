"""One training run: its stages, log intervals and checkpoints."""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor

from mmdgm.data.batches import Batches, Store
from mmdgm.devices import seeded
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.files import read_tensors, write_tensors
from mmdgm.progress import Record
from mmdgm.training.interruption import postponed
from mmdgm.training.optimizer import fill
from mmdgm.training.plan import Stage
from mmdgm.training.schedule import Schedule
from mmdgm.training.step import Execution, noise_seed

if TYPE_CHECKING:
    from mmdgm.training.trainer import Trainer

logger = logging.getLogger("mmdgm")


class Part(NamedTuple):
    """A stage of training with its rows."""

    stage: Stage
    settings: Any  # the settings of the model's objective in this stage
    batches: Batches
    steps: int
    first: int  # the number of its first step; rows and noise are functions of step numbers


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The result of training in numbers."""

    steps: int
    epochs: int
    planned_epochs: int
    seconds: float
    images_per_second: float
    start_seconds: float  # of compiling and capturing, not part of `seconds`
    execution: Execution


@dataclass
class Position:
    """The position in training: the part of a checkpoint that is not a tensor."""

    stage: int = 0
    step: int = 0  # within the stage
    seconds: float = 0.0
    start_seconds: float = 0.0  # of compiling and capturing
    trivial_steps: int = 0  # consecutive steps with a trivial solution
    taken: int = 0  # steps since the last log line
    sums: dict[str, float] = field(default_factory=dict)  # of the terms in these steps


class Loop:
    """One call of `Trainer.fit`: its position, and the parts of the loop."""

    def __init__(
        self,
        trainer: "Trainer",
        parts: list[Part],
        seed: int,
        checkpoint: Path | None,
        on_log: Sequence[Callable[[Record], None]],
        revise: Callable[[Store], None] | None,
        is_over: Callable[[], bool],
    ):
        self.trainer, self.model, self.training = trainer, trainer.model, trainer.training
        self.parts, self.seed, self.checkpoint, self.on_log = parts, seed, checkpoint, on_log
        self.revise, self.is_over = revise, is_over
        self.total_steps = sum(part.steps for part in parts)
        self.at = Position()
        self.restored_optimizer: dict[str, Tensor] = {}
        self.saved_at = time.monotonic()
        self.signals: list[int] = []  # that end the process when a checkpoint is saved

    def finish(self) -> Summary:
        """Run the rest of all stages, and return the summary."""
        self.model.train()
        images, epochs = 0, 0
        with postponed(self.checkpoint is not None) as self.signals, suppress(StopIteration):
            while self.at.stage < len(self.parts):
                self.run_stage()
                self.at.stage, self.at.step = self.at.stage + 1, 0
        if not self.weights_are_finite():
            self.stop("a weight became infinite or no number", "a lower learning_rate")
        for i, part in enumerate(self.parts[: self.at.stage + 1]):
            steps = part.steps if i < self.at.stage else self.at.step
            images += steps * sum(part.batches.sizes)
            epochs += steps // part.batches.steps_per_epoch
        return Summary(
            steps=self.steps_done(),
            epochs=epochs,
            planned_epochs=sum(part.stage.epochs for part in self.parts),
            seconds=self.at.seconds,
            images_per_second=images / max(self.at.seconds, 1e-9),
            start_seconds=self.at.start_seconds,
            execution=self.trainer.execution(self.total_steps),
        )

    def run_stage(self) -> None:
        """Run the rest of the current stage, one log interval after the other."""
        part = self.parts[self.at.stage]
        schedule = self.schedule(part)
        started = time.monotonic()
        self.stepper = self.trainer.stepper(part, self.trainer.execution(self.total_steps))
        fill(self.stepper.optimizer, dict(self.model.named_parameters()), self.restored_optimizer)
        self.restored_optimizer = {}
        self.at.start_seconds += time.monotonic() - started
        every = part.stage.log_every
        while self.at.step < part.steps:
            start, started = self.at.step, time.monotonic()
            end = min(((start - self.at.taken) // every + 1) * every, part.steps)
            self.run_interval(part, end, schedule)
            seconds = time.monotonic() - started
            self.at.seconds += seconds
            self.agree_on_signals()
            if self.signals and self.at.step < end:
                self.save_and_end()
            metrics = {name: total / self.at.taken for name, total in self.at.sums.items()}
            self.check(metrics, part, steps=self.at.taken)
            self.log(metrics, part, schedule.rate(self.at.step - 1), (self.at.step - start) / seconds)
            self.at.taken, self.at.sums = 0, {}
            if self.is_over():
                raise StopIteration
            if self.revise is not None and self.at.step < part.steps:
                with seeded(noise_seed(self.seed, self.steps_done(), -1)):
                    self.revise(self.stepper.store)
            if self.signals:
                self.save_and_end()
            self.save_if_due()

    def run_interval(self, part: Part, end: int, schedule: Schedule) -> None:
        """Take the steps up to this one, or stop early if `is_over` or a signal came; sum up the terms."""
        stride = self.trainer.interval(part.stage)
        while self.at.step < end:
            some = range(self.at.step, min(self.at.step + stride, end))
            number, means = self.stepper.run(
                part.batches,
                self.seed,
                range(part.first + some.start, part.first + some.stop),
                [schedule.rate(step) for step in some],
                [schedule.progress(step) for step in some],
                self.is_over,
            )
            self.at.sums = {name: self.at.sums.get(name, 0.0) + number * mean for name, mean in means.items()}
            self.at.step, self.at.taken = some.start + number, self.at.taken + number
            if self.is_over() or (self.signals and self.trainer.fabric.world_size == 1):
                break

    def agree_on_signals(self) -> None:
        """Let a signal that one of several processes got end all of them, after the same step."""
        fabric = self.trainer.fabric
        if fabric.world_size == 1 or self.checkpoint is None:
            return
        mine = torch.tensor(max(self.signals, default=0))
        number = int(cast(Tensor, fabric.all_reduce(mine, reduce_op="max")))
        if number and not self.signals:
            self.signals.append(number)

    def steps_done(self) -> int:
        """Return the number of steps so far, over all stages."""
        return sum(part.steps for part in self.parts[: self.at.stage]) + self.at.step

    def schedule(self, part: Part) -> Schedule:
        return Schedule(
            name=self.training.schedule,
            base=part.stage.learning_rate,
            total_steps=part.steps,
            steps_per_epoch=part.batches.steps_per_epoch,
            warmup_steps=part.stage.warmup_steps,
            decay_start=self.training.decay_start,
            decay_factor=self.training.decay_factor,
        )

    def check(self, metrics: dict[str, float], part: Part, *, steps: int) -> None:
        """Stop if the objective is not finite, or if a trivial solution has lasted too long."""
        broken = [name for name, value in metrics.items() if not abs(value) < float("inf")]
        if broken:
            self.stop(f"{', '.join(broken)} became infinite or no number", "a lower learning_rate")
        trivial = self.model.trivial_solution(metrics, part.settings)
        self.at.trivial_steps = self.at.trivial_steps + steps if trivial else 0
        if trivial and 0 < self.training.patience <= self.at.trivial_steps:
            remedy = "a lower learning_rate, more warmup_steps, or another seed"
            self.stop(f"for {self.at.trivial_steps} steps {trivial}", remedy)

    def stop(self, reason: str, remedy: str) -> None:
        kept = ""
        if self.checkpoint is not None and self.checkpoint.exists():
            step = checkpoint_step(self.checkpoint)
            kept = f"; the last good checkpoint, step {step}, is kept in {self.checkpoint}"
        raise TrainingStopped(f"stopped at step {self.steps_done()}: {reason}; try {remedy}{kept}")

    def log(self, metrics: dict[str, float], part: Part, rate: float, steps_per_second: float) -> None:
        before = sum(earlier.stage.epochs for earlier in self.parts[: self.at.stage])
        record = Record(
            stage=part.stage.name,
            step=self.steps_done(),
            total_steps=self.total_steps,
            epoch=before + self.at.step / part.batches.steps_per_epoch,
            total_epochs=sum(part.stage.epochs for part in self.parts),
            learning_rate=rate,
            metrics=metrics,
            images_per_second=steps_per_second * sum(part.batches.sizes),
            seconds=self.at.seconds,
        )
        for listener in self.on_log:
            listener(record)

    # --- checkpoints -------------------------------------------------------------------------------------

    def save_if_due(self) -> None:
        if time.monotonic() - self.saved_at >= self.training.checkpoint_seconds:
            self.save_if_good()

    def save_and_end(self) -> None:
        self.save_if_good()
        self.trainer.fabric.barrier()  # the launcher ends the first process soon after another one has ended
        raise StopIteration

    def save_if_good(self) -> None:
        """Save, but never replace a good checkpoint with a bad state. Training goes on if a file cannot be written."""
        good = self.at.trivial_steps == 0 or self.training.patience == 0
        first = self.trainer.fabric.is_global_zero
        if self.checkpoint is not None and first and good and self.weights_are_finite():
            try:
                self.save(self.checkpoint)
            except InputError as error:
                logger.warning("mmdgm: no checkpoint of step %d: %s", self.steps_done(), error)
            self.saved_at = time.monotonic()

    def weights_are_finite(self) -> bool:
        """Return whether all weights are finite. The terms cannot show it: a step computes them before its update."""
        return all(bool(value.isfinite().all()) for value in self.model.state_dict().values())

    def save(self, checkpoint: Path) -> None:
        """Write everything that the rest of the run depends on."""
        tensors = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        optimizer = self.stepper.optimizer
        for name, parameter in self.model.named_parameters():
            for kind, value in optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer/{name}/{kind}"] = value
        if self.revise is not None and self.trainer.store is not None:
            tensors["store/x"] = self.trainer.store.x
        write_tensors(checkpoint, tensors, {**vars(self.at), "total_step": self.steps_done()})

    def restore(self, checkpoint: Path) -> None:
        """Restore the state of a checkpoint."""
        try:
            self._restore(*read_tensors(checkpoint))
        except InputError:
            raise
        except (LookupError, TypeError, ValueError, RuntimeError):
            raise InputError(f"{checkpoint}: is of another model or version; delete it and train again") from None

    def _restore(self, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
        metadata.pop("total_step")
        self.at = Position(**metadata)
        groups: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}, "store": {}}
        for key, value in tensors.items():
            group, _, name = key.partition("/")
            groups[group][name] = value
        self.model.load_state_dict(groups["model"])
        self.restored_optimizer = groups["optimizer"]
        if groups["store"] and self.trainer.store is not None:
            self.trainer.store.x.copy_(groups["store"]["x"])


def checkpoint_step(checkpoint: Path) -> int:
    """Return the step, over all stages, of a checkpoint; 0 if there is no checkpoint."""
    if not checkpoint.exists():
        return 0
    step = read_tensors(checkpoint)[1].get("total_step")
    if not isinstance(step, int):
        raise InputError(f"{checkpoint}: is no checkpoint; delete it and train again")
    return step
