"""Labels for unlabeled rows, propagated from the labeled ones along a graph of neighbours.

A classifier trained on few labels misclassifies whole groups of images without a labeled example, such as sevens
with a bar. Many images lie between such a group and the rest of its class. Labels that pass from neighbour to
neighbour reach the group through them (Zhou et al. 2004, Learning with local and global consistency).

    F        (I − κ S)^(−1) B, shape (n, K); S is the `graph`, B holds the given labels one-hot, zeros for other rows
    f_k      F_k divided by the number of given labels of class k: the mean strength of a label of class k
    P(k|i)   ∝ p_k f_ik⁴, where p_k is the share of class k: as given, or among the given labels

Labels flood whole clusters, so the sum F_k grows with the number of labels of class k, and the mean f_k does not.
Where classes overlap, their shares count. The power 4 weighs one against the other (docs/lab-notebook.md).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, eye
from scipy.sparse.linalg import cg

from mmdgm.data import deadline

Labels = NDArray[np.int64]  # −1: unlabeled
Values = NDArray[np.float64]
KAPPA, KAPPA_HANDWRITING = 0.95, 0.998
POWER = 4
# a row may be of a class without any label if its strongest class has less than WEAK times the median strength, and
# leads by less than SURE
WEAK, SURE = 0.25, 0.9


def propagate(
    graph: csr_matrix, y: Labels, *, kappa: float, share: float = 1.0, prior: NDArray[Any] | None = None
) -> Labels:
    """Labels `(n,)` of a graph's rows: given labels stay, others are propagated, −1 for rows that none reaches.

    `kappa` is the fraction of its strength that a label keeps from neighbour to neighbour. Rows stay −1 too if they
    may be of a class without any label, see `may_be_new`. Of the other rows of a class, the fraction `share` gets its
    label: those where P leads by most. `prior`: the shares of the classes among all rows, if known.
    """
    strength = class_strength(graph, y, kappa=kappa)
    return surest_labels(strength, class_chances(strength, y, prior), y, share=share)


def surest_labels(strength: Values, chances: Values, y: Labels, *, share: float = 1.0) -> Labels:
    """Labels `(n,)` of rows with these class strengths and chances, see `propagate`."""
    lead, predicted, labels = lead_of(chances), chances.argmax(axis=1), y.copy()
    candidates = (y < 0) & strength.any(axis=1) & ~may_be_new(strength, chances)
    for k in range(chances.shape[1]):
        rows = np.flatnonzero(candidates & (predicted == k))
        rows = rows[np.argsort(-lead[rows], kind="stable")]
        labels[rows[: math.floor(share * len(rows))]] = k
    return labels


def class_strength(graph: csr_matrix, y: Labels, *, kappa: float) -> Values:
    """f `(n, K)`: the mean strength of each class's labels at each row."""
    mean: Values = diffuse(graph, y, kappa=kappa) / np.bincount(y[y >= 0]).clip(1)
    return mean


def class_chances(strength: Values, y: Labels, prior: NDArray[Any] | None = None) -> Values:
    """P `(n, K)` of rows with the given class strengths; zeros for rows without any strength."""
    shares = np.bincount(y[y >= 0], minlength=strength.shape[1]) if prior is None else np.asarray(prior, float)
    joint: Values = shares * class_likelihood(strength)
    chances: Values = joint / joint.sum(axis=1, keepdims=True).clip(1e-300)
    return chances


def class_likelihood(strength: Values) -> Values:
    """f⁴ `(n, K)`, relative to the strongest class of each row."""
    likelihood: Values = (strength / strength.max(axis=1, keepdims=True).clip(1e-300)) ** POWER
    return likelihood


def chances_of_others(chances: Values, weights: Values, number: Labels) -> Values:
    """P `(m, K)` of rows outside the graph: means of the graph's P `(n, K)` over their k neighbours.

    `weights` and `number`, `(m, k)` each, are the neighbours' weights and row numbers in the graph.
    """
    mean: Values = np.einsum("mk,mkc->mc", weights, chances[number]) / weights.sum(axis=1, keepdims=True)
    return mean


def lead_of(chances: Values) -> Values:
    """P₁ − P₂ `(n,)`: the lead of each row's largest chance."""
    ordered = np.sort(np.pad(chances, ((0, 0), (1, 0))), axis=1)  # a class more, for rows of a single class
    lead: Values = ordered[:, -1] - ordered[:, -2]
    return lead


def may_be_new(strength: Values, chances: Values) -> NDArray[np.bool_]:
    """Whether a row may be of a class without any label, `(n,)`: labels reach it weakly, and none leads clearly."""
    strongest = strength.max(axis=1)
    doubtful: NDArray[np.bool_] = (strongest < WEAK * np.median(strongest)) & (lead_of(chances) < SURE)
    return doubtful


def diffuse(graph: csr_matrix, y: Labels, *, kappa: float) -> Values:
    """F `(n, K)`: the sum of the strengths of each class's labels at each row."""
    system = (eye(len(y)) - kappa * graph).tocsr()
    strengths = []
    for k in range(int(y.max()) + 1):
        deadline.look()
        strengths.append(cg(system, (y == k).astype(float), rtol=1e-6)[0])
    return np.stack(strengths, axis=1).clip(0)
