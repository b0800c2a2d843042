"""The iterative inference of missing values with a trained model (paper §4.2.3)."""

import logging
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.distributions import constraints

from mmdgm.corruption import Mask
from mmdgm.devices import capture
from mmdgm.errors import InputError, one_line
from mmdgm.evaluation import BATCH, inference
from mmdgm.models import VAE

Values = NDArray[np.float32]
logger = logging.getLogger("mmdgm")


def impute(model: VAE, x: Values, missing: Mask, *, rounds: int = 100, seed: int = 0) -> Values:
    """Fill the missing entries of images `(rows, channels, height, width)`.

    They start as noise, uniform in [0, 1] (Gaussian where the pixels' likelihood is); in each round z ~ q(z|x) is
    drawn for the filled image, and the missing entries become the decoder's mean. What is observed stays as it is;
    what lies under the mask is never looked at.
    """
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
    with inference(model, seed=seed) as device:
        batch = _RoundsOfABatch(model, x.shape[1:], min(len(x), BATCH), device)
        torch.manual_seed(seed)  # again: a capture has drawn
        for start in range(0, len(x), BATCH):
            rows = slice(start, start + BATCH)
            filled[rows] = batch.run(x[rows], missing[rows], rounds)
    if lost := int((~np.isfinite(filled)).sum()):
        logger.warning("mmdgm: %d values could not be imputed: the model's reconstructions have no limit", lost)
    return filled


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
