"""Scores: the error of imputation, and ranks of methods over tables."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from benchmarks.tables.encoding import Array

FEWEST = 3  # hidden cells of a column that is scored
NEARLY_ZERO = 0.02  # error rate of the mode, or error of the mean in standard deviations


def column_error(train: Array, truth: Array, filled: Array, *, numeric: bool) -> float | None:
    """The error on a column's hidden cells, relative to that of the column's mean or mode; None if that is near 0.

    `train`: the observed training cells. For numbers the error is the root mean squared error, for categories the
    share of wrong ones.
    """
    if numeric:
        error, baseline = (np.sqrt(np.mean((guess - truth) ** 2)) for guess in (filled, train.mean()))
        enough = baseline > NEARLY_ZERO * train.std() and baseline > 0
    else:
        values, counts = np.unique(train, return_counts=True)
        error, baseline = (np.mean(guess != truth) for guess in (filled, values[counts.argmax()]))
        enough = baseline > NEARLY_ZERO
    return float(error / baseline) if enough else None


def imputation_error(
    train: Array, truth: Array, filled: Array, hidden: NDArray[np.bool_], numeric: NDArray[np.bool_]
) -> float | None:
    """The mean of `column_error` over columns with some hidden cells; None if there is no such column.

    `train`: codes of the training rows; NaN: missing. `truth`, `filled`: codes of the test rows.
    """
    errors = []
    for j, of_numbers in enumerate(numeric):
        cells, observed = hidden[:, j], train[~np.isnan(train[:, j]), j]
        if cells.sum() >= FEWEST:
            errors.append(column_error(observed, truth[cells, j], filled[cells, j], numeric=bool(of_numbers)))
    found = [error for error in errors if error is not None]
    return float(np.mean(found)) if found else None


def ranks(scores: Array, *, high_is_good: bool) -> Array:
    """Ranks `(tables, methods)`, 1 for the best; tied methods share the mean of their ranks."""
    rounded = np.round(scores, 9)  # means over seeds, which differ in the last digit
    return np.asarray(rankdata(-rounded if high_is_good else rounded, method="average", axis=1))


def wins(scores: Array, *, high_is_good: bool) -> NDArray[np.int64]:
    """Number of tables on which each method is best, alone or tied."""
    rounded = np.round(scores if high_is_good else -scores, 9)
    return np.asarray((rounded == rounded.max(axis=1, keepdims=True)).sum(axis=0))
