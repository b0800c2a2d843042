"""What a trained model is worth: error and bound on held-out rows, given as networks see them."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmdgm.inference.per_row import Values, inference
from mmdgm.models import VAE
from mmdgm.networks.likelihoods import BernoulliPixels

BATCH = 1000


def figures(model: Any, x: Values, y: NDArray[np.int64], *, draws: int = 0) -> dict[str, float | None]:
    """Error and bound on rows x `(rows, channels, height, width)` with class numbers y.

    Figures named `…_binarised` are of Bernoulli draws of grey values, the others of the values themselves. With
    `draws` draws of z, the importance-weighted log-likelihood too.
    """
    found: dict[str, float | None] = {"error_percent": error_percent(model, x, y), "elbo": None}
    if not model.generates:
        return found
    kinds = {"": False, "_binarised": True} if isinstance(model.likelihood, BernoulliPixels) else {"": False}
    for suffix, binarised in kinds.items():
        found[f"elbo{suffix}"] = mean_elbo(model, x, binarised=binarised)
        if draws:
            found[f"log_likelihood{suffix}"] = mean_log_likelihood(model, x, draws=draws, binarised=binarised)
    return found


def predict_scores(model: Any, x: Values) -> NDArray[np.float32]:
    """Scores `(rows, K)` of a model that classifies."""
    with inference(model) as device:
        return np.concatenate([model.scores(rows).cpu().numpy() for rows in _batches(x, device)])


def error_percent(model: Any, x: Values, y: NDArray[np.int64]) -> float | None:
    """Percentage of wrong predictions; None for a model that does not classify."""
    if not hasattr(model, "scores"):
        return None
    return float(100 * (predict_scores(model, x).argmax(1) != y).mean())


def mean_elbo(model: VAE, x: Values, *, binarised: bool = False, seed: int = 0) -> float:
    """The bound on the log-likelihood of grey values, or of Bernoulli draws of them, in nats, averaged over rows.

    Grey values have no normalised density under a Bernoulli likelihood: their bound is the paper's figure, that of
    binary pixels bounds the log of a probability.
    """
    return _mean(model, model.elbo, x, binarised=binarised, seed=seed)


def mean_log_likelihood(model: VAE, x: Values, *, draws: int, binarised: bool = False, seed: int = 0) -> float:
    """The importance-weighted log-likelihood from so many draws of z, in nats, averaged over rows."""
    estimate = functools.partial(model.log_likelihood, draws=draws)
    return _mean(model, estimate, x, binarised=binarised, seed=seed)


def _mean(model: VAE, of_rows: Callable[[Tensor], Tensor], x: Values, *, binarised: bool, seed: int) -> float:
    total = 0.0
    pixels = torch.Generator().manual_seed(seed)  # its own: all models are given the same binary images
    with inference(model, seed=seed) as device:
        for rows in _batches(x, device):
            if binarised:
                rows = (torch.rand(rows.shape, generator=pixels).to(device) < rows).to(rows.dtype)
            total += of_rows(rows).double().sum().item()
    return total / len(x)


def _batches(x: Values, device: torch.device) -> Iterator[Tensor]:
    for start in range(0, len(x), BATCH):
        yield torch.from_numpy(x[start : start + BATCH]).to(device)
