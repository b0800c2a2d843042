"""Guesses for all rows, and the rows to ask about next, while somebody gives labels: within a second per label.

What does not depend on the labels is computed once: the graph of neighbours and its leading eigenvectors. Labels then
pass along the graph (`propagate`), and the next rows are those of `suggest`. On tables, quick classifiers guess unless
the graph predicts held-out labels better (`table_guesses`); this is decided anew when the labels have doubled.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mmdgm.propagation.features import points_of
from mmdgm.propagation.graph import nearest_rows, neighbour_graph
from mmdgm.propagation.propagate import KAPPA, Labels, Values, class_chances, class_strength, lead_of, may_be_new
from mmdgm.propagation.suggest import Field, doubt, leading_part
from mmdgm.propagation.table_guesses import FEWER_TREES, class_chances_of_tables, graph_is_better

ROWS = 20_000  # largest number of rows in the graph; others take the guess of the nearest of these
AHEAD = 20  # rows that are chosen one after the other; the others follow by what their labels would say alone


class Guesses(NamedTuple):
    """What the labels so far say of n rows."""

    chances: Values  # (n, K)
    lead: Values  # (n,): the lead of the largest chance
    may_be_new: NDArray[np.bool_]  # (n,): whether a row may be of a class without any label
    order: list[int]  # rows to ask about, the most useful first


class Guesser:
    """Guesses classes of rows x `(n, …)` from some labels."""

    def __init__(self, x: NDArray[np.float32], *, seed: int = 0):
        self.x, self._rng = x, np.random.RandomState(seed)
        self.rows = np.sort(self._rng.permutation(len(x))[:ROWS])
        points = points_of(torch.from_numpy(x))
        self._graph = neighbour_graph(points[self.rows])
        self._z = leading_part(self._graph)
        self._nearest = np.arange(len(x))
        if len(x) > ROWS:
            self._nearest = nearest_rows(points, 1, points[self.rows]).number[:, 0].numpy()
        self._decided, self._uses_graph = 0, x.ndim > 2

    def __call__(self, y: Labels, free: NDArray[np.bool_]) -> Guesses:
        """Return guesses from labels y `(n,)` (−1: none); `free` `(n,)`: the rows that may be asked about."""
        inside = self._inside(y)
        known = np.flatnonzero(inside >= 0)
        order = self._order(Field(self._z, doubt(self._graph, inside), known), free)
        n, no_row = len(self.x), np.zeros(len(self.x), bool)
        if not len(known):
            return Guesses(np.zeros((n, 0)), np.zeros(n), no_row, order)
        if not self._uses_graph:
            chances = class_chances_of_tables(self.x, y, self.x, trees=FEWER_TREES)
            return Guesses(chances, lead_of(chances), no_row, order)
        strength = class_strength(self._graph, inside, kappa=KAPPA)
        chances = class_chances(strength, inside)
        new = may_be_new(strength, chances)
        chances = np.pad(chances, ((0, 0), (0, int(y.max()) + 1 - chances.shape[1])))[self._nearest]
        return Guesses(chances, lead_of(chances), new[self._nearest], order)

    def decide(self, y: Labels) -> bool:
        """Compare graph and classifiers if this is due; return whether guesses are others now."""
        count = int((y >= 0).sum())
        if self.x.ndim > 2 or count < 2 * self._decided or count == 0:
            return False
        before, self._decided = self._uses_graph, count
        self._uses_graph = graph_is_better(self.x, y, rng=self._rng)
        return self._uses_graph != before

    def _inside(self, y: Labels) -> Labels:
        """Labels of the graph's rows; a label of another row counts at the nearest one, if that has none."""
        inside = y[self.rows]
        others = np.setdiff1d(np.flatnonzero(y >= 0), self.rows)
        near = self._nearest[others]
        inside[near] = np.where(inside[near] < 0, y[others], inside[near])
        return inside

    def _order(self, field: Field, free: NDArray[np.bool_]) -> list[int]:
        rest = free[self.rows]
        first = field.best_rows(AHEAD, rest)
        rest[first] = False
        later = np.argsort(-np.where(rest, field.gains(), -1), kind="stable")[: int(rest.sum())]
        inside = self.rows[np.concatenate([np.array(first, int), later])]
        return [*inside.tolist(), *np.setdiff1d(np.flatnonzero(free), self.rows).tolist()]
