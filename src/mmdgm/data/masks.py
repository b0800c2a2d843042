"""The missing-value patterns of the paper's section 4.2.3, as boolean masks: True where a pixel is missing."""

import numpy as np
from numpy.typing import NDArray

from mmdgm.errors import InputError

Mask = NDArray[np.bool_]


def rand_drop(shape: tuple[int, ...], p: float, *, seed: int) -> Mask:
    """Rand-Drop(p): each entry is missing with probability `p`, independently. `shape`: `(rows, ...)`."""
    if not 0 <= p <= 1:
        raise InputError(f"Rand-Drop({p}): the probability must lie between 0 and 1")
    return np.random.default_rng(seed).random(shape) < p


def rect(shape: tuple[int, ...], height: int, width: int) -> Mask:
    """Rect(height, width): a centred rectangle is missing. `shape`: `(..., H, W)`."""
    full_height, full_width = shape[-2:]
    if not (0 <= height <= full_height and 0 <= width <= full_width):
        raise InputError(f"Rect({height}, {width}): does not fit into {full_height}×{full_width} images")
    top, left = (full_height - height) // 2, (full_width - width) // 2
    missing = np.zeros(shape, bool)
    missing[..., top : top + height, left : left + width] = True
    return missing
