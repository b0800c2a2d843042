"""The only trainer of the project: stages, schedule, execution of the steps, checkpoints.

A run is a function of (settings, data, seed). A checkpoint holds the model, the optimizer and the step. Rates,
batches and noise are functions of the step. So a resumed run gives the same result as an uninterrupted one, on the
CPU to the last bit.
"""

import logging
import os
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from torch import nn

from mmdgm.data.batches import Batches, Reading, Store
from mmdgm.devices import Machine, make_fabric, trying_algorithms
from mmdgm.errors import InputError, one_line
from mmdgm.models import Trainable
from mmdgm.progress import Record
from mmdgm.training.loop import Loop, Part, Summary
from mmdgm.training.optimizer import make_adam, reset
from mmdgm.training.plan import Stage, Training
from mmdgm.training.step import Execution, Objective, Stepper

logger = logging.getLogger("mmdgm")
# number of steps from which compiling, up to a minute on a GPU, saves time
COMPILING_PAYS = {"cuda": 25_000, "cpu": 10_000}
COMPILE_OPTIONS: dict[str, str | int | bool | Callable[..., Any]] = {
    # draw the same random numbers in the same order as eager mode, so that a seed means the same
    "fallback_random": True,
    "reorder_for_peak_memory": False,
}


class Trainer:
    """Trains a model on its device, as often as needed, with other weights and data each time.

    All calls of `fit` share one compilation and one capture, so use the same trainer for every seed.
    """

    def __init__(
        self,
        model: Trainable,
        training: Training,
        *,
        device: str = "auto",
        fabric: Fabric | None = None,
        runs: int = 1,  # expected calls of `fit`; compiling pays if there are many steps
        stride: int | None = None,  # most steps to plan ahead; None: a log interval
    ):
        self.training, self.model, self.runs, self.stride = training, model, runs, stride
        self.fabric = fabric or make_fabric(Machine(device), precision=training.precision)
        model.to(self.fabric.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.store: Store | None = None  # the rows of the latest `fit`
        self._objective = Objective(model)
        self._modules: dict[bool, nn.Module] = {}  # keys: whether the objective is compiled
        self._steppers: dict[str, Stepper] = {}  # by stage
        self._failed: set[Execution] = set()

    @property
    def device(self) -> torch.device:
        return self.fabric.device

    def parts(self, store: Store, seed: int) -> list[Part]:
        """Return the stages with their batches of a store's rows. The store may be on any device.

        Step numbers continue from stage to stage. Stages with another label source have their own count.
        """
        parts: list[Part] = []
        for stage in self.training.stages():
            batches = Batches(
                store.labels(stage.labels),
                labeled_batch=stage.batch,
                unlabeled_batch=stage.unlabeled_batch,
                seed=seed,
            )
            settings = replace(self.model.settings, **stage.changes)
            first = sum(part.steps for part in parts if part.stage.labels == stage.labels)
            parts.append(Part(stage, settings, batches, stage.epochs * batches.steps_per_epoch, first))
        return parts

    def execution(self, steps: int) -> Execution:
        """Return the execution mode for this many steps: from the settings, or the fastest; simpler if that failed."""
        alone, on_gpu = self.fabric.world_size == 1, self.device.type == "cuda"
        wanted = self.training.execution
        if wanted == "auto":
            pays = self.runs * steps >= COMPILING_PAYS[self.device.type]
            if on_gpu:
                wanted = "compiled+captured" if pays else "captured"
            else:
                wanted = "compiled" if pays and compiles_well(self.model) else "plain"
            wanted = wanted if alone else "plain"
        if wanted in ("captured", "compiled+captured") and not (on_gpu and alone):
            raise InputError(f"execution={wanted}: steps are captured on a single GPU only; use auto")
        while wanted in self._failed:
            wanted = "captured" if wanted == "compiled+captured" else "plain"
        return wanted

    def check(self, store: Store) -> None:
        """Raise InputError if these rows cannot be trained on. `fit` calls it; call it before writing files."""
        parts = self.parts(store, seed=0)
        if not all(part.steps for part in parts):
            raise InputError("there are no rows to train on")
        self.execution(sum(part.steps for part in parts))
        for part in parts:
            part.batches.rows(range(1), rank=self.fabric.global_rank, world_size=self.fabric.world_size)

    def compiles_next(self, store: Store) -> bool:
        """Return whether the next `fit` starts with a compilation."""
        steps = sum(part.steps for part in self.parts(store, seed=0))
        return not self._steppers and self.execution(steps).startswith("compiled")

    def fit(
        self,
        store: Store,
        *,
        seed: int,
        reading: Reading = Reading(),
        checkpoint: Path | None = None,
        resume: bool = False,
        on_log: Sequence[Callable[[Record], None]] = (),
        revise: Callable[[Store], None] | None = None,
        is_over: Callable[[], bool] = lambda: False,
    ) -> Summary:
        """Train through all stages; with `resume`, continue from the checkpoint if there is one.

        The rows are copied to the device. After every log interval, `revise` may rewrite the filled-in missing
        values. Training ends when a listener raises StopIteration, or when `is_over`, called every `stride` steps,
        returns True.
        """
        self.check(store)
        self.take(store, reading)
        assert self.store is not None
        loop = Loop(self, self.parts(self.store, seed), seed, checkpoint, on_log, revise, is_over)
        if resume and checkpoint is not None and checkpoint.exists():
            loop.restore(checkpoint)
        with trying_algorithms():
            return loop.finish()

    def take(self, store: Store, reading: Reading) -> None:
        """Copy the rows of the next steps to the device. A captured step reads from fixed addresses."""
        self._objective.reading = reading
        shapes = [None if part is None else (part.shape, part.dtype) for part in store]
        own = self.store or ()
        if [None if part is None else (part.shape, part.dtype) for part in own] != shapes:
            self.store = Store(*(None if part is None else part.to(self.device, copy=True) for part in store))  # type: ignore[arg-type]
            self._steppers.clear()
            return
        for part, new in zip(own, store, strict=True):
            if part is not None and new is not None:
                part.copy_(new)

    def stepper(self, part: Part, execution: Execution) -> Stepper:
        """Return the stepper of a stage, from an earlier run or new, with a fresh optimizer.

        If compiling or capturing fails, the trainer logs a warning and never tries it again.
        """
        assert self.store is not None
        self._objective.settings = part.settings
        self._objective.labeled = part.batches.sizes[0] // self.fabric.world_size
        labels = self.store.labels(part.stage.labels)
        earlier = self._steppers.pop(part.stage.name, None)
        if earlier is not None and earlier.take_over(labels, part.batches):
            self._steppers[part.stage.name] = earlier
            return earlier
        store = self.store if part.stage.labels == "given" else self.store._replace(y=labels)
        while True:
            try:
                with trying_algorithms():  # a captured step keeps the chosen algorithms
                    self._steppers[part.stage.name] = self._prepare(execution, part, store)
                return self._steppers[part.stage.name]
            except InputError:
                raise
            except Exception as error:
                if execution == "plain":
                    raise
                self._failed.add(execution)
                self._steppers.clear()  # a failed capture detaches the generator from earlier graphs
                reason, failed, execution = one_line(error), execution, self.execution(part.steps)
                logger.warning("mmdgm: a %s step failed (%s); going on %s", failed, reason, execution)
                logger.debug("the failure in full", exc_info=error)

    def _prepare(self, execution: Execution, part: Part, store: Store) -> Stepper:
        compiled = execution in ("compiled", "compiled+captured")
        if compiled not in self._modules:
            self._modules[compiled] = compile_objective(self._objective) if compiled else self._objective
            if self.fabric.world_size > 1:  # in one process, Fabric's wrapper would only cost a tenth of a millisecond
                self._modules[compiled] = self.fabric.setup_module(self._modules[compiled])
        rate = torch.tensor(part.stage.learning_rate, device=self.device)
        stepper = Stepper(
            self.fabric,
            self._modules[compiled],
            make_adam(
                self.model,
                rate,
                weight_decay=self.training.weight_decay,
                beta2=self.training.beta2,
                decoupled=self.training.decoupled_decay,
            ),
            rate,
            store,
            part.batches,
            interval=self.interval(part.stage),
            captured=execution in ("captured", "compiled+captured"),
        )
        if execution != "plain":
            state = {name: value.clone() for name, value in self.model.state_dict().items()}
            try:
                with warnings.catch_warnings():
                    # float32 means float32 here; faster formats are a setting
                    warnings.filterwarnings("ignore", message="TensorFloat32 tensor cores")
                    stepper.warm_up(part.batches)
            finally:
                self.model.load_state_dict(state)
            reset(stepper.optimizer)
        return stepper

    def interval(self, stage: Stage) -> int:
        """Return the largest number of steps of a stage to plan ahead."""
        return min(self.stride or stage.log_every, stage.log_every)


def compile_objective(objective: Objective) -> nn.Module:
    """Return an objective that is compiled at its first call, for the shapes of that call.

    This deletes the compiled code of other objectives, which are compiled again at their next call. torch counts
    all objectives as versions of one function, and after eight versions it silently stops compiling.
    """
    torch.compiler.reset()
    return cast(nn.Module, torch.compile(objective, dynamic=False, options=COMPILE_OPTIONS))


def compiles_well(model: nn.Module) -> bool:
    """Return whether compiling makes steps faster on a CPU: MLPs get a tenth faster, conv nets get slower."""
    has_compiler = any(map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++")))
    return has_compiler and not any(isinstance(part, nn.Conv2d) for part in model.modules())
