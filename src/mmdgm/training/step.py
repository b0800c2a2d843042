"""One training step: gather rows, objective, gradients, update. It runs plainly, compiled, captured, or both.

plain               eager PyTorch
compiled            the objective through torch.compile
captured            the whole step, update included, as one CUDA graph, so that the host only says "again"
compiled+captured   both

All run the same code and draw the same noise: what differs is rounding. Row numbers, rates, sums and the position
lie on the device, so nothing is read back between the steps of an interval.
"""

from hashlib import blake2b
from typing import Literal, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from mmdgm.data.batches import Batches, Rows, Store, gather
from mmdgm.devices import capture
from mmdgm.distributed import mean_over_ranks
from mmdgm.models import VAE
from mmdgm.models.vae import Terms
from mmdgm.training.optimizer import FusedAdam

Execution = Literal["plain", "compiled", "captured", "compiled+captured"]


class Objective(nn.Module):
    """From row numbers to the mean of each of the objective's terms: all that is compiled."""

    def __init__(self, model: VAE):
        super().__init__()
        self.model = model
        self.scale, self.binarised, self.hide = 1.0, False, 0.0

    def reads(self, batches: Batches) -> None:
        """Read pixels as these batches do."""
        self.scale, self.binarised, self.hide = batches.scale, batches.binarised, batches.hide

    def forward(self, store: Store, rows: Rows) -> Terms:
        terms = self.model(gather(store, rows, scale=self.scale, binarised=self.binarised, hide=self.hide))
        return cast(Terms, type(terms)(*[term.float().mean() for term in terms]))


def noise_seed(seed: int, step: int, rank: int) -> int:
    """The seed of a step's random draws: noise, like rows and rates, is a function of the step."""
    return int.from_bytes(blake2b(f"{seed} {step} {rank}".encode(), digest_size=7).digest(), "big")


class Stepper:
    """Takes the steps of one stage; may be used for one run after the other if their data have the same shapes."""

    def __init__(
        self,
        fabric: Fabric,
        module: nn.Module,  # an Objective, perhaps compiled or in DDP
        optimizer: FusedAdam,
        rate: Tensor,  # the optimizer's learning rate
        left: Tensor,  # the model's share of training that lies ahead
        batches: Batches,
        *,
        interval: int,
        captured: bool,
    ):
        self.fabric, self.module, self.optimizer = fabric, module, optimizer
        self.rate, self.left = rate, left
        device = fabric.device
        share = batches.rows(range(1), rank=fabric.global_rank, world_size=fabric.world_size)
        self.rows = Rows(*(part.new_zeros(interval, part.shape[1]) for part in share))
        self.rates, self.lefts = (torch.zeros(interval, device=device) for _ in range(2))
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.names: tuple[str, ...] = ()
        self.sums: Tensor | None = None
        # a graph reads from fixed addresses, so it needs a store of its own
        self.store = (
            Store(*(None if part is None else part.clone() for part in batches.store))  # type: ignore[arg-type]
            if captured
            else batches.store
        )
        self.captured = captured
        self.graph: torch.cuda.CUDAGraph | None = None
        self.generator = (
            torch.cuda.default_generators[device.index or 0] if device.type == "cuda" else torch.default_generator
        )

    def fits(self, batches: Batches) -> bool:
        """Whether another run's data have the shapes of these."""
        return [None if part is None else part.shape for part in self.store] == [
            None if part is None else part.shape for part in batches.store
        ] and batches.rows_per_step == sum(part.shape[1] for part in self.rows) * self.fabric.world_size

    def load(self, batches: Batches) -> None:
        """Take over another run's data."""
        if self.captured:
            for own, new in zip(self.store, batches.store, strict=True):
                if own is not None and new is not None:
                    own.copy_(new)
        else:
            self.store = batches.store

    def run(self, batches: Batches, steps: range, rates: list[float], lefts: list[float]) -> dict[str, float]:
        """Take some consecutive steps; returns the mean of each term, the one thing that leaves the device."""
        self._plan(batches, steps, rates, lefts)
        for step in steps:
            self.generator.manual_seed(noise_seed(batches.seed, step, self.fabric.global_rank))
            if self.graph is not None:
                self.graph.replay()
            else:
                self._step()
        assert self.sums is not None
        means = mean_over_ranks(self.sums / len(steps))
        return dict(zip(self.names, means.tolist(), strict=True))

    def warm_up(self, batches: Batches) -> None:
        """Compile and capture, as far as asked. It changes weights: the caller puts them back."""
        self._plan(batches, range(1), [0.0], [1.0])
        if self.captured:
            self.graph = capture(self._step, warm_up=self._first_step)
        else:
            self._step()

    def _first_step(self) -> None:
        self.position.zero_()
        self._step()

    def _plan(self, batches: Batches, steps: range, rates: list[float], lefts: list[float]) -> None:
        share = batches.rows(steps, rank=self.fabric.global_rank, world_size=self.fabric.world_size)
        for own, new in zip(self.rows, share, strict=True):
            own[: len(new)].copy_(new)
        for table, values in ((self.rates, rates), (self.lefts, lefts)):
            table[: len(values)].copy_(torch.tensor(values))
        self.position.zero_()
        if self.sums is not None:
            self.sums.zero_()

    def _step(self) -> None:
        self.optimizer.zero_grad()
        rows = Rows(*(table[self.position].squeeze(0) for table in self.rows))
        self.left.copy_(self.lefts[self.position].squeeze(0))
        with self.fabric.autocast():
            terms = self.module(self.store, rows)
        self.fabric.backward(terms.loss)
        self.rate.copy_(self.rates[self.position].squeeze(0))
        self.optimizer.step()
        if self.sums is None:
            self.names, self.sums = terms._fields, torch.zeros(len(terms), device=self.fabric.device)
        self.sums += torch.stack([term.detach() for term in terms])
        self.position += 1
