"""One store of rows, on the device, and the batches that training takes from it.

The store holds all rows, labeled and unlabeled, as they were read. A batch is some rows of the store, labeled rows
first. The rows of a step are a pure function of (seed, step), so a resumed run needs no saved position. If several
processes train together, each takes its share of every step's rows.
"""

from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mmdgm.errors import InputError

Shape = tuple[int, int, int]  # channels, height, width of a row
LabelSource = Literal["given", "propagated"]


class Batch(NamedTuple):
    """The input of a model's objective: labeled rows first, then unlabeled rows. Either kind may be absent."""

    x: Tensor  # (rows, channels, height, width); grey values lie in [0, 1]
    y: Tensor  # (labeled rows,) int64
    observed: Tensor | None = None  # like x: 0 where a value is only filled in
    shown: Tensor | None = None  # like x: the networks' input, if it differs from x
    guess: Tensor | None = None  # (unlabeled rows,) int64: propagated labels; −1: none

    def seen(self) -> Tensor:
        """The networks' input for all rows."""
        return self.x if self.shown is None else self.shown


class Store(NamedTuple):
    """All rows, on the device."""

    x: Tensor  # (n, channels, height, width), uint8 or encoded values
    y: Tensor  # (n,) int64; −1: unlabeled
    observed: Tensor | None = None  # bool like x; None: all values are observed
    guess: Tensor | None = None  # (n,) int64: propagated labels; −1: none

    def labels(self, source: LabelSource) -> Tensor:
        """The labels `(n,)` that a training stage uses: the given ones, or given and propagated ones."""
        if source == "given":
            return self.y
        if self.guess is None:
            raise InputError("there are no propagated labels to train on")
        return torch.where(self.y >= 0, self.y, self.guess)

    def to(self, device: torch.device) -> "Store":
        return Store(*(None if part is None else part.to(device) for part in self))  # type: ignore[arg-type]


class Reading(NamedTuple):
    """How stored values become the networks' input: divided by `scale`, then optionally binarised or hidden.

    `binarised`: pixels are drawn as 0 or 1 in every batch, which acts as augmentation for MLPs. `hide`: a random
    share of each row's values, at most `hide`, is set to 0 in the networks' input. The likelihood still counts them.
    """

    scale: float = 1.0
    binarised: bool = False
    hide: float = 0.0


class IndexStream:
    """Batches of row indices. Every epoch is a new permutation; its incomplete last batch is left out."""

    def __init__(self, n: int, batch_size: int, *, seed: tuple[int, ...], device: torch.device):
        self.n, self.batch_size, self.seed, self.device = n, min(batch_size, n), seed, device
        self.steps_per_epoch = n // self.batch_size if self.batch_size else 0
        self._epoch = -1
        self._order = torch.empty(0, dtype=torch.int64, device=device)

    def __getitem__(self, step: int) -> Tensor:
        """Row indices of a step, shape `(batch_size,)`."""
        return self.table(range(step, step + 1))[0]

    def table(self, steps: range) -> Tensor:
        """Row indices of consecutive steps, shape `(steps, batch_size)`."""
        if not self.steps_per_epoch:
            return self._order[:0].expand(len(steps), 0)
        parts, step = [], steps.start
        while step < steps.stop:
            epoch, position = divmod(step, self.steps_per_epoch)
            if epoch != self._epoch:
                self._epoch, self._order = epoch, self._permutation(epoch)
            last = min(position + steps.stop - step, self.steps_per_epoch)
            parts.append(self._order[position * self.batch_size : last * self.batch_size])
            step += last - position
        return torch.cat(parts).reshape(-1, self.batch_size)

    def _permutation(self, epoch: int) -> Tensor:
        state = np.random.SeedSequence([*self.seed, epoch]).generate_state(1, np.uint64)
        generator = torch.Generator(self.device).manual_seed(int(state[0] >> np.uint64(1)))
        return torch.randperm(self.n, generator=generator, device=self.device)


class Batches:
    """The rows of each step: `labeled_batch` labeled rows, then `unlabeled_batch` unlabeled rows.

    An epoch is one pass over the unlabeled rows, or over the labeled rows if there are no unlabeled ones.
    """

    def __init__(self, labels: Tensor, *, labeled_batch: int, unlabeled_batch: int, seed: int):
        self.numbers = [(labels >= 0).nonzero()[:, 0], (labels < 0).nonzero()[:, 0]]  # labeled and unlabeled rows
        self.streams = [
            IndexStream(len(numbers), size, seed=(seed, kind), device=labels.device)
            for kind, (numbers, size) in enumerate(zip(self.numbers, (labeled_batch, unlabeled_batch), strict=True))
        ]

    @property
    def steps_per_epoch(self) -> int:
        labeled, unlabeled = self.streams
        return unlabeled.steps_per_epoch or labeled.steps_per_epoch

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of labeled and unlabeled rows in a step."""
        labeled, unlabeled = self.streams
        return labeled.batch_size, unlabeled.batch_size

    def rows(self, steps: range, *, rank: int = 0, world_size: int = 1) -> Tensor:
        """A rank's share of the row indices of consecutive steps, `(steps, rows of a batch / world size)`."""
        for kind, size in zip(("labeled", "unlabeled"), self.sizes, strict=True):
            if size % world_size:
                raise InputError(
                    f"a batch of {size} {kind} rows cannot be shared out to {world_size} processes; "
                    f"choose a multiple of {world_size}"
                )
        tables = (
            numbers[stream.table(steps).chunk(world_size, dim=1)[rank]]
            for numbers, stream in zip(self.numbers, self.streams, strict=True)
        )
        return torch.cat(list(tables), dim=1)


def gather(store: Store, rows: Tensor, *, labeled: int, reading: Reading) -> Batch:
    """The batch of the rows with indices `(rows,)`. The first `labeled` of them have labels."""
    x = to_unit(store.x[rows], reading.scale)
    if reading.binarised:
        x = (torch.rand(x.shape, device=x.device) < x).to(x.dtype)
    batch = Batch(x, store.y[rows[:labeled]])
    if store.observed is not None:
        batch = batch._replace(observed=store.observed[rows].to(x.dtype))
    if store.guess is not None:
        batch = batch._replace(guess=store.guess[rows[labeled:]])
    if reading.hide:
        share = reading.hide * torch.rand((len(x), *[1] * (x.dim() - 1)), device=x.device)
        batch = batch._replace(shown=x * (torch.rand(x.shape, device=x.device) >= share))
    return batch


def to_unit(pixels: Tensor, scale: float) -> Tensor:
    """Stored values divided by their scale: grey values to [0, 1]."""
    return pixels.to(torch.get_default_dtype()) / scale
