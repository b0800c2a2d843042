"""Imputers: they learn from the training rows and fill these and the test rows.

miceforest is left out: version 6.0.5 stops with errors beside current releases of lightgbm (a private method is gone)
and, on tables with categories, in its default matching of means. hyperimpute needs a dozen large packages.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from benchmarks.tables.encoding import Array, Encoder

ROUNDS, TREES = 4, 30  # of the loop of forests
WIDE = 150  # columns of a matrix from which on IterativeImputer uses only some of them per column
NEAREST = 50


class Filled(NamedTuple):
    """Training and test rows without holes: as matrices, and the test rows as codes."""

    x: Array
    x_test: Array
    codes_test: Array


OfCodes = Callable[[Array, Array, Encoder, int], tuple[Array, Array]]
OfMatrix = Callable[[Array, int], Any]
Imputer = Callable[[pd.DataFrame, pd.DataFrame, Encoder, int], Filled]


def on_codes(fill: OfCodes) -> Imputer:
    """The imputer that a function of codes is."""

    def impute(x: pd.DataFrame, x_test: pd.DataFrame, encoder: Encoder, seed: int) -> Filled:
        codes, codes_test = fill(encoder.codes(x), encoder.codes(x_test), encoder, seed)
        return Filled(encoder.matrix(codes), encoder.matrix(codes_test), codes_test)

    return impute


def on_matrix(make: OfMatrix, *, independent: bool = False) -> Imputer:
    """The imputer that scikit-learn's imputer of one-hot, standardised columns is.

    `independent`: without the last column of each category.
    """

    def impute(x: pd.DataFrame, x_test: pd.DataFrame, encoder: Encoder, seed: int) -> Filled:
        matrix, matrix_test = (encoder.matrix(encoder.codes(rows)) for rows in (x, x_test))
        if np.isnan(matrix).any() or np.isnan(matrix_test).any():
            columns = encoder.independent if independent else slice(None)
            imputer = make(matrix[:, columns], seed).fit(matrix[:, columns])
            matrix, matrix_test = (imputer.transform(rows[:, columns]) for rows in (matrix, matrix_test))
            if independent:
                matrix, matrix_test = encoder.completed(matrix), encoder.completed(matrix_test)
        return Filled(matrix, matrix_test, encoder.most_likely(matrix_test))

    return impute


def typical(codes: Array, numeric: NDArray[np.bool_]) -> Array:
    """The mean of each column of numbers, the mode of each column of categories."""
    means: Array = np.nanmean(codes, axis=0)
    modes = [np.bincount(column[~np.isnan(column)].astype(int)).argmax() for column in codes[:, ~numeric].T]
    means[~numeric] = modes
    return means


def mean(codes: Array, codes_test: Array, encoder: Encoder, _: int) -> tuple[Array, Array]:
    """Column means and modes."""
    fill = typical(codes, encoder.numeric)
    return np.where(np.isnan(codes), fill, codes), np.where(np.isnan(codes_test), fill, codes_test)


def forests(codes: Array, codes_test: Array, encoder: Encoder, seed: int) -> tuple[Array, Array]:
    """Fill column by column with extremely randomised trees on the other columns, as missForest does.

    The first fills are means and modes. The trees learn from training rows whose cell is observed. A round goes
    from the column with the fewest missing training cells to the one with the most.
    """
    missing, missing_test = np.isnan(codes), np.isnan(codes_test)
    filled, filled_test = mean(codes, codes_test, encoder, seed)
    for turn in range(ROUNDS):
        for j in np.argsort(missing.sum(axis=0), kind="stable"):
            gaps, gaps_test = missing[:, j], missing_test[:, j]
            if not (gaps.any() or gaps_test.any()) or codes.shape[1] == 1:
                continue
            others, others_test = np.delete(filled, j, axis=1), np.delete(filled_test, j, axis=1)
            trees = trees_for(numeric=bool(encoder.numeric[j]), seed=ROUNDS * seed + turn)
            trees.fit(others[~gaps], codes[~gaps, j])
            if gaps.any():
                filled[gaps, j] = trees.predict(others[gaps])
            if gaps_test.any():
                filled_test[gaps_test, j] = trees.predict(others_test[gaps_test])
    return filled, filled_test


def trees_for(*, numeric: bool, seed: int) -> Any:
    """Trees that predict a number or a category."""
    if numeric:
        return ExtraTreesRegressor(TREES, min_samples_leaf=2, random_state=seed)
    return ExtraTreesClassifier(TREES, random_state=seed)


def knn(_: Array, seed: int) -> Any:
    """Mean of ten neighbours, weighted by distance."""
    return KNNImputer(n_neighbors=10, weights="distance")


def iterative(matrix: Array, seed: int) -> Any:
    """Rounds of Bayesian ridge regression, one column at a time, within the range of the training values."""
    # without the range, predictions for nearly constant columns run away
    low, high = np.nanmin(matrix, axis=0), np.nanmax(matrix, axis=0)
    constant = low == high
    low, high = np.where(constant, -np.inf, low), np.where(constant, np.inf, high)
    nearest = NEAREST if matrix.shape[1] > WIDE else None
    return IterativeImputer(min_value=low, max_value=high, n_nearest_features=nearest, random_state=seed)


IMPUTERS: dict[str, Imputer] = {
    "mean": on_codes(mean),
    "KNN": on_matrix(knn),
    # with all columns, a category's columns predict each other exactly and stay at their first fill
    "iterative": on_matrix(iterative, independent=True),
    "forest": on_codes(forests),
}
