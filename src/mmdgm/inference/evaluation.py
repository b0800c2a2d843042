"""Error and bound of a trained model on held-out rows, which are given in the form of network inputs."""

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
    """Return error and bound on rows x `(rows, channels, height, width)` with class numbers y.

    Figures named `…_binarised` use Bernoulli draws of the grey values; the others use the values themselves. If
    `draws` is not 0, the importance-weighted log-likelihood from that many draws of z is included.
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
    """Return the scores `(rows, K)` of a model that classifies."""
    with inference(model) as device:
        return np.concatenate([model.scores(rows).cpu().numpy() for rows in _batches(x, device)])


def error_percent(model: Any, x: Values, y: NDArray[np.int64]) -> float | None:
    """Return the percentage of wrong predictions; None for a model that does not classify."""
    if not hasattr(model, "scores"):
        return None
    return float(100 * (predict_scores(model, x).argmax(1) != y).mean())


def mean_elbo(model: VAE, x: Values, *, binarised: bool = False, seed: int = 0) -> float:
    """Return the mean bound on the log-likelihood of grey values, or of Bernoulli draws of them, in nats.

    Grey values have no normalised density under a Bernoulli likelihood. Their bound is the figure in the paper. The
    bound of binary pixels is a bound on the log of a probability.
    """
    return _mean(model, model.elbo, x, binarised=binarised, seed=seed)


def mean_reconstruction_error(model: VAE, x: Values) -> float:
    """Return the mean squared error of each value when rows are encoded as E[z] and decoded to the mean."""
    total = 0.0
    with inference(model) as device:
        for rows in _batches(x, device):
            mean = model.reconstruct(rows, noise=rows.new_zeros(len(rows), model.encoder.z))
            total += (mean - rows).double().square().sum().item()
    return total / x.size


def mean_log_likelihood(model: VAE, x: Values, *, draws: int, binarised: bool = False, seed: int = 0) -> float:
    """Return the mean importance-weighted log-likelihood of the rows, in nats, from `draws` draws of z."""
    estimate = functools.partial(model.log_likelihood, draws=draws)
    return _mean(model, estimate, x, binarised=binarised, seed=seed)


def _mean(model: VAE, of_rows: Callable[[Tensor], Tensor], x: Values, *, binarised: bool, seed: int) -> float:
    total = 0.0
    pixels = torch.Generator().manual_seed(seed)  # separate, so that all models get the same binary images
    with inference(model, seed=seed) as device:
        for rows in _batches(x, device):
            if binarised:
                rows = (torch.rand(rows.shape, generator=pixels).to(device) < rows).to(rows.dtype)
            total += of_rows(rows).double().sum().item()
    return total / len(x)


def _batches(x: Values, device: torch.device) -> Iterator[Tensor]:
    for start in range(0, len(x), BATCH):
        yield torch.from_numpy(x[start : start + BATCH]).to(device)
