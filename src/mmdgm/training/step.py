"""One training step: gather rows, compute the objective and its gradients, update. It has four execution modes.

plain               eager PyTorch
compiled            torch.compile runs the objective
captured            the whole step, with its update, is one CUDA graph, which the host only replays
compiled+captured   both

All modes run the same code and draw the same noise. They differ only in rounding. Row numbers, rates, sums and the
position are on the device, so the host reads nothing back between the steps of an interval.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Literal, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from mmdgm.data.batches import Batches, Reading, Store, gather
from mmdgm.devices import RANDOM, capture
from mmdgm.distributed import mean_over_ranks
from mmdgm.models import Trainable
from mmdgm.models.vae import Terms
from mmdgm.training.optimizer import reset

Execution = Literal["plain", "compiled", "captured", "compiled+captured"]


class Objective(nn.Module):
    """The compiled part of a step: it maps row numbers to the mean of each term of the objective."""

    def __init__(self, model: Trainable):
        super().__init__()
        self.model = model
        self.settings: Any = model.settings  # of the current stage
        self.reading, self.labeled = Reading(), 0

    def forward(self, store: Store, rows: Tensor, progress: Tensor) -> Terms:
        batch = gather(store, rows, labeled=self.labeled, reading=self.reading)
        terms = self.model(batch, progress=progress, settings=self.settings)
        return cast(Terms, type(terms)(*[term.float().mean() for term in terms]))


def noise_seed(seed: int, step: int, rank: int) -> int:
    """Return the seed of a step's random draws. Noise, rows and rates are all functions of the step."""
    return int.from_bytes(blake2b(f"{seed} {step} {rank}".encode(), digest_size=7).digest(), "big")


class Stepper:
    """Takes the steps of one stage. Several runs can share it, one after the other, if their data have one shape."""

    def __init__(
        self,
        fabric: Fabric,
        module: nn.Module,  # an Objective, perhaps compiled or in DDP
        optimizer: torch.optim.Adam,
        rate: Tensor,  # the optimizer's learning rate
        store: Store,
        batches: Batches,
        *,
        interval: int,
        captured: bool,
    ):
        self.fabric, self.module, self.optimizer, self.rate = fabric, module, optimizer, rate
        self.store, self.sizes, self.captured = store, batches.sizes, captured
        self.rows = self._share(batches, range(1)).new_zeros(interval, sum(batches.sizes) // fabric.world_size)
        self.rates = torch.zeros(interval, device=fabric.device)
        self.progress = torch.zeros(interval, dtype=torch.float64, device=fabric.device)
        self.position = torch.zeros(1, dtype=torch.int64, device=fabric.device)
        self.names: tuple[str, ...] = ()
        self.sums: Tensor | None = None
        self.graph: torch.cuda.CUDAGraph | None = None
        on_gpu = fabric.device.type == "cuda"
        self.generator = torch.cuda.default_generators[fabric.device.index or 0] if on_gpu else torch.default_generator

    def take_over(self, labels: Tensor, batches: Batches) -> bool:
        """Switch to the labels of another run, whose rows are in the store; return False if its batches do not fit."""
        if batches.sizes != self.sizes:
            return False
        self.store.y.copy_(labels)
        reset(self.optimizer)
        return True

    def run(
        self,
        batches: Batches,
        seed: int,
        steps: range,
        rates: Sequence[float],
        progress: Sequence[float],
        is_over: Callable[[], bool] = lambda: False,
    ) -> tuple[int, dict[str, float]]:
        """Take consecutive steps; return their number and the mean of each term, which alone leave the device.

        On a CPU, steps end early if `is_over`. A GPU takes its steps later than the host asks for them.
        """
        self._plan(batches, steps, rates, progress)
        taken, looks = 0, self.fabric.device.type == "cpu" and self.fabric.world_size == 1
        for step in steps:
            with RANDOM:
                self.generator.manual_seed(noise_seed(seed, step, self.fabric.global_rank))
                if self.graph is not None:
                    self.graph.replay()
                else:
                    self._step()
            taken += 1
            if looks and is_over():
                break
        assert self.sums is not None
        means = mean_over_ranks(self.sums / taken)
        return taken, dict(zip(self.names, means.tolist(), strict=True))

    def warm_up(self, batches: Batches) -> None:
        """Compile and capture, if wanted. This changes the weights, and the caller must restore them."""
        self._plan(batches, range(1), [0.0], [0.0])
        if self.captured:
            self.graph = capture(self._step, warm_up=self._first_step)
        else:
            self._step()

    def _first_step(self) -> None:
        self.position.zero_()
        self._step()

    def _share(self, batches: Batches, steps: range) -> Tensor:
        return batches.rows(steps, rank=self.fabric.global_rank, world_size=self.fabric.world_size)

    def _plan(self, batches: Batches, steps: range, rates: Sequence[float], progress: Sequence[float]) -> None:
        self.rows[: len(steps)].copy_(self._share(batches, steps))
        self.rates[: len(rates)].copy_(torch.tensor(rates))
        self.progress[: len(progress)].copy_(torch.tensor(progress, dtype=torch.float64))
        self.position.zero_()
        if self.sums is not None:
            self.sums.zero_()

    def _step(self) -> None:
        self.optimizer.zero_grad()
        rows, progress, rate = (table[self.position].squeeze(0) for table in (self.rows, self.progress, self.rates))
        with self.fabric.autocast():
            terms = self.module(self.store, rows, progress)
        self.fabric.backward(terms.loss)
        self.rate.copy_(rate)
        self.optimizer.step()
        if self.sums is None:
            self.names, self.sums = terms._fields, torch.zeros(len(terms), device=self.fabric.device)
        self.sums += torch.stack([term.detach() for term in terms])
        self.position += 1
