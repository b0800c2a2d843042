"""Imputation with a trained model, used by all estimators, commands and tables.

rounds      the paper's iterative inference (§4.2.3), averaged. Each round draws z ~ q(z|x) for the filled row, and
            the missing entries become the decoder's mean. The average of the second half of the rounds estimates
            the posterior mean.
draw        the paper's own procedure: only the last round counts. The result is one sample of the missing entries.
posterior   the posterior mean from a q that is fitted to each row's observed values, see `posterior`. It has the
            smallest squared error and takes the most time.

A row's result depends only on its values and the seed. Observed values do not change.
"""

import logging
from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import constraints

from mmdgm.data.masks import Mask
from mmdgm.errors import InputError
from mmdgm.inference.per_row import Values, chunk_size, in_chunks, row_noise
from mmdgm.inference.posterior import NOISES, count_starts, fill_with_posterior_mean
from mmdgm.models import VAE

METHODS = ("rounds", "draw", "posterior")
PORTION = 4096  # rows whose noise is drawn at once
logger = logging.getLogger("mmdgm")


def impute(
    model: VAE,
    x: Values,
    *,
    method: str = "rounds",
    rounds: int = 100,
    seed: int = 0,
    start: Values | None = None,
) -> Values:
    """Return rows `(rows, channels, height, width)` with their NaN replaced.

    `rounds` and `start` `(channels, height, width)` are for "rounds" and "draw". If `start` is None, they start from
    noise.
    """
    check(model, x, method)
    missing = np.isnan(x)
    filled = np.asarray(x, np.float32).copy()
    some = np.flatnonzero(missing.reshape(len(x), -1).any(1))
    z, values = model.encoder.z, int(np.prod(x.shape[1:]))
    from_noise = start is None and method != "posterior"
    if method == "posterior":
        fill, draws, size = fill_with_posterior_mean(model, seed), NOISES, chunk_size(model, x.shape[1:])
        size = max(1, size // count_starts(model))
    else:
        fill = in_rounds(model, rounds, mean=method == "rounds")
        draws, size = rounds, chunk_size(model, x.shape[1:])
    for first in range(0, len(some), PORTION):
        rows = some[first : first + PORTION]
        noise = row_noise(x[rows], draws * z + from_noise * values, seed=seed)
        begin = 0.0 if start is None else start
        if from_noise:
            begin = model.likelihood.noise(torch.from_numpy(noise[:, draws * z :])).numpy().reshape(x[rows].shape)
        guess = np.where(missing[rows], begin, filled[rows]).astype(np.float32)
        steps = noise[:, : draws * z].reshape(len(rows), draws, z)
        filled[rows] = in_chunks(model, fill, guess, missing[rows], steps, size=size)
    if lost := int((~np.isfinite(filled)).sum()):
        logger.warning("mmdgm: %d values could not be imputed: the model's reconstructions have no limit", lost)
    return filled


def check(model: VAE, x: NDArray[np.floating], method: str) -> None:
    """Raise InputError if this model and method cannot impute these rows."""
    if method not in METHODS:
        raise InputError(f"method={method!r}: give {', '.join(map(repr, METHODS))}")
    if not model.generates:
        raise InputError("this model was trained without its generative part: it cannot impute")
    if x.ndim != 4:
        raise InputError(f"impute takes rows (rows, channels, height, width), not {x.shape}")
    observed = torch.from_numpy(x[~np.isnan(x)])
    if not bool((observed.isfinite() & model.likelihood.support.check(observed)).all()):
        words = "finite values" if model.likelihood.support is constraints.real else "values in [0, 1]"
        raise InputError(f"impute takes observed {words}; divide them by the data set's scale first")


def in_rounds(model: VAE, rounds: int, *, mean: bool) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Return a function that fills rows by iterative inference with given noise `(rows, rounds, z)`."""

    def run(observed: Tensor, hole: Tensor, noise: Tensor) -> Tensor:
        total, kept = torch.zeros_like(observed), 0
        for i, current in enumerate(each_round(model, observed, hole, noise)):
            if i >= rounds // 2 or not mean:
                total, kept = (total + current, kept + 1) if mean else (current, 1)
        return torch.where(hole, total / kept, observed) if kept else observed

    return run


def each_round(model: VAE, current: Tensor, hole: Tensor, noise: Tensor) -> Iterator[Tensor]:
    """Yield rows as each round of the iterative inference fills them, with noise `(rows, rounds, z)`."""
    for i in range(noise.shape[1]):
        current = torch.where(hole, model.reconstruct(current, noise=noise[:, i]), current)
        yield current


def rounds_of_draws(model: VAE, x: Values, *, rounds: int, draws: int, seed: int = 0) -> Values:
    """Return rows `(rounds + 1, draws, rows, …)` as they start, from noise, and as each round fills them.

    Draw i is that of `impute` by "draw" with seed + i. Each row goes through the networks alone with its draws, so
    that few rows take little time.
    """
    check(model, x, "draw")
    z, values = model.encoder.z, int(np.prod(x.shape[1:]))

    def run(current: Tensor, hole: Tensor, noise: Tensor) -> Tensor:
        return torch.stack([current, *each_round(model, current, hole, noise)], dim=1)

    found = np.empty((rounds + 1, draws, *x.shape), np.float32)
    for i in range(len(x)):
        row, missing = x[i : i + 1], np.isnan(x[i])
        noise = np.concatenate([row_noise(row, rounds * z + values, seed=seed + j) for j in range(draws)])
        begin = model.likelihood.noise(torch.from_numpy(noise[:, rounds * z :])).numpy().reshape(draws, *x.shape[1:])
        guess, holes = np.where(missing, begin, row).astype(np.float32), np.repeat(missing[None], draws, axis=0)
        steps = noise[:, : rounds * z].reshape(draws, rounds, z)
        found[:, :, i] = in_chunks(model, run, guess, holes, steps, size=draws).swapaxes(0, 1)
    return found


def missing_mse(truth: Values, filled: Values, missing: Mask) -> float:
    """Return the mean squared error over the missing entries."""
    return float(np.square(truth[missing].astype(np.float64) - filled[missing]).mean())
