"""Inference in which a row's result does not depend on the rest of its batch.

A row's noise is a function of the row and a seed. Rows go through the networks in chunks of one size, and the last
chunk is padded, because libraries round differently for other sizes. A page asks for few rows and cannot wait: inside
`few_rows`, chunks are small, and results may differ in the last digits.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmdgm.devices import seeded
from mmdgm.models import VAE

Values = NDArray[np.float32]
FEW = 8
_FEW_ROWS = ContextVar("few_rows", default=False)


@contextmanager
def inference(model: VAE, *, seed: int = 0) -> Iterator[torch.device]:
    """Set evaluation mode, no gradients, and a separate random state; yield the model's device."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), seeded(seed, cuda=device if device.type == "cuda" else None):
            yield device
    finally:
        model.train(was_training)


@contextmanager
def few_rows() -> Iterator[None]:
    """Use small chunks, in which few rows take little time."""
    token = _FEW_ROWS.set(True)
    try:
        yield
    finally:
        _FEW_ROWS.reset(token)


def row_noise(x: Values, size: int, *, seed: int) -> Values:
    """Return standard normal numbers `(rows, size)`. A row's numbers are a function of its values and the seed."""
    noise = np.empty((len(x), size), np.float32)
    for i, row in enumerate(np.ascontiguousarray(x)):
        key = int.from_bytes(blake2b(row.tobytes() + seed.to_bytes(8, "big"), digest_size=16).digest(), "big")
        noise[i] = np.random.Generator(np.random.Philox(key=key)).standard_normal(size, dtype=np.float32)
    return noise


def chunk_size(model: VAE, shape: tuple[int, ...]) -> int:
    """Return how many rows of this shape go through the networks at once; on a CPU, they fit into its cache."""
    if _FEW_ROWS.get():
        return FEW
    if next(model.parameters()).is_cuda:
        return 1000
    return 64 if shape[-1] > 1 else 256


def in_chunks(model: VAE, function: Callable[..., Tensor], *arrays: NDArray[Any], size: int) -> NDArray[Any]:
    """Apply `function` to the rows of all arrays, `size` rows at a time, in the model's evaluation mode."""
    parts = []
    with inference(model) as device:
        for start in range(0, len(arrays[0]), size):
            rows = [array[start : start + size] for array in arrays]
            n = len(rows[0])
            full = [np.concatenate([part, np.repeat(part[:1], size - n, axis=0)]) for part in rows]
            parts.append(function(*(torch.from_numpy(part).to(device) for part in full))[:n].cpu().numpy())
    return np.concatenate(parts)
