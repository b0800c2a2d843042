"""A linear max-margin classifier of frozen features, the paper's baseline "VA+Pegasos".

The multi-class SVM of Crammer and Singer, by the stochastic subgradient steps of Pegasos (Shalev-Shwartz et al.,
2011):

    min_W  λ/2 ‖W‖² + mean_n hinge(W x_n, y_n)          hinge: `losses.hinge` with margin 1

The rows x_n are features in their `Axes`, and a constant 1 whose weights are the biases. λ is 1/(C·N) of
scikit-learn's LinearSVC.
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
FIRST_RATE = 10.0  # of rows of mean squared length 1
# what `fit_linear_svm` chooses from; of equals, the first
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
    """Centre and principal axes of features: the frame in which a penalty means the same for all features.

    x = (f − mean) · directions · scale(a), with scale_j(a)² ∝ 1 / ((1−a) variance_j + a · mean variance) such that
    the mean of ‖x‖² is 1. The shrinkage a = 1 turns the features and divides them by one number, so distances
    stay in proportion; a → 0 gives all axes the same variance. Subgradient steps are slow along axes of little
    variance: features that are far from round want a small a, few rows a large one.
    """

    mean: Tensor  # (d,)
    directions: Tensor  # (d, axes)
    variances: Tensor  # (axes,)

    @classmethod
    def of(cls, features: Tensor) -> "Axes":
        mean = features.mean(dim=0)
        centred = features - mean
        variances, directions = torch.linalg.eigh((centred.T @ centred).double() / len(features))
        rank = min(features.shape)  # few rows vary along few axes
        return cls(mean, directions[:, -rank:].to(features), variances[-rank:].clamp(min=0).to(features))

    def rows(self, features: Tensor, *, shrinkage: float) -> Tensor:
        """Rows x with their constant 1, `(rows, axes + 1)`."""
        turned = (features - self.mean) @ (self.directions * self._scale(shrinkage))
        return torch.cat([turned, torch.ones_like(turned[:, :1])], dim=1)

    def svm(self, weights: Tensor, *, shrinkage: float) -> LinearSVM:
        """The classifier of features that `weights` `(K, axes + 1)` are of rows."""
        weight = weights[:, :-1] @ (self.directions * self._scale(shrinkage)).T
        return LinearSVM(weight, weights[:, -1] - weight @ self.mean)

    def _scale(self, shrinkage: float) -> Tensor:
        if not self.variances.any():  # constant features
            return torch.ones_like(self.variances)
        shrunk = self.variances.lerp(self.variances.mean(), shrinkage)
        return (shrunk * (self.variances / shrunk).sum()).rsqrt()


def subgradient(weights: Tensor, x: Tensor, y: Tensor, *, penalties: Tensor) -> Tensor:
    """A subgradient of the objective of each of P penalties `(P, 1, 1)` at its weights `(P, K, d)`."""
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
    """Weights `(P, K, d)` for each of P penalties λ, fitted side by side to rows `(N, d)` with labels `(N,)`.

    Step t goes by 1/(λ(t + t₀)): Pegasos' rate, with t₀ = 1/(λ · FIRST_RATE) in the place of projections, because
    1/λ is far too much for the first steps. The result is the mean over the later half of the steps.
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
    """The classifier of features `(N, d)` with labels `(N,)`; shrinkage and λ are chosen on a part of them."""
    features = at_least_float32(features)
    shrinkage, penalty = _choose(features, y, n_classes=n_classes, steps=steps, seed=seed)
    axes = Axes.of(features)
    x = axes.rows(features, shrinkage=shrinkage)
    (weights,) = pegasos(x, y, n_classes=n_classes, penalties=[penalty], steps=steps, seed=seed)
    return axes.svm(weights, shrinkage=shrinkage)


def _choose(features: Tensor, y: Tensor, *, n_classes: int, steps: int, seed: int) -> tuple[float, float]:
    """(shrinkage, λ) of the fewest errors on a fifth of the rows.

    Where that fifth is less than 1,000 rows, several are drawn, ten at most, and share the steps.
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
