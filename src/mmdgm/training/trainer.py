"""The only training loop: stages, schedule, execution of the steps, checkpoints.

A run is a function of (settings, data, seed). A checkpoint holds the model, the optimizer and the step; rates,
batches and noise are functions of the step. So a resumed run computes what the uninterrupted one would have, on
the CPU to the last bit.
"""

import logging
import operator
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from mmdgm.data.batches import Batches, Store
from mmdgm.devices import make_fabric, trying_algorithms
from mmdgm.errors import InputError, TrainingStopped, one_line
from mmdgm.files import read_metadata, read_tensors, write_tensors
from mmdgm.models import VAE
from mmdgm.progress import Record
from mmdgm.training.optimizer import make_adam
from mmdgm.training.plan import Stage, Training
from mmdgm.training.schedule import Schedule
from mmdgm.training.step import Execution, Objective, Stepper

logger = logging.getLogger("mmdgm")
# steps after which the start, up to a minute on a GPU, has been made up for
COMPILING_PAYS = {"cuda": 25_000, "cpu": 10_000}
COMPILE_OPTIONS: dict[str, str | int | bool | Callable[..., Any]] = {
    # random draws as in eager mode and in its order, so that a seed means the same
    "fallback_random": True,
    "reorder_for_peak_memory": False,
}


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What training came to."""

    steps: int
    epochs: int
    seconds: float
    images_per_second: float
    start_seconds: float  # of compiling and capturing, beside `seconds`
    execution: Execution


@dataclass
class _Progress:
    """Where training is: the part of a checkpoint that is not a tensor."""

    stage: int = 0
    step: int = 0  # within the stage
    seconds: float = 0.0
    start_seconds: float = 0.0  # of compiling and capturing
    trivial_steps: int = 0  # consecutive steps that a trivial solution has lasted


class Trainer:
    """A model on its device, ready to be trained, and trained again with other weights and data.

    All calls of `fit` share one compilation and one capture: give every seed the same trainer.
    """

    def __init__(
        self,
        model: VAE,
        settings: Training,
        *,
        device: str = "auto",
        fabric: Fabric | None = None,
        runs: int = 1,  # calls of `fit` to come: compiling pays when there is much to do
        stride: int | None = None,  # steps that are planned ahead, at most; None: a log interval
    ):
        self.settings, self.model, self.runs = settings, model, runs
        self.stride = min(stride or settings.log_every, settings.log_every)
        self.fabric = fabric or make_fabric(device, precision=settings.precision)
        model.to(self.fabric.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._objective = Objective(model)
        self._modules: dict[bool, nn.Module] = {}  # the objective, by whether it is compiled
        self._steppers: dict[str, Stepper] = {}  # by stage
        self._failed: set[Execution] = set()

    @property
    def device(self) -> torch.device:
        return self.fabric.device

    def execution(self, batches: Batches) -> Execution:
        """How steps are executed: as the settings say, or what pays; less, where that has failed."""
        alone, on_gpu = self.fabric.world_size == 1, self.device.type == "cuda"
        wanted = self.settings.execution
        if wanted == "auto":
            steps = self.runs * batches.steps_per_epoch * sum(stage.epochs for stage in self.settings.stages())
            if on_gpu:
                wanted = "compiled+captured" if steps >= COMPILING_PAYS["cuda"] else "captured"
            else:
                wanted = "compiled" if steps >= COMPILING_PAYS["cpu"] and compiles_well(self.model) else "plain"
            wanted = wanted if alone else "plain"
        if wanted in ("captured", "compiled+captured") and not (on_gpu and alone):
            raise InputError(f"execution={wanted}: steps are captured on a single GPU only; use auto")
        while wanted in self._failed:
            wanted = "captured" if wanted == "compiled+captured" else "plain"
        return wanted

    def check(self, batches: Batches) -> None:
        """Refuse what cannot be trained; `fit` does, and whoever writes something first should."""
        if not batches.steps_per_epoch:
            raise InputError("there are no rows to train on")
        self.execution(batches)
        batches.rows(range(1), rank=self.fabric.global_rank, world_size=self.fabric.world_size)

    def compiles_next(self, batches: Batches) -> bool:
        """Whether the next `fit` begins with a compilation."""
        return not self._steppers and self.execution(batches).startswith("compiled")

    def fit(
        self,
        batches: Batches,
        *,
        checkpoint: Path | None = None,
        resume: bool = False,
        on_log: Sequence[Callable[[Record], None]] = (),
        revise: Callable[[Store], None] | None = None,
        is_over: Callable[[], bool] | None = None,
    ) -> Summary:
        """Train through all stages; with `resume`, go on from the checkpoint where there is one.

        `revise` may rewrite the stored images after every log interval (what is filled in for missing values). A
        listener that raises StopIteration ends training there; so does `is_over`, asked every `stride` steps.
        """
        self.check(batches)
        run = _Run(self, batches, checkpoint, on_log, revise, is_over)
        if resume and checkpoint is not None and checkpoint.exists():
            run.restore(checkpoint)
        with trying_algorithms():
            return run.finish()

    def stepper(self, stage: Stage, batches: Batches) -> Stepper:
        """What takes the steps of a stage, with a fresh optimizer: the one of an earlier run, or a new one.

        Where compiling or capturing fails, it says so and goes on without, for good.
        """
        self._objective.reads(batches)
        stepper = self._steppers.get(stage.name)
        if stepper is not None and stepper.fits(batches):
            stepper.load(batches)
            stepper.optimizer.reset()
            return stepper
        self._steppers.pop(stage.name, None)
        while True:
            execution = self.execution(batches)
            try:
                with trying_algorithms():  # a captured step keeps what it chose
                    self._steppers[stage.name] = self._prepare(execution, stage, batches)
                return self._steppers[stage.name]
            except InputError:
                raise
            except Exception as error:
                if execution == "plain":
                    raise
                self._failed.add(execution)
                self._steppers.clear()  # a failed capture takes the generator from the graphs before it
                reason, instead = one_line(error), self.execution(batches)
                logger.warning("mmdgm: a %s step failed (%s); going on %s", execution, reason, instead)
                logger.debug("the failure in full", exc_info=error)

    def _prepare(self, execution: Execution, stage: Stage, batches: Batches) -> Stepper:
        compiled = execution in ("compiled", "compiled+captured")
        captured = execution in ("captured", "compiled+captured")
        if compiled not in self._modules:
            self._modules[compiled] = compile_objective(self._objective) if compiled else self._objective
            if self.fabric.world_size > 1:  # alone, Fabric's wrapper would only cost a tenth of a millisecond
                self._modules[compiled] = self.fabric.setup_module(self._modules[compiled])
        rate = torch.tensor(stage.learning_rate, device=self.device)
        stepper = Stepper(
            self.fabric,
            self._modules[compiled],
            make_adam(self.model, rate, weight_decay=self.settings.weight_decay),
            rate,
            self.model.left,
            batches,
            interval=self.stride,
            captured=captured,
        )
        if execution != "plain":
            state = {name: value.clone() for name, value in self.model.state_dict().items()}
            try:
                with warnings.catch_warnings():
                    # float32 means float32 here: faster formats are a setting
                    warnings.filterwarnings("ignore", message="TensorFloat32 tensor cores")
                    stepper.warm_up(batches)
            finally:
                self.model.load_state_dict(state)
            stepper.optimizer.reset()
        return stepper


def compile_objective(objective: Objective) -> nn.Module:
    """An objective that is compiled when it is first called, for the shapes that it is called with.

    What was compiled for other objectives is forgotten: torch counts all of them as versions of one function, and
    after eight goes on uncompiled without a word. They are compiled again if they are called again.
    """
    torch.compiler.reset()
    return cast(nn.Module, torch.compile(objective, dynamic=False, options=COMPILE_OPTIONS))


def compiles_well(model: nn.Module) -> bool:
    """Whether compiling makes its steps faster on a CPU: those of MLPs by a tenth, those of conv nets slower."""
    has_compiler = any(map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++")))
    return has_compiler and not any(isinstance(part, nn.Conv2d) for part in model.modules())


class _Run:
    """One call of `Trainer.fit`: its position, and the steps that the loop is made of."""

    def __init__(
        self,
        trainer: Trainer,
        batches: Batches,
        checkpoint: Path | None,
        on_log: Sequence[Callable[[Record], None]],
        revise: Callable[[Store], None] | None,
        is_over: Callable[[], bool] | None,
    ):
        self.revise, self.is_over = revise, is_over or (lambda: False)
        self.trainer, self.fabric, self.model = trainer, trainer.fabric, trainer.model
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
        steps = sum(self.stage_steps)
        try:
            while self.at.stage < len(self.stages):
                self.run_stage()
                self.at.stage, self.at.step = self.at.stage + 1, 0
        except StopIteration:
            steps = self.steps_before() + self.at.step
        self.model.left.fill_(1)
        if not self.weights_are_finite():
            self.stop("a weight became infinite or no number", "a lower learning_rate")
        seconds = self.at.seconds
        return Summary(
            steps=steps,
            epochs=steps // self.batches.steps_per_epoch,
            seconds=seconds,
            images_per_second=steps * self.batches.rows_per_step / max(seconds, 1e-9),
            start_seconds=self.at.start_seconds,
            execution=self.trainer.execution(self.batches),
        )

    def run_stage(self) -> None:
        """Run what is left of the current stage, log interval by log interval."""
        stage, total = self.stages[self.at.stage], self.stage_steps[self.at.stage]
        schedule = self.schedule(stage, total)
        with replaced_attributes(self.model, stage.weights):
            started = time.monotonic()
            self.stepper = self.trainer.stepper(stage, self.batches)
            self.stepper.optimizer.fill(dict(self.model.named_parameters()), self.restored_optimizer)
            self.restored_optimizer = {}
            self.at.start_seconds += time.monotonic() - started
            while self.at.step < total:
                start, started = self.at.step, time.monotonic()
                end = min((start // self.settings.log_every + 1) * self.settings.log_every, total)
                taken, metrics = self.run_interval(range(start, end), schedule)
                self.at.step += taken
                seconds = time.monotonic() - started
                self.at.seconds += seconds
                self.check(metrics, steps=taken)
                self.log(metrics, schedule.rate(self.at.step - 1), taken / seconds)
                self.save_if_due()
                if self.is_over():
                    raise StopIteration
                if self.revise is not None and self.at.step < total:
                    self.revise(self.stepper.store)

    def run_interval(self, steps: range, schedule: Schedule) -> tuple[int, dict[str, float]]:
        """Take steps of the stage, all or until it is over; returns how many, and the means of the terms."""
        before, taken = self.steps_before(), 0
        sums: dict[str, float] = {}
        for start in range(steps.start, steps.stop, self.trainer.stride):
            part = range(start, min(start + self.trainer.stride, steps.stop))
            rates, lefts = ([of(step) for step in part] for of in (schedule.rate, schedule.left))
            numbers = range(before + part.start, before + part.stop)
            means = self.stepper.run(self.batches, numbers, rates, lefts)
            sums = {name: sums.get(name, 0.0) + len(part) * mean for name, mean in means.items()}
            taken += len(part)
            if self.is_over():
                break
        return taken, {name: total / taken for name, total in sums.items()}

    def steps_before(self) -> int:
        """Steps of the stages before the current one."""
        return sum(self.stage_steps[: self.at.stage])

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
        if (
            self.checkpoint is not None
            and self.fabric.is_global_zero
            and due
            and good
            and self.weights_are_finite()
        ):
            self.save(self.checkpoint)
            self.saved_at = time.monotonic()

    def weights_are_finite(self) -> bool:
        """The terms of a step are computed before its update, so they do not tell."""
        return all(bool(value.isfinite().all()) for value in self.model.state_dict().values())

    def save(self, checkpoint: Path) -> None:
        """Write all that the rest of the run depends on."""
        tensors = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        optimizer = self.stepper.optimizer
        for name, parameter in self.model.named_parameters():
            for kind, value in optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer/{name}/{kind}"] = value
        total_step = self.steps_before() + self.at.step
        write_tensors(checkpoint, tensors, {**vars(self.at), "total_step": total_step})

    def restore(self, checkpoint: Path) -> None:
        """Take up the state of a checkpoint."""
        tensors, metadata = read_tensors(checkpoint)
        metadata.pop("total_step")
        self.at = _Progress(**metadata)
        part: dict[str, dict[str, Tensor]] = {"model": {}, "optimizer": {}}
        for key, value in tensors.items():
            group, _, name = key.partition("/")
            part[group][name] = value
        self.model.load_state_dict(part["model"])
        self.restored_optimizer = part["optimizer"]


def checkpoint_step(checkpoint: Path) -> int:
    """The step, over all stages, at which a checkpoint was made; 0 where there is none."""
    return int(read_metadata(checkpoint)["total_step"]) if checkpoint.exists() else 0


@contextmanager
def replaced_attributes(target: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """Give an object, or its parts (`part.name`), other attribute values for a while."""
    before = {name: operator.attrgetter(name)(target) for name in values}
    for name, value in values.items():
        _set_attribute(target, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            _set_attribute(target, name, value)


def _set_attribute(target: Any, name: str, value: Any) -> None:
    parent, _, last = name.rpartition(".")
    setattr(operator.attrgetter(parent)(target) if parent else target, last, value)
