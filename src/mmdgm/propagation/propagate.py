"""Labels for unlabeled rows, propagated from the labeled ones along a graph of neighbours.

A classifier trained on few labels misclassifies whole groups of images without a labeled example, such as sevens
with a bar. Many images lie between such a group and the rest of its class. Labels that pass from neighbour to
neighbour reach the group through them (Zhou et al. 2004, Learning with local and global consistency).

    F       (I − κ S)^(−1) B, shape (n, K); S is the `graph`, B holds the given labels one-hot, zeros for other rows
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, eye
from scipy.sparse.linalg import cg
from torch import Tensor

from mmdgm.propagation.features import CHUNK, points_of
from mmdgm.propagation.graph import neighbour_graph

Labels = NDArray[np.int64]  # −1: unlabeled
ROWS = 20_000  # largest number of labeled rows, and of unlabeled rows, in a graph
KAPPA, KAPPA_HANDWRITING = 0.95, 0.998


def propagate(graph: csr_matrix, y: Labels, *, kappa: float, share: float = 1.0) -> Labels:
    """Labels `(n,)` of a graph's rows: given labels stay, others are propagated, −1 for rows that none reaches.

    `kappa` is the fraction of its strength that a label keeps from neighbour to neighbour. Of the rows nearest to a
    class, the fraction `share` gets its label: those with the largest (F₁ − F₂)/ΣF, where F₁ and F₂ are the two
    largest values of a row of F. The others stay −1.
    """
    strength = diffuse(graph, y, kappa=kappa)
    first_two = np.partition(strength, -2, axis=1)[:, -2:]
    lead = (first_two[:, 1] - first_two[:, 0]) / strength.sum(axis=1).clip(1e-300)
    nearest_class, labels = strength.argmax(axis=1), y.copy()
    for k in range(strength.shape[1]):
        rows = np.flatnonzero((nearest_class == k) & (y < 0) & strength.any(axis=1))
        rows = rows[np.argsort(-lead[rows], kind="stable")]
        labels[rows[: math.floor(share * len(rows))]] = k
    return labels


def propagate_to_all(x: Tensor, y: Labels, *, rng: np.random.RandomState) -> Labels:
    """Labels for all rows x `(n, …)`: given labels (≥ 0) stay, others (−1) are propagated.

    Rows that no label reaches, and rows beyond `ROWS`, take the label of the nearest row that has one.
    """
    points = points_of(x)
    rows = np.concatenate(
        [
            part if len(part) <= ROWS else rng.choice(part, ROWS, replace=False)
            for part in (np.flatnonzero(y >= 0), np.flatnonzero(y < 0))
        ]
    )
    labels = y.copy()
    labels[rows] = propagate(neighbour_graph(points[rows]), y[rows], kappa=KAPPA)
    known, unknown = np.flatnonzero(labels >= 0), np.flatnonzero(labels < 0)
    labels[unknown] = labels[known][nearest(points[unknown], points[known])]
    return labels


def diffuse(graph: csr_matrix, y: Labels, *, kappa: float) -> NDArray[np.float64]:
    """F `(n, K)`: the strength of each class's labels at each row."""
    system = (eye(len(y)) - kappa * graph).tocsr()
    classes = range(int(y.max()) + 1)
    return np.stack([cg(system, (y == k).astype(float), rtol=1e-6)[0] for k in classes], axis=1).clip(0)


def nearest(points: Tensor, others: Tensor) -> NDArray[np.int64]:
    """For each point `(n, d)`, the index of the nearest of `others` `(m, d)`."""
    numbers = [torch.cdist(part, others).argmin(dim=1).cpu() for part in points.split(CHUNK)]
    return torch.cat(numbers).numpy() if numbers else np.empty(0, np.int64)
