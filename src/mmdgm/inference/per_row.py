"""Answers that do not depend on the company a row is in.

A row's noise is a function of the row and a seed. Rows go through the networks in chunks of one size, the last one
filled up: with other sizes the libraries below would round differently.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmdgm.inference.evaluation import inference
from mmdgm.models import VAE

Values = NDArray[np.float32]


def row_noise(x: Values, size: int, *, seed: int) -> Values:
    """Standard normal numbers `(rows, size)`, of each row a function of its values and the seed."""
    noise = np.empty((len(x), size), np.float32)
    for i, row in enumerate(np.ascontiguousarray(x)):
        key = int.from_bytes(blake2b(row.tobytes() + seed.to_bytes(8, "big"), digest_size=16).digest(), "big")
        noise[i] = np.random.Generator(np.random.Philox(key=key)).standard_normal(size, dtype=np.float32)
    return noise


def in_chunks(model: VAE, function: Callable[..., Tensor], *arrays: NDArray[Any], size: int) -> NDArray[Any]:
    """`function` of rows of all arrays, `size` at a time, in the model's evaluation mode."""
    parts = []
    with inference(model) as device:
        for start in range(0, len(arrays[0]), size):
            rows = [array[start : start + size] for array in arrays]
            n = len(rows[0])
            full = [np.concatenate([part, np.repeat(part[:1], size - n, axis=0)]) for part in rows]
            parts.append(function(*(torch.from_numpy(part).to(device) for part in full))[:n].cpu().numpy())
    return np.concatenate(parts)


def impute_rows(
    model: VAE, x: Values, fill: Values, *, rounds: int, seed: int, mean: bool = True, size: int = 256
) -> Values:
    """Rows `(rows, channels, height, width)` with their NaN replaced; `fill` is what these start from.

    Rounds are those of `imputation`. The decoder's means are averaged over the second half of them, an estimate of
    the posterior mean; `mean=False` takes the last round's alone, one draw.
    """
    missing = np.isnan(x)
    filled = np.where(missing, fill, x)
    some = np.flatnonzero(missing.reshape(len(x), -1).any(1))
    if not len(some) or not rounds:
        return filled
    z = model.encoder.z

    def run(current: Tensor, hole: Tensor, noise: Tensor) -> Tensor:
        observed, total, kept = current, torch.zeros_like(current), 0
        for i in range(rounds):
            current = torch.where(hole, model.reconstruct(current, noise=noise[:, i]), observed)
            if i >= rounds // 2 or not mean:
                total, kept = (total + current, kept + 1) if mean else (current, 1)
        return torch.where(hole, total / kept, observed)

    for start in range(0, len(some), 16 * size):  # noise for some thousand rows at a time
        rows = some[start : start + 16 * size]
        noise = row_noise(x[rows], rounds * z, seed=seed).reshape(-1, rounds, z)
        filled[rows] = in_chunks(model, run, filled[rows], missing[rows], noise, size=size)
    return filled
