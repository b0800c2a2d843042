"""The iterative inference of missing values with a trained model (paper §4.2.3)."""

import numpy as np
import torch
from numpy.typing import NDArray

from mmdgm.corruption import Mask
from mmdgm.errors import InputError
from mmdgm.evaluation import BATCH, inference
from mmdgm.models import VAE

Values = NDArray[np.float32]


def impute(model: VAE, x: Values, missing: Mask, *, rounds: int = 100, seed: int = 0) -> Values:
    """Fill the missing entries of images `(rows, channels, height, width)` with values in [0, 1].

    They start uniform in [0, 1]; in each round z ~ q(z|x) is drawn for the filled image, and the missing entries
    become the decoder's mean. What is observed stays as it is; what lies under the mask is never looked at.
    """
    x = np.asarray(x, np.float32)
    if x.ndim != 4 or missing.shape != x.shape or missing.dtype != bool:
        shape = "(rows, channels, height, width)"
        raise InputError(f"impute takes images {shape} and a boolean mask like them, not {x.shape}")
    observed_values = x[~missing]
    if not ((observed_values >= 0) & (observed_values <= 1)).all():
        raise InputError("impute takes observed values in [0, 1]; divide them by the data set's scale first")
    filled = x.copy()
    with inference(model, seed=seed) as device:
        for start in range(0, len(x), BATCH):
            rows = slice(start, start + BATCH)
            hole = torch.from_numpy(missing[rows]).to(device)
            observed = torch.from_numpy(x[rows]).to(device)
            current = torch.where(hole, torch.rand(hole.shape, device=device), observed)
            for _ in range(rounds):
                current = torch.where(hole, model.reconstruct(current), observed)
            filled[rows] = current.cpu().numpy()
    return filled


def missing_mse(truth: Values, filled: Values, missing: Mask) -> float:
    """Mean squared error over the missing entries alone."""
    return float(np.square(truth[missing].astype(np.float64) - filled[missing]).mean())
