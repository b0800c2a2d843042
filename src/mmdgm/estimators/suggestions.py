"""Which rows to label, for arrays, images and data frames as `fit` takes them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length

from mmdgm.data.fills import fill_from_neighbours
from mmdgm.data.labels import as_labels, is_unlabeled, refuse_missing
from mmdgm.errors import InputError
from mmdgm.estimators.classifiers import MMCVAClassifier
from mmdgm.propagation.features import points_of
from mmdgm.propagation.graph import neighbour_graph
from mmdgm.propagation.leave_one_out import leave_one_out
from mmdgm.propagation.propagate import KAPPA
from mmdgm.propagation.suggest import suggest_rows

ROWS = 100_000  # largest number of rows in a graph
TESTED = 500  # largest number of labels that are left out, one by one


@dataclass(frozen=True)
class Suggestions:
    """Rows to label, in order, and how well the labels so far predict each other."""

    rows: NDArray[np.intp]
    errors: int  # labels that the other labels predict wrongly
    tested: int  # labels that were compared


def suggest_labels(
    X: Any, n: int, y: Any = None, *, unlabeled: Any = -1, random_state: Any = None
) -> NDArray[np.intp]:
    """Return the indices of n rows of X to label next, the most useful first.

    Parameters
    ----------
    X : array, data frame or images, as for `MMCVAClassifier.fit`; NaN: missing.
    n : int
        Number of rows. Any beginning of the result is a good choice too.
    y : array of the labels so far, with the marker `unlabeled` in other rows; None: no labels.
    unlabeled : object
        Value of y that marks rows without a label.
    random_state : int, RandomState or None
        For more than 100,000 rows, of which 100,000 are looked at.
    """
    return suggestions(X, n, y, unlabeled=unlabeled, random_state=random_state).rows


def suggestions(X: Any, n: int, y: Any = None, *, unlabeled: Any = -1, random_state: Any = None) -> Suggestions:
    """Return `suggest_labels` with the leave-one-out errors of the labels so far."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InputError(f"n={n!r}: give the number of rows to suggest, 1 or more")
    reader = MMCVAClassifier()
    x, _ = reader._learn_inputs(X)
    codes = _codes(y, len(x), unlabeled)
    free = int((codes < 0).sum())
    if n > free:
        raise InputError(f"n={n}: there are {free} rows without a label")
    some = np.arange(len(x))
    if len(x) > ROWS:
        known = np.flatnonzero(codes >= 0)[:ROWS]
        others = check_random_state(random_state).permutation(np.flatnonzero(codes < 0))
        some = np.sort(np.concatenate([known, others[: max(n, ROWS - len(known))]]))
    graph = neighbour_graph(points_of(torch.from_numpy(fill_from_neighbours(x[some], reader.fill_))))
    rows = some[suggest_rows(graph, n, codes[some])]
    wrong = np.zeros(0, bool)
    if 0 < (codes >= 0).sum() <= TESTED:
        known = codes[some][codes[some] >= 0]
        wrong = leave_one_out(graph, codes[some], kappa=KAPPA).argmax(axis=1) != known
    return Suggestions(rows, int(wrong.sum()), len(wrong))


def without_holes(X: Any) -> NDArray[np.float32]:
    """Return rows as a classifier sees them, `(n, …)`, with first values for the missing ones."""
    reader = MMCVAClassifier()
    x, _ = reader._learn_inputs(X)
    return fill_from_neighbours(x, reader.fill_)


def _codes(y: Any, n_rows: int, unlabeled: Any) -> NDArray[np.int64]:
    """Class numbers, −1 for rows without a label. There may be one class, or none.

    So the marker −1 beside labels 1 is no class here: class 0 may come later.
    """
    codes = np.full(n_rows, -1, np.int64)
    if y is None:
        return codes
    y = as_labels(y)
    check_consistent_length(np.empty(n_rows), y)
    known = ~is_unlabeled(y, unlabeled, classes=np.empty(0))
    refuse_missing(y[known], unlabeled)
    codes[known] = np.unique(y[known].astype(str), return_inverse=True)[1]
    return codes
