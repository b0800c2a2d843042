"""First values for missing entries, from the nearest rows or from column means."""

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import KNNImputer

from mmdgm.data import deadline

Values = NDArray[np.float32]
ROWS = 5_000  # largest number of rows for filling from neighbours; it takes seconds
LONG = 300_000_000  # missing values × rows that take about five seconds
NEIGHBOURS = 10
PORTION = 10  # rows between looks at the clock


def fill_from_neighbours(x: Values, fill: Values) -> Values:
    """Rows `(rows, …)` with NaN replaced by neighbours' means, or by `fill` if neighbours cannot be used."""
    missing = np.isnan(x)
    if not missing.any():
        return x
    if not _are_asked(missing):
        return np.where(missing, fill, x)
    flat = x.reshape(len(x), -1)
    imputer = KNNImputer(n_neighbors=min(NEIGHBOURS, len(x)), weights="distance").fit(flat)
    portion = PORTION if deadline.is_set() else len(flat)
    filled = np.where(missing, fill, x)
    for start in range(0, len(flat), portion):
        if deadline.is_over():  # the rest keeps the means
            break
        some = slice(start, start + portion)
        near = imputer.transform(flat[some]).reshape(x[some].shape).astype(np.float32)
        filled[some] = np.where(missing[some], near, x[some])
    return filled


def _are_asked(missing: NDArray[np.bool_]) -> bool:
    """Whether neighbours can be used: rows are few enough, and every column has values."""
    return len(missing) <= ROWS and not missing.reshape(len(missing), -1).all(axis=0).any()


def takes_long(x: Values) -> bool:
    """Whether filling from neighbours will take more than some seconds."""
    missing = np.isnan(x)
    return _are_asked(missing) and int(missing.sum()) * len(x) > LONG


def column_means(x: Values) -> Values:
    """Means `(…)` of the observed values of each column of rows `(rows, …)`."""
    observed = ~np.isnan(x)
    counts = np.maximum(observed.sum(axis=0), 1)
    return np.asarray(np.where(observed, x, 0).sum(axis=0) / counts, np.float32)
