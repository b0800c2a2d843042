"""A linear max-margin classifier of frozen features, the paper's baseline "VA+Pegasos".

It is the multi-class SVM of Crammer and Singer, trained by the stochastic subgradient steps of Pegasos
(Shalev-Shwartz et al., 2011):

    min_W  λ/2 ‖W‖² + mean_n hinge(W x_n, y_n)          hinge: `losses.hinge` with margin 1

A row x_n holds features transformed by `Axes`, and a constant 1 whose weights are the biases. λ is 1/(C·N) in terms
of scikit-learn's LinearSVC.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from mmdgm.data.batches import IndexStream
from mmdgm.data.splits import validation_split
from mmdgm.models.losses import hinge
from mmdgm.networks.layers import at_least_float32

STEPS = 10_000
BATCH = 100
FIRST_RATE = 10.0  # first learning rate, for rows of mean squared length 1
# candidates of `fit_linear_svm`; among equals it takes the first
SHRINKAGES = (1.0, 0.1, 0.001)
PENALTIES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


class LinearSVM(NamedTuple):
    """A linear classifier of K classes."""

    weight: Tensor  # (K, d)
    bias: Tensor  # (K,)

    def scores(self, features: Tensor) -> Tensor:
        """Unbounded margins of each class, `(rows, K)`."""
        return at_least_float32(features) @ self.weight.T + self.bias


class Axes(NamedTuple):
    """Mean and principal axes of features: a coordinate system in which a penalty means the same for all features.

    x = (f − mean) · directions · scale(a), with scale_j(a)² ∝ 1 / ((1−a) variance_j + a · mean variance) such that
    the mean of ‖x‖² is 1. The shrinkage a = 1 rotates the features and divides them by one number, so distances
    stay in proportion. a → 0 gives all axes the same variance. Subgradient steps are slow along axes of small
    variance, so features with very unequal variances need a small a. Few rows need a large a.
    """

    mean: Tensor  # (d,)
    directions: Tensor  # (d, axes)
    variances: Tensor  # (axes,)

    @classmethod
    def of(cls, features: Tensor) -> "Axes":
        mean = features.mean(dim=0)
        centred = features - mean
        variances, directions = torch.linalg.eigh((centred.T @ centred).double() / len(features))
        rank = min(features.shape)  # n rows vary along at most n axes
        return cls(mean, directions[:, -rank:].to(features), variances[-rank:].clamp(min=0).to(features))

    def rows(self, features: Tensor, *, shrinkage: float) -> Tensor:
        """Transformed rows x with the constant 1, `(rows, axes + 1)`."""
        turned = (features - self.mean) @ (self.directions * self._scale(shrinkage))
        return torch.cat([turned, torch.ones_like(turned[:, :1])], dim=1)

    def svm(self, weights: Tensor, *, shrinkage: float) -> LinearSVM:
        """Convert weights `(K, axes + 1)` on transformed rows to a classifier on raw features."""
        weight = weights[:, :-1] @ (self.directions * self._scale(shrinkage)).T
        return LinearSVM(weight, weights[:, -1] - weight @ self.mean)

    def _scale(self, shrinkage: float) -> Tensor:
        if not self.variances.any():  # constant features
            return torch.ones_like(self.variances)
        shrunk = self.variances.lerp(self.variances.mean(), shrinkage)
        return (shrunk * (self.variances / shrunk).sum()).rsqrt()


def subgradient(weights: Tensor, x: Tensor, y: Tensor, *, penalties: Tensor) -> Tensor:
    """Subgradients `(P, K, d)` of the objectives with P penalties `(P, 1, 1)`, at weights `(P, K, d)`."""
    p, k, _ = weights.shape
    scores = (x @ weights.flatten(0, 1).T).reshape(-1, k).requires_grad_()  # (rows · P, K)
    with torch.enable_grad():
        loss = hinge(scores, y.repeat_interleave(p), margin=1.0).sum() / len(x)
        (of_scores,) = torch.autograd.grad(loss, scores)
    return penalties * weights + (of_scores.reshape(len(x), -1).T @ x).reshape(weights.shape)


@torch.no_grad()
def pegasos(
    x: Tensor,
    y: Tensor,
    *,
    n_classes: int,
    penalties: Sequence[float],
    steps: int = STEPS,
    batch: int = BATCH,
    seed: int = 0,
) -> Tensor:
    """Weights `(P, K, d)` for P penalties λ, fitted in parallel to rows `(N, d)` with labels `(N,)`.

    The learning rate of step t is 1/(λ(t + t₀)). This is Pegasos' rate, with t₀ = 1/(λ · FIRST_RATE) instead of
    projections, because 1/λ is far too large for the first steps. The result is the mean over the later half of the
    steps.
    """
    penalty = x.new_tensor(penalties)[:, None, None]
    weights = x.new_zeros(len(penalties), n_classes, x.shape[1])
    mean = torch.zeros_like(weights)
    batches = IndexStream(len(x), batch, seed=(seed,), device=x.device)
    for t, rows in enumerate(batches.table(range(steps)), start=1):
        weights -= subgradient(weights, x[rows], y[rows], penalties=penalty) / (penalty * t + 1 / FIRST_RATE)
        if t > steps // 2:
            mean.lerp_(weights, 1 / (t - steps // 2))
    return mean


@torch.no_grad()
def fit_linear_svm(features: Tensor, y: Tensor, *, n_classes: int, steps: int = STEPS, seed: int = 0) -> LinearSVM:
    """The classifier fitted to features `(N, d)` with labels `(N,)`. Shrinkage and λ are chosen on held-out rows."""
    features = at_least_float32(features)
    shrinkage, penalty = _choose(features, y, n_classes=n_classes, steps=steps, seed=seed)
    axes = Axes.of(features)
    x = axes.rows(features, shrinkage=shrinkage)
    (weights,) = pegasos(x, y, n_classes=n_classes, penalties=[penalty], steps=steps, seed=seed)
    return axes.svm(weights, shrinkage=shrinkage)


def _choose(features: Tensor, y: Tensor, *, n_classes: int, steps: int, seed: int) -> tuple[float, float]:
    """The (shrinkage, λ) with the fewest errors on a held-out fifth of the rows.

    If a fifth is less than 1,000 rows, up to ten random splits are used. They share the steps.
    """
    n = max(len(y) // 5, 1)
    draws = min(max(1000 // n, 1), 10)
    errors = torch.zeros(len(SHRINKAGES), len(PENALTIES), dtype=torch.int64, device=y.device)
    for draw in range(draws):
        split = validation_split(y.cpu().numpy(), n, seed=seed * draws + draw)
        fitted, held_out = (torch.from_numpy(rows).to(y.device) for rows in split)
        axes = Axes.of(features[fitted])
        for i, a in enumerate(SHRINKAGES):
            x, x_held_out = (axes.rows(features[rows], shrinkage=a) for rows in (fitted, held_out))
            weights = pegasos(x, y[fitted], n_classes=n_classes, penalties=PENALTIES, steps=steps // draws, seed=seed)
            errors[i] += ((x_held_out @ weights.mT).argmax(dim=2) != y[held_out]).sum(dim=1)
    counts = errors.flatten().tolist()
    i, j = divmod(counts.index(min(counts)), len(PENALTIES))
    return SHRINKAGES[i], PENALTIES[j]
