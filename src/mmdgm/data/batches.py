"""Device-resident data: the images lie on the device as they are read, an epoch is a permutation of indices.

The rows of a step are a pure function of (seed, step), so a resumed run needs no saved position. Where several
processes train together, each takes its share of every step's rows.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mmdgm.data.preprocessing import binarise, to_unit
from mmdgm.errors import InputError


class Batch(NamedTuple):
    """What a model's objective is given. There may be no unlabeled rows (length 0)."""

    x: Tensor  # (labeled rows, channels, height, width); grey values lie in [0, 1]
    y: Tensor  # (labeled rows,) int64
    x_unlabeled: Tensor  # (unlabeled rows, channels, height, width)
    observed: Tensor | None = None  # of all rows, labeled ones first: 0 where a value is only filled in
    shown: Tensor | None = None  # all rows as networks are to see them, where that differs
    first_guess: Tensor | None = None  # (unlabeled rows,) int64: labels to begin with; −1: none

    def images(self) -> Tensor:
        """All rows, the labeled ones first."""
        return torch.cat([self.x, self.x_unlabeled]) if len(self.x_unlabeled) else self.x

    def seen(self) -> Tensor:
        """All rows as networks see them."""
        return self.images() if self.shown is None else self.shown


class Store(NamedTuple):
    """All images and labels, on the device."""

    x: Tensor  # (n, channels, height, width), uint8 or preprocessed
    y: Tensor  # (n,) int64
    x_unlabeled: Tensor  # (m, channels, height, width)
    observed: Tensor | None = None  # bool like x; None: all are
    observed_unlabeled: Tensor | None = None
    first_guess: Tensor | None = None  # (m,) int64; −1: none


class Rows(NamedTuple):
    """Row numbers in the store: of one step `(rows,)`, or of several `(steps, rows)`."""

    labeled: Tensor
    unlabeled: Tensor


class IndexStream:
    """Batches of row indices: every epoch one new permutation, its incomplete last batch left out."""

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
    """Paired batches: so many labeled and so many unlabeled rows a step.

    An epoch is one pass over the unlabeled rows, or over the labeled rows where there are no others. Values that
    are not `observed` are filled in. `hide`: networks see each row with a share of its values, drawn up to this,
    set to 0; the likelihood still counts them.
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        x_unlabeled: Tensor,
        *,
        scale: float,
        labeled_batch: int,
        unlabeled_batch: int,
        seed: int,
        binarised: bool = False,
        observed: Tensor | None = None,
        observed_unlabeled: Tensor | None = None,
        hide: float = 0.0,
    ):
        self.store = Store(x, y, x_unlabeled, observed, observed_unlabeled)
        self.scale, self.binarised, self.seed, self.hide = scale, binarised, seed, hide
        self.labeled = IndexStream(len(x), labeled_batch, seed=(seed, 0), device=x.device)
        self.unlabeled = IndexStream(len(x_unlabeled), unlabeled_batch, seed=(seed, 1), device=x.device)

    def begin_with(self, first_guess: Tensor) -> None:
        """Give the unlabeled rows labels `(m,)` to begin with; −1: none."""
        self.store = self.store._replace(first_guess=first_guess.to(self.store.x.device))

    @property
    def steps_per_epoch(self) -> int:
        """Steps in one pass over the unlabeled rows, or the labeled ones where there are no others."""
        return self.unlabeled.steps_per_epoch or self.labeled.steps_per_epoch

    @property
    def rows_per_step(self) -> int:
        """Labeled and unlabeled rows in a batch."""
        return self.labeled.batch_size + self.unlabeled.batch_size

    def rows(self, steps: range, *, rank: int = 0, world_size: int = 1) -> Rows:
        """A rank's share of the rows of consecutive steps, `(steps, rows of a batch / world size)` each."""
        for kind, stream in (("labeled", self.labeled), ("unlabeled", self.unlabeled)):
            if stream.batch_size % world_size:
                raise InputError(
                    f"a batch of {stream.batch_size} {kind} rows cannot be shared out to {world_size} processes; "
                    f"choose a multiple of {world_size}"
                )
        tables = (stream.table(steps) for stream in (self.labeled, self.unlabeled))
        return Rows(*(table.chunk(world_size, dim=1)[rank] for table in tables))

    def __getitem__(self, step: int) -> Batch:
        labeled, unlabeled = self.rows(range(step, step + 1))
        rows = Rows(labeled[0], unlabeled[0])
        return gather(self.store, rows, scale=self.scale, binarised=self.binarised, hide=self.hide)


def gather(store: Store, rows: Rows, *, scale: float, binarised: bool, hide: float = 0.0) -> Batch:
    """The batch that row numbers stand for, with pixels in [0, 1], or drawn as 0 or 1."""

    def images(pixels: Tensor) -> Tensor:
        x = to_unit(pixels, scale)
        return binarise(x) if binarised else x

    batch = Batch(images(store.x[rows.labeled]), store.y[rows.labeled], images(store.x_unlabeled[rows.unlabeled]))
    if store.observed is not None and store.observed_unlabeled is not None:
        observed = torch.cat([store.observed[rows.labeled], store.observed_unlabeled[rows.unlabeled]])
        batch = batch._replace(observed=observed.to(batch.x.dtype))
    if store.first_guess is not None:
        batch = batch._replace(first_guess=store.first_guess[rows.unlabeled])
    if hide:
        x = batch.images()
        share = hide * torch.rand((len(x), *[1] * (x.dim() - 1)), device=x.device)
        batch = batch._replace(shown=x * (torch.rand(x.shape, device=x.device) >= share))
    return batch
