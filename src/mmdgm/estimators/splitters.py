"""Cross-validation with unlabeled rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import BaseCrossValidator, check_cv
from sklearn.utils.validation import column_or_1d

from mmdgm.data.labels import is_unlabeled
from mmdgm.errors import InputError


class KeepUnlabeled(BaseCrossValidator):  # type: ignore[misc]
    """A splitter that splits the labeled rows like `cv`, and puts the unlabeled rows into every training fold.

    `cv`: a number of folds, stratified by class, or any splitter. It works wherever scikit-learn takes a `cv`.
    """

    def __init__(self, cv: Any = 5, *, unlabeled: Any = -1):
        self.cv, self.unlabeled = cv, unlabeled

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        return int(check_cv(self.cv, classifier=True).get_n_splits(X, y, groups))

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield pairs of row numbers: training rows with all unlabeled rows, and test rows, all labeled."""
        if y is None:
            raise InputError("KeepUnlabeled needs y to see which rows are labeled")
        y = column_or_1d(y)
        unlabeled = is_unlabeled(y, self.unlabeled)
        labeled = np.flatnonzero(~unlabeled)
        if not len(labeled):
            raise InputError("KeepUnlabeled: no row is labeled")
        cv = check_cv(self.cv, y[labeled], classifier=True)
        groups = None if groups is None else np.asarray(groups)[labeled]
        for train, test in cv.split(np.zeros((len(labeled), 1)), y[labeled], groups):
            yield np.sort(np.concatenate([labeled[train], np.flatnonzero(unlabeled)])), labeled[test]
