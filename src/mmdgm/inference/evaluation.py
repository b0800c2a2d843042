"""What a trained model is worth: error and bound on held-out images."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmdgm.data.datasets import Images, Labels
from mmdgm.data.preprocessing import to_unit
from mmdgm.models import VAE

BATCH = 1000


@contextmanager
def inference(model: VAE, *, seed: int = 0) -> Iterator[torch.device]:
    """The model in evaluation mode, without gradients, with its own random draws; yields its device."""
    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield device
    finally:
        model.train(was_training)


def unit_batches(images: Images, scale: float, device: torch.device) -> Iterator[Tensor]:
    """Images batch by batch, divided by their scale, on the device."""
    for start in range(0, len(images), BATCH):
        yield to_unit(torch.from_numpy(images[start : start + BATCH].copy()).to(device), scale)


def predict_scores(model: Any, images: Images, *, scale: float) -> NDArray[np.float32]:
    """Scores `(rows, K)` of a model that classifies."""
    with inference(model) as device:
        return np.concatenate([model.scores(x).cpu().numpy() for x in unit_batches(images, scale, device)])


def error_percent(model: Any, images: Images, y: Labels, *, scale: float) -> float | None:
    """Percentage of wrong predictions; None for a model that does not classify."""
    if not hasattr(model, "scores"):
        return None
    wrong = predict_scores(model, images, scale=scale).argmax(1) != y
    return float(100 * wrong.mean())


def mean_elbo(model: VAE, images: Images, *, scale: float, binarised: bool = False, seed: int = 0) -> float:
    """The bound on the log-likelihood of grey values, or of Bernoulli draws of them, in nats, averaged over rows.

    Grey values have no normalised density under a Bernoulli likelihood: their bound is the paper's figure, that of
    binary pixels bounds the log of a probability.
    """
    return _mean(model, model.elbo, images, scale=scale, binarised=binarised, seed=seed)


def mean_log_likelihood(
    model: VAE, images: Images, *, scale: float, draws: int, binarised: bool = False, seed: int = 0
) -> float:
    """The importance-weighted log-likelihood from so many draws of z, in nats, averaged over rows."""
    estimate = functools.partial(model.log_likelihood, draws=draws)
    return _mean(model, estimate, images, scale=scale, binarised=binarised, seed=seed)


def _mean(
    model: VAE,
    of_rows: Callable[[Tensor], Tensor],
    images: Images,
    *,
    scale: float,
    binarised: bool,
    seed: int,
) -> float:
    total = 0.0
    pixels = torch.Generator().manual_seed(seed)  # its own: all models are given the same binary images
    with inference(model, seed=seed) as device:
        for x in unit_batches(images, scale, device):
            if binarised:
                x = (torch.rand(x.shape, generator=pixels).to(device) < x).to(x.dtype)
            total += of_rows(x).double().sum().item()
    return total / len(images)
