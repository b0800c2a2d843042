"""Device-resident data: the images lie on the device as uint8, an epoch is a permutation of indices.

The rows of a step are a pure function of (seed, step), so a resumed run needs no saved position.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mmdgm.preprocessing import binarise, to_unit


class Batch(NamedTuple):
    """What a model's objective is given. There may be no unlabeled rows (length 0)."""

    x: Tensor  # (labeled rows, channels, height, width), values in [0, 1]
    y: Tensor  # (labeled rows,) int64
    x_unlabeled: Tensor  # (unlabeled rows, channels, height, width)


class IndexStream:
    """Batches of row indices: every epoch one new permutation, its incomplete last batch left out."""

    def __init__(self, n: int, batch_size: int, *, seed: tuple[int, ...], device: torch.device):
        self.n, self.batch_size, self.seed, self.device = n, min(batch_size, n), seed, device
        self.steps_per_epoch = n // self.batch_size if n else 0
        self._epoch = -1
        self._order = torch.empty(0, dtype=torch.int64, device=device)

    def __getitem__(self, step: int) -> Tensor:
        """Row indices of a step, shape `(batch_size,)`."""
        if self.n == 0:
            return self._order
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._permutation(epoch)
        return self._order[position * self.batch_size : (position + 1) * self.batch_size]

    def _permutation(self, epoch: int) -> Tensor:
        state = np.random.SeedSequence([*self.seed, epoch]).generate_state(1, np.uint64)
        generator = torch.Generator(self.device).manual_seed(int(state[0] >> np.uint64(1)))
        return torch.randperm(self.n, generator=generator, device=self.device)


class Batches:
    """Paired batches: so many labeled and so many unlabeled rows a step.

    An epoch is one pass over the unlabeled rows, or over the labeled rows where there are no others.
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
    ):
        self.x, self.y, self.x_unlabeled = x, y, x_unlabeled
        self.scale, self.binarised = scale, binarised
        self.labeled = IndexStream(len(x), labeled_batch, seed=(seed, 0), device=x.device)
        self.unlabeled = IndexStream(len(x_unlabeled), unlabeled_batch, seed=(seed, 1), device=x.device)

    @property
    def steps_per_epoch(self) -> int:
        """Steps in one pass over the unlabeled rows, or the labeled ones where there are no others."""
        return self.unlabeled.steps_per_epoch or self.labeled.steps_per_epoch

    @property
    def rows_per_step(self) -> int:
        """Labeled and unlabeled rows in a batch."""
        return self.labeled.batch_size + self.unlabeled.batch_size

    def __getitem__(self, step: int) -> Batch:
        rows = self.labeled[step]
        return Batch(
            self._images(self.x[rows]), self.y[rows], self._images(self.x_unlabeled[self.unlabeled[step]])
        )

    def _images(self, pixels: Tensor) -> Tensor:
        x = to_unit(pixels, self.scale)
        return binarise(x) if self.binarised else x
