"""Missing values of encoded tables, filled by a trained `Filler`."""

import numpy as np
import torch

from mmdgm.data import deadline
from mmdgm.inference.per_row import Values, row_noise
from mmdgm.models.filler import Filler

PORTION, SHORT = 4096, 256  # rows at once; in a fit of limited time


def fill_by(filler: Filler, x: Values) -> Values:
    """Return rows `(rows, d, 1, 1)` with their NaN replaced by expected values."""
    return _filled(filler, x, seed=None)


def draw_by(filler: Filler, x: Values, *, seed: int) -> Values:
    """Return rows `(rows, d, 1, 1)` with their NaN replaced by one draw, a function of the row and the seed."""
    return _filled(filler, x, seed=seed)


def _filled(filler: Filler, x: Values, *, seed: int | None) -> Values:
    flat = np.asarray(x, np.float32).reshape(len(x), -1)
    filled, some = flat.copy(), np.flatnonzero(np.isnan(flat).any(axis=1))
    portion = SHORT if deadline.is_set() else PORTION
    for start in range(0, len(some), portion):
        rows = some[start : start + portion]
        if deadline.is_over():
            filled[rows] = np.where(np.isnan(flat[rows]), filler.means.numpy(), flat[rows])
            continue
        values = torch.from_numpy(np.nan_to_num(flat[rows]))
        observed = torch.from_numpy((~np.isnan(flat[rows])).astype(np.float32))
        with torch.no_grad():
            if seed is None:
                filled[rows] = filler(values, observed).numpy()
            else:
                noise = torch.from_numpy(row_noise(flat[rows], 2 * flat.shape[1], seed=seed))
                filled[rows] = filler.draw(values, observed, noise).numpy()
    return filled.reshape(x.shape)
