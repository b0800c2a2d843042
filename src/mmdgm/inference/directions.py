"""The leading directions of the latent space: those along which generated rows change most.

For z ~ N(0, I), the mean Jacobian of the decoder's mean f is E[∂f/∂z] = E[z f(z)ᵀ] (Stein's lemma). Its left singular
vectors, by decreasing singular value, are the directions. Pairs of codes z and −z reduce the variance of the estimate.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from mmdgm.inference.per_row import inference
from mmdgm.models import VAE, ConditionalVAE

PAIRS = 500  # of codes


def leading_directions(model: VAE, count: int, *, seed: int = 0) -> NDArray[np.float64]:
    """Return unit vectors `(count, z)`, orthogonal to each other; fewer if the code is smaller."""
    with inference(model, seed=seed) as device:
        z = torch.randn(PAIRS, model.encoder.z, device=device)
        classes = torch.arange(PAIRS, device=device) % max(model.n_classes, 1)
        given = (classes,) if isinstance(model, ConditionalVAE) else ()
        change = (model.generate(z, *given) - model.generate(-z, *given)).flatten(1)
        vectors = torch.linalg.svd((z.T @ change).double(), full_matrices=False)[0].T[:count].cpu().numpy()
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1, keepdims=True), axis=1)
    return np.asarray(vectors * np.sign(largest))  # the sign of a singular vector is arbitrary
