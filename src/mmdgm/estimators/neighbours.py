"""First guesses from neighbours: for missing values, and for the labels of unlabeled rows."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import KNNImputer
from sklearn.semi_supervised import LabelSpreading

Values = NDArray[np.float32]
IMPUTED = 5_000  # rows up to which filling from neighbours takes seconds
SPREAD = 12_000  # rows among which labels are spread
NEIGHBOURS = 10


def fill_from_neighbours(x: Values, fill: Values) -> Values:
    """Rows `(rows, …)` with NaN replaced by neighbours' means, or by `fill` where there are too many rows."""
    missing = np.isnan(x)
    if not missing.any():
        return x
    flat = x.reshape(len(x), -1)
    if len(x) > IMPUTED or np.isnan(flat).all(axis=0).any():
        return np.where(missing, fill, x)
    near = KNNImputer(n_neighbors=min(NEIGHBOURS, len(x)), weights="distance").fit_transform(flat)
    return np.where(missing, near.reshape(x.shape).astype(np.float32), x)


def spread_labels(x: Values, y: NDArray[np.int64], *, rng: np.random.RandomState) -> NDArray[np.int64]:
    """Labels for all rows: given ones (≥ 0) as they are, others (−1) spread along a graph of neighbours."""
    labeled, unlabeled = np.flatnonzero(y >= 0), np.flatnonzero(y < 0)
    among = unlabeled if len(unlabeled) <= SPREAD else rng.choice(unlabeled, SPREAD, replace=False)
    known = labeled if len(labeled) <= SPREAD else rng.choice(labeled, SPREAD, replace=False)
    rows = np.concatenate([known, among])
    flat = x.reshape(len(x), -1)
    spread: Any = LabelSpreading(kernel="knn", n_neighbors=min(NEIGHBOURS, len(rows) - 1), max_iter=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says when it has not converged, and where no neighbour is labeled
        spread.fit(flat[rows], y[rows])
        guessed = y.copy()
        guessed[among] = spread.transduction_[len(known) :]
        rest = np.setdiff1d(unlabeled, among)
        if len(rest):
            guessed[rest] = spread.predict(flat[rest])
    return guessed
