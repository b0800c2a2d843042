"""First values for missing entries, from the nearest rows or from column means."""

import numpy as np
from numpy.typing import NDArray
from sklearn.impute import KNNImputer

Values = NDArray[np.float32]
ROWS = 5_000  # largest number of rows for filling from neighbours; it takes seconds
LONG = 300_000_000  # missing values × rows that take about five seconds
NEIGHBOURS = 10


def fill_from_neighbours(x: Values, fill: Values) -> Values:
    """Rows `(rows, …)` with NaN replaced by neighbours' means, or by `fill` if neighbours cannot be used."""
    missing = np.isnan(x)
    if not missing.any():
        return x
    if not _are_asked(missing):
        return np.where(missing, fill, x)
    flat = x.reshape(len(x), -1)
    near = KNNImputer(n_neighbors=min(NEIGHBOURS, len(x)), weights="distance").fit_transform(flat)
    return np.where(missing, near.reshape(x.shape).astype(np.float32), x)


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
