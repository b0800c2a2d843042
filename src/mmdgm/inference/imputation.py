"""Missing values from a trained model: by the paper's iterative inference (§4.2.3), or their posterior mean."""

import logging
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.distributions import constraints

from mmdgm.data.masks import Mask
from mmdgm.devices import capture
from mmdgm.errors import InputError, one_line
from mmdgm.inference.evaluation import BATCH, inference
from mmdgm.inference.posterior import count_starts, labels_of_starts, posterior_mean, prior_mean
from mmdgm.models import VAE

METHODS = ("draw", "mean")
FIRST_ROUNDS, AT_ONCE = 20, 4 * BATCH  # of the posterior mean; rows times starts on a GPU
Values = NDArray[np.float32]
logger = logging.getLogger("mmdgm")


def impute(
    model: VAE, x: Values, missing: Mask, *, rounds: int = 100, seed: int = 0, method: str = "draw"
) -> Values:
    """Fill the missing entries of images `(rows, channels, height, width)`.

    "draw", the paper's way: they start as noise, uniform in [0, 1] (Gaussian where the pixels' likelihood is); in
    each round z ~ q(z|x) is drawn for the filled image, and the missing entries become the decoder's mean. The
    last round's is one sample of what they may have been.

    "mean": their posterior mean, the best guess in squared error; see `posterior`. `rounds` has no part in it.

    What is observed stays as it is; what lies under the mask is never looked at.
    """
    if method not in METHODS:
        raise InputError(f"method={method!r}: give {' or '.join(map(repr, METHODS))}")
    if not model.generates:
        raise InputError("this model was trained without its generative part: it cannot impute")
    x = np.asarray(x, np.float32)
    if x.ndim != 4 or missing.shape != x.shape or missing.dtype != bool:
        shape = "(rows, channels, height, width)"
        raise InputError(f"impute takes images {shape} and a boolean mask like them, not {x.shape}")
    observed = torch.from_numpy(x[~missing])
    if not bool((observed.isfinite() & model.likelihood.support.check(observed)).all()):
        words = "finite values" if model.likelihood.support is constraints.real else "values in [0, 1]"
        raise InputError(f"impute takes observed {words}; divide them by the data set's scale first")
    filled = x.copy()
    if not len(x):
        return filled
    if method == "mean":
        _fill_with_means(model, filled, missing, seed=seed)
    else:
        _fill_with_draws(model, filled, missing, rounds=rounds, seed=seed)
    if lost := int((~np.isfinite(filled)).sum()):
        logger.warning("mmdgm: %d values could not be imputed: the model's reconstructions have no limit", lost)
    return filled


def _fill_with_draws(model: VAE, x: Values, missing: Mask, *, rounds: int, seed: int) -> None:
    with inference(model, seed=seed) as device:
        batch = _RoundsOfABatch(model, x.shape[1:], min(len(x), BATCH), device)
        torch.manual_seed(seed)  # again: a capture has drawn
        for start in range(0, len(x), BATCH):
            rows = slice(start, start + BATCH)
            x[rows] = batch.run(x[rows], missing[rows], rounds)


def _fill_with_means(model: VAE, x: Values, missing: Mask, *, seed: int) -> None:
    holed = np.flatnonzero(missing.any(axis=(1, 2, 3)))
    starts = count_starts(model)
    with inference(model, seed=seed) as device:
        size = max(1, (AT_ONCE if device.type == "cuda" else BATCH) // starts)
        for start in range(0, len(holed), size):
            rows = holed[start : start + size]
            hole = torch.from_numpy(missing[rows]).to(device)
            labels = labels_of_starts(model, len(rows))
            observed = torch.where(hole, prior_mean(model), torch.from_numpy(x[rows]).to(device))
            guesses = observed.expand(starts, *observed.shape).flatten(0, 1)
            holes = hole.expand(starts, *hole.shape).flatten(0, 1)
            for _ in range(FIRST_ROUNDS):
                guesses = torch.where(holes, model.reconstruct(guesses, labels=labels), guesses)
            guesses = guesses.reshape(starts, *observed.shape)
            x[rows] = posterior_mean(model, guesses, hole, labels).cpu().numpy()


class _RoundsOfABatch:
    """Rounds of the iterative inference on up to `size` rows; on a GPU a round is captured, then replayed."""

    def __init__(self, model: VAE, shape: tuple[int, ...], size: int, device: torch.device):
        self.model = model
        self.current, self.observed = (torch.zeros(size, *shape, device=device) for _ in range(2))
        self.hole = torch.zeros(size, *shape, dtype=torch.bool, device=device)
        self.round: Callable[[], None] = self._round
        if device.type == "cuda":
            try:
                self.round = capture(self._round).replay
            except RuntimeError as error:
                logger.warning(
                    "mmdgm: a round of imputation cannot be captured (%s); going on plain", one_line(error)
                )

    def _round(self) -> None:
        self.current.copy_(torch.where(self.hole, self.model.reconstruct(self.current), self.observed))

    def run(self, x: Values, missing: Mask, rounds: int) -> Values:
        n = len(x)
        self.observed[:n].copy_(torch.from_numpy(x))
        self.hole[:n].copy_(torch.from_numpy(missing))
        self.current.copy_(torch.where(self.hole, self.model.likelihood.noise(self.current), self.observed))
        for _ in range(rounds):
            self.round()
        return self.current[:n].cpu().numpy()


def missing_mse(truth: Values, filled: Values, missing: Mask) -> float:
    """Mean squared error over the missing entries alone."""
    return float(np.square(truth[missing].astype(np.float64) - filled[missing]).mean())
