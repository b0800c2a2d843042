"""Learning of a table's `RowSampler` from its training rows, after the generative model is trained."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmdgm.data.tables import Column
from mmdgm.devices import seeded
from mmdgm.models import VAE, ConditionalVAE
from mmdgm.models.row_sampler import GRID, RowSampler, place_in, score_of

Values = NDArray[np.float32]
ROWS = 5_000  # largest number of training rows that it learns from
GENERATED = 50_000  # rows that are generated to compare with observed ones, of all classes together
CELLS = 10_000_000  # that are generated for a class, at most, but for FEWEST
FEWEST, MOST = 500, 4_000  # rows of a class
SHRINKAGE = 5.0  # a class's covariance of d values is that of its rows, and of SHRINKAGE + d rows of all classes
OTHERS = 1.0  # a class's means and shares are those of its rows, and of so many rows of all classes
LEAST = 5  # observed values of a column that tell the quantiles of a class
ROUNDS = 20  # of fitting the tilt
TURNS = 2  # of fitting the correlations of scores
RIDGE, LEAST_VARIANCE = 1e-4, 1e-3


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
    with torch.no_grad(), seeded(seed):
        some = torch.randperm(len(x))[:ROWS]
        rows, known, classes = (torch.from_numpy(np.ascontiguousarray(part))[some] for part in (x, observed, y))
        sampler = RowSampler(columns, z=z, n_classes=n_classes).eval()
        counts = np.bincount(y, minlength=n_classes)
        sampler.shares.copy_(torch.from_numpy(counts / counts.sum()))
        codes = encoded(model, rows.to(device), classes.to(device))
        learn_codes(sampler, codes.cpu(), classes)
        errors = rows - decoded(model, codes, classes.to(device)).cpu()
        learn_errors(sampler, errors[:, sampler.groups.number], classes)
        sampler.stepped.copy_(are_stepped(rows, known, sampler.groups.number))
        each = int(np.clip(min(GENERATED // n_classes, CELLS // x.shape[1]), FEWEST, MOST))
        for k in range(n_classes):
            label = torch.full((each,), k)
            new = decoded(model, sampler.codes(label, torch.randn(each, z)).to(device), label.to(device)).cpu()
            learn_quantiles(sampler, k, new, rows, known, classes == k)
            learn_rotation(sampler, k, new, rows[classes == k])
            learn_tilt(sampler, k, new, rows, known, classes == k)
    return sampler


def labels_for(model: VAE, y: Tensor, like: Tensor) -> Tensor | None:
    """The labels that encoder and decoder take."""
    return model.one_hot(y, like) if isinstance(model, ConditionalVAE) else None


def encoded(model: VAE, rows: Tensor, y: Tensor) -> Tensor:
    """A code z ~ q(z|x, y) of each row, `(rows, z)`."""
    x = rows[:, :, None, None]
    codes: Tensor = model.encoder(x, labels_for(model, y, x)).qz.sample()
    return codes


def decoded(model: VAE, z: Tensor, y: Tensor) -> Tensor:
    """The decoder's means `(rows, d)`."""
    means: Tensor = model.decode(z, labels_for(model, y, z)).mean
    return means.flatten(1)


def learn_codes(sampler: RowSampler, codes: Tensor, y: Tensor) -> None:
    """Set the mean and the covariance of each class's codes `(n, z)`."""
    n_classes, z = sampler.code_mean.shape
    counts = torch.bincount(y, minlength=n_classes)[:, None]
    totals = torch.zeros(n_classes, z).index_add(0, y, codes)
    sampler.code_mean.copy_((totals + OTHERS * codes.mean(dim=0)) / (counts + OTHERS))
    for k, covariance in enumerate(of_classes(codes - sampler.code_mean[y], y, n_classes)):
        sampler.code_root[k] = torch.linalg.cholesky(covariance)


def learn_errors(sampler: RowSampler, errors: Tensor, y: Tensor) -> None:
    """Set the scales and correlations of each class's errors `(n, numbers)`."""
    if not errors.shape[1]:
        return
    if not sampler.error_root.numel():
        sampler.error_scale.copy_(errors.square().mean(dim=0).sqrt().expand_as(sampler.error_scale))
        return
    for k, covariance in enumerate(of_classes(errors, y, len(sampler.shares))):
        sampler.error_scale[k] = covariance.diagonal().sqrt()
        correlation = covariance / torch.outer(sampler.error_scale[k], sampler.error_scale[k])
        sampler.error_root[k] = torch.linalg.cholesky(correlation)


def of_classes(values: Tensor, y: Tensor, n_classes: int) -> list[Tensor]:
    """The covariance of each class's centred values `(n, d)`, shrunk towards that of all classes."""
    n, d = values.shape
    pooled, more = values.T @ values / n + RIDGE * torch.eye(d), SHRINKAGE + d
    parts = [values[y == k] for k in range(n_classes)]
    return [(own.T @ own + more * pooled) / (len(own) + more) for own in parts]


def learn_quantiles(sampler: RowSampler, k: int, means: Tensor, rows: Tensor, known: Tensor, own: Tensor) -> None:
    """Set quantiles of class k's numbers: of generated ones, from the decoder's means, and of observed ones.

    `known` `(n, d)`: which values of `rows` are observed. `own` `(n,)`: which rows are of the class. A column with
    few observed values in the class has the quantiles of all classes.
    """
    levels, number = torch.linspace(0, 1, GRID), sampler.groups.number
    of_class = known & own[:, None]
    seen = torch.where(of_class.sum(dim=0) >= LEAST, of_class, known)
    sampler.generated[k] = at_levels(sampler.with_errors(means, k, torch.randn_like(means)), levels).T
    sampler.observed[k] = at_levels(rows[:, number], levels, seen[:, number]).T


def learn_rotation(sampler: RowSampler, k: int, means: Tensor, rows: Tensor) -> None:
    """Set W of class k, so that the normal scores of its generated numbers correlate as those of its rows do.

    W = G^-½ (G^½ O G^½)^½ G^-½ changes the scores least of all that turn the covariance G into O. O is shrunk
    towards G. Equal values have equal scores, in G too; so where a column has few values, a second step is needed.
    """
    if not sampler.rotation.numel():
        return
    values = sampler.with_errors(means, k, torch.randn_like(means))
    wanted, more = covariance_of_scores(rows[:, sampler.groups.number]), SHRINKAGE + values.shape[1]
    for _ in range(TURNS):
        found = covariance_of_scores(sampler.by_quantile(values, k))
        shrunk = (len(rows) * wanted + more * found) / (len(rows) + more)
        root, inverse = power(found, 0.5), power(found, -0.5)
        sampler.rotation[k] = inverse @ power(root @ shrunk @ root, 0.5) @ inverse @ sampler.rotation[k]
        scores = score_of(place_in(sampler.generated[k], values.T.contiguous()))
        scale = (sampler.rotation[k] @ scores).std(dim=1).clamp(min=RIDGE)
        sampler.rotation[k] /= scale[:, None]  # scores keep their variance


def covariance_of_scores(values: Tensor) -> Tensor:
    """The covariance of the columns' normal scores; values `(rows, columns)` that are equal share a rank."""
    n, d = values.shape
    if n < 2:
        return torch.eye(d)
    columns = values.T.contiguous()
    ordered = columns.sort(dim=1).values
    ranks = (torch.searchsorted(ordered, columns) + torch.searchsorted(ordered, columns, right=True)) / 2
    scores: Tensor = torch.special.ndtri(ranks / n)
    scores = scores - scores.mean(dim=1, keepdim=True)
    return scores @ scores.T / n + LEAST_VARIANCE * torch.eye(d)


def power(matrix: Tensor, exponent: float) -> Tensor:
    """A power of a symmetric matrix with eigenvalues > 0."""
    values, vectors = torch.linalg.eigh(matrix)
    result: Tensor = (vectors * values.clamp(min=LEAST_VARIANCE / 2) ** exponent) @ vectors.T
    return result


def at_levels(values: Tensor, levels: Tensor, seen: Tensor | None = None) -> Tensor:
    """The values whose ranks are nearest to these fractions of the highest rank, `(levels, columns)`.

    Of values `(rows, columns)`, those that are `seen` `(rows, columns)` count; None: all.
    """
    seen = torch.ones_like(values, dtype=torch.bool) if seen is None else seen
    ordered = values.where(seen, torch.inf).sort(dim=0).values
    ranks = (levels[:, None] * (seen.sum(dim=0) - 1).clamp(min=0)).round().long()
    return ordered.gather(0, ranks)


def are_stepped(rows: Tensor, known: Tensor, number: Tensor) -> Tensor:
    """Whether most observed values of a column of numbers occur several times, `(numbers,)`."""
    seen = known[:, number]
    ordered = rows[:, number].where(seen, torch.inf).sort(dim=0).values
    new = (ordered[1:] != ordered[:-1]) & ordered[1:].isfinite()
    return 1 + new.sum(dim=0) < seen.sum(dim=0) / 2


def learn_tilt(sampler: RowSampler, k: int, means: Tensor, rows: Tensor, known: Tensor, own: Tensor) -> None:
    """Set the tilt of class k's chances, so that their mean over generated rows is the share among observed ones."""
    groups, tilt = sampler.groups, torch.zeros(rows.shape[1])
    if groups.number.all():
        return
    weights = (own + OTHERS / len(own))[:, None] * known
    wanted = ((weights * rows).sum(dim=0) / weights.sum(dim=0).clamp(min=RIDGE)).clamp(RIDGE, 1 - RIDGE)
    for _ in range(ROUNDS):
        found = groups.tilted(means, tilt).mean(dim=0).clamp(RIDGE, 1 - RIDGE)
        tilt += torch.where(groups.category, wanted.log() - found.log(), wanted.logit() - found.logit())
    sampler.tilt[k] = torch.where(groups.number, 0, tilt)
