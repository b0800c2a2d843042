"""Learning of a table's `RowSampler` from its training rows, after the generative model is trained."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmdgm.data.tables import Column
from mmdgm.models import VAE, ConditionalVAE
from mmdgm.models.row_sampler import GRID, RowSampler

Values = NDArray[np.float32]
ROWS = 5_000  # largest number of training rows that it learns from
GENERATED = 50_000  # rows that are generated to compare with observed ones, of all classes together
FEWEST, MOST = 500, 4_000  # of a class
SHRINKAGE = 5.0  # a class's covariance is shrunk as if `SHRINKAGE + z` more rows of all classes had been seen
OTHERS = 1.0  # a class's quantiles and shares are those of its rows, and of so many rows of all classes
ROUNDS = 20  # of fitting the tilt
RIDGE = 1e-4


def learn_rows(
    model: VAE,
    x: Values,
    observed: NDArray[np.bool_],
    y: NDArray[np.int64],
    columns: tuple[Column, ...],
    *,
    seed: int,
) -> RowSampler:
    """Return the sampler of encoded rows x `(n, d)` of classes y `(n,)`, whose missing values have been drawn.

    `observed` `(n, d)`: which values are observed. Only these are compared with generated ones.
    """
    n_classes, z = model.n_classes, model.encoder.z
    device = next(model.parameters()).device
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(seed)
        some = torch.randperm(len(x))[:ROWS]
        rows, known, classes = (torch.from_numpy(np.ascontiguousarray(part))[some] for part in (x, observed, y))
        sampler = RowSampler(columns, z=z, n_classes=n_classes).eval()
        counts = torch.bincount(torch.from_numpy(y), minlength=n_classes).float()
        sampler.shares.copy_(counts / counts.sum())
        codes, means = reconstructed(model, rows.to(device), classes.to(device))
        learn_codes(sampler, codes, classes)
        has_numbers = bool(sampler.groups.number.any())
        if has_numbers:
            learn_errors(sampler, (rows - means)[:, sampler.groups.number])
        each = int(np.clip(GENERATED // n_classes, FEWEST, MOST))
        for k in range(n_classes):
            label = torch.full((each,), k)
            drawn = sampler.codes(label, torch.randn(each, z))
            new = decoded(model, drawn.to(device), label.to(device)).cpu()
            weights = (classes == k) + OTHERS / len(classes)
            if has_numbers:
                learn_quantiles(sampler, k, new, rows, known, weights)
            learn_tilt(sampler, k, new, rows, known, weights)
    return sampler


def conditions(model: VAE, y: Tensor, like: Tensor) -> Tensor | None:
    """The labels that encoder and decoder take."""
    return model.one_hot(y, like) if isinstance(model, ConditionalVAE) else None


def reconstructed(model: VAE, rows: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """A code z ~ q(z|x, y) of each row, and the decoder's mean at it."""
    x = rows[:, :, None, None]
    z = model.encoder(x, conditions(model, y, x)).qz.sample()
    return z.cpu(), decoded(model, z, y).cpu()


def decoded(model: VAE, z: Tensor, y: Tensor) -> Tensor:
    """The decoder's means `(rows, d)`."""
    return model.decode(z, conditions(model, y, z)).mean.flatten(1)


def learn_codes(sampler: RowSampler, codes: Tensor, y: Tensor) -> None:
    """Set the mean and the covariance of each class's codes `(n, z)`, shrunk towards those of all classes."""
    n_classes, z = sampler.code_mean.shape
    counts = torch.bincount(y, minlength=n_classes).float()
    centre = codes.mean(dim=0)
    totals = torch.zeros(n_classes, z).index_add(0, y, codes)
    sampler.code_mean.copy_((totals + OTHERS * centre) / (counts + OTHERS)[:, None])
    apart = codes - sampler.code_mean[y]
    pooled = apart.T @ apart / len(codes)
    for k in range(n_classes):
        own, more = apart[y == k], SHRINKAGE + z
        covariance = (own.T @ own + more * pooled) / (len(own) + more)
        sampler.code_root[k] = torch.linalg.cholesky(covariance + RIDGE * torch.eye(z))


def learn_errors(sampler: RowSampler, errors: Tensor) -> None:
    """Set the root of the covariance of the decoder's errors `(n, numbers)`; correlations are shrunk."""
    n, numbers = errors.shape
    covariance = errors.T @ errors / n
    variance = covariance.diagonal().clamp(min=RIDGE)
    shrunk = covariance * (n / (n + SHRINKAGE + numbers))
    sampler.error_root.copy_(torch.linalg.cholesky(shrunk - shrunk.diagonal().diag() + variance.diag()))


def learn_quantiles(sampler: RowSampler, k: int, means: Tensor, rows: Tensor, known: Tensor, weights: Tensor) -> None:
    """Set quantiles of class k's numbers: of generated ones, from the decoder's means, and of observed ones."""
    number = sampler.groups.number
    levels = torch.linspace(0, 1, GRID)
    latent = sampler.latent_numbers(means, torch.randn_like(means))
    sampler.generated[k] = torch.quantile(latent, levels, dim=0).T
    for j, column in enumerate(number.nonzero()[:, 0].tolist()):
        seen = known[:, column]
        values, order = rows[seen, column].sort()
        share = weights[seen][order]
        at = (share.cumsum(0) - share / 2) / share.sum()
        sampler.observed[k, j] = values[torch.searchsorted(at, levels.clamp(0, 1)).clamp(max=len(values) - 1)]
        sampler.stepped[j] = len(values.unique()) < len(values) / 2


def learn_tilt(sampler: RowSampler, k: int, means: Tensor, rows: Tensor, known: Tensor, weights: Tensor) -> None:
    """Set the tilt of class k's chances, so that their mean over generated rows is the share among observed ones."""
    groups, tilt = sampler.groups, torch.zeros(rows.shape[1])
    weighted = weights[:, None] * known
    wanted = ((weighted * rows).sum(dim=0) / weighted.sum(dim=0)).clamp(RIDGE, 1 - RIDGE)
    for _ in range(ROUNDS):
        found = groups.tilted(means, tilt).mean(dim=0).clamp(RIDGE, 1 - RIDGE)
        step = torch.where(groups.category, wanted.log() - found.log(), wanted.logit() - found.logit())
        tilt = tilt + step
    sampler.tilt[k] = torch.where(groups.number, 0, tilt)
