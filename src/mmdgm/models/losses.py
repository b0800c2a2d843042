"""Max-margin losses: pure functions of scores and labels.

Scores are unbounded margins, shape `(rows, K)`; labels are int64, shape `(rows,)`. The putative label
ŷ = argmax_k s_k is a constant for the gradient.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from mmdgm.distributed import mean_over_ranks


def hinge(scores: Tensor, y: Tensor, *, margin: float, smoothing: float = 0.0, cost: Tensor | None = None) -> Tensor:
    """Crammer–Singer hinge loss of each row, paper §3.2, shape `(rows,)`.

    max_k ( Δl_y(k) + s_k − s_y ) with Δl_y(k) = margin · cost[y, k]: zero if the true class leads every class k by
    Δl_y(k), else the largest shortfall. The class k of the maximum is the loss-augmented prediction.

    `cost` `(K, K)`: the cost of predicting k where y is true, 0 on the diagonal. None: 1 for every wrong class.
    With `smoothing` T the maximum becomes T·logsumexp(·/T), which has a gradient for every class. T → 0 gives the
    maximum.
    """
    true_score = scores.gather(1, y[:, None])
    by_margin = (scores + margin).scatter(1, y[:, None], true_score)
    augmented = by_margin if cost is None else scores + margin * cost[y]
    if smoothing:
        return smoothing * (augmented / smoothing).logsumexp(dim=1) - true_score.squeeze(1)
    return augmented.max(dim=1).values - true_score.squeeze(1)


def hat(
    scores: Tensor, putative: Tensor, *, margin: float, smoothing: float = 0.0, cost: Tensor | None = None
) -> Tensor:
    """Hat loss of each unlabeled row, paper §3.3, shape `(rows,)`: the hinge loss with the putative label ŷ.

    If ŷ = argmax_k s_k and there is no `cost`, it is max(0, margin − (largest score − second largest)).
    """
    return hinge(scores, putative, margin=margin, smoothing=smoothing, cost=cost)


def mixed(loss: Callable[..., Tensor], share: Tensor | None, *labels: Tensor) -> Tensor:
    """Loss of each row of images blended by `mixup`, shape `(rows,)`: (1 − share)·loss(labels) + share·loss(labels').

    The primed labels are those of the row before, whose image has the share `(rows,)`. None: nothing was blended.
    """
    own = loss(*labels)
    if share is None:
        return own
    return (1 - share) * own + share * loss(*(part.roll(1, dims=0) for part in labels))


def lead(scores: Tensor) -> Tensor:
    """Difference between the largest and the second largest score of each row, shape `(rows,)`."""
    first_two = scores.topk(2, dim=1).values
    return first_two[:, 0] - first_two[:, 1]


def label_balance(scores: Tensor, y: Tensor, scores_unlabeled: Tensor, *, weight: Tensor | None = None) -> Tensor:
    """Label-balance penalty, paper §3.3, a scalar.

    ‖ mean_u( s_u · onehot(ŷ_u) ) − mean_l( s_l · onehot(y_l) ) ‖₂: each class's mean activation on the unlabeled
    rows should equal its mean activation on the labeled rows. Means are over all ranks' rows. `weight` `(K,)`
    multiplies the means of the labeled rows, if classes have other shares among them.
    """
    k = scores.shape[1]
    collected = (scores * one_hot(y, k)).mean(dim=0)
    if weight is not None:
        collected = collected * weight
    collected_unlabeled = (scores_unlabeled * one_hot(scores_unlabeled.argmax(dim=1), k)).mean(dim=0)
    distance: Tensor = torch.linalg.vector_norm(mean_over_ranks(collected_unlabeled - collected))
    return distance
