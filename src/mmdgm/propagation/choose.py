"""The choice of a graph: the one along which the labels predict each other best.

Tables have one kind of graph. Images may be compared by their outlines or by the deformation distance, which is good
for handwriting and drawings, and bad for textures. The candidates are compared on a part of the rows by the mean of
P(y_i | the other labels), see `leave_one_out`. The graph of outlines is kept unless the gain of another is larger than
its standard error. Images that are too small for outlines are compared by their pixels.

Images of some kinds, such as photographs of house numbers, have neighbours of other classes by all these distances.
Many labels do without the propagated ones there: SVHN with 500 labels has 39 % errors with them, 19 % without. Few
labels do not: with 50, propagation alone errs in 66 % of the unlabeled images, the networks without it in 85 %. So
there is no graph if the labels are many, and the best graph predicts too few of them.
"""

from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from mmdgm.propagation.features import has_outlines, points_of
from mmdgm.propagation.graph import DeformationSearch, neighbour_graph
from mmdgm.propagation.leave_one_out import leave_one_out
from mmdgm.propagation.propagate import Labels, Values

Builder = Callable[[Tensor], csr_matrix]
UNLABELED, LABELED = 2000, 300  # largest numbers of rows that graphs are compared on
MANY, LEAST_ACCURACY = 20, 0.6  # labels per class that can do without a graph; the fraction that others must predict
CANDIDATES = 20  # nearest by outlines, among which the deformation distance chooses


def of_points(x: Tensor) -> csr_matrix:
    """S of rows compared by their points, see `points_of`."""
    return neighbour_graph(points_of(x))


OTHERS: tuple[Builder, ...] = tuple(
    DeformationSearch(straighten=straighten, candidates=CANDIDATES).graph for straighten in (False, True)
)


def choose_graph(x: Tensor, y: Labels, *, kappa: float, rng: np.random.RandomState) -> Builder | None:
    """The builder of a graph for rows x `(n, …)` with labels y (−1: unlabeled). None: no graph suits them."""
    if np.bincount(y[y >= 0]).max() < 2:
        return of_points
    rows = np.concatenate(
        [rng.permutation(np.flatnonzero(part))[:most] for part, most in ((y >= 0, LABELED), (y < 0, UNLABELED))]
    )
    some, given = x[torch.from_numpy(rows)], y[rows]
    known = given[given >= 0]

    best: Builder = of_points
    chances = leave_one_out(best(some), given, kappa=kappa)
    before = of_truth(chances, known)
    most = 0.0
    for build in OTHERS if has_outlines(x.shape) else ():
        others = leave_one_out(build(some), given, kappa=kappa)
        gain = of_truth(others, known) - before
        if gain.mean() > max(most, gain.std() / len(gain) ** 0.5):
            best, most, chances = build, float(gain.mean()), others
    accuracy = float((chances.argmax(axis=1) == known).mean())
    poor = len(known) >= MANY * chances.shape[1] and accuracy < LEAST_ACCURACY
    return None if poor else best


def of_truth(chances: Values, y: Labels) -> Values:
    """The chance of each row's own class, `(n,)`."""
    found: Values = chances[np.arange(len(y)), y]
    return found
