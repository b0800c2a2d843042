"""Data frames as arrays for scikit-learn, and back."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype
from sklearn.preprocessing import StandardScaler

Array = NDArray[np.float64]


class Encoder:
    """Two encodings of a data frame, learned from training rows. NaN: missing, or a category not seen in training.

    *Codes* `(rows, columns)`: numbers as they are, categories as their number.
    The *matrix* `(rows, width)`: numbers and one-hot categories, standardised.
    """

    def __init__(self, x: pd.DataFrame) -> None:
        self.columns = x.columns
        self.categories = [None if is_numeric_dtype(x[c]) else sorted(x[c].dropna().unique()) for c in x]
        self.numeric = np.array([known is None for known in self.categories])
        widths = [1 if known is None else len(known) for known in self.categories]
        self.ends = np.cumsum(widths)
        self.scaler = StandardScaler().fit(self._one_hot(self.codes(x)))

    def codes(self, x: pd.DataFrame) -> Array:
        """Encode a data frame as codes."""
        columns = []
        for name, known in zip(self.columns, self.categories, strict=True):
            column = x[name] if known is None else x[name].map({value: i for i, value in enumerate(known)})
            columns.append(column.to_numpy(float, na_value=np.nan))
        return np.stack(columns, axis=1)

    def matrix(self, codes: Array) -> Array:
        """Encode codes as a matrix."""
        return np.asarray(self.scaler.transform(self._one_hot(codes)))

    def most_likely(self, matrix: Array) -> Array:
        """The codes of a matrix without holes. Of a category's columns, the largest (0 to 1) counts."""
        blocks = np.split(self.scaler.inverse_transform(matrix), self.ends[:-1], axis=1)
        columns = [b[:, 0] if numeric else b.argmax(axis=1) for numeric, b in zip(self.numeric, blocks, strict=True)]
        return np.stack(columns, axis=1)

    @property
    def independent(self) -> NDArray[np.intp]:
        """Columns of a matrix without the last one of each category, which the others determine."""
        return np.setdiff1d(np.arange(self.ends[-1]), self.ends[~self.numeric] - 1)

    def completed(self, independent: Array) -> Array:
        """The matrix with these independent columns: each category's last one is 1 − the sum of the others."""
        matrix = np.zeros((len(independent), self.ends[-1]))
        matrix[:, self.independent] = independent
        raw = self.scaler.inverse_transform(matrix)
        for numeric, block in zip(self.numeric, np.split(raw, self.ends[:-1], axis=1), strict=True):
            if not numeric:
                block[:, -1] = 1 - block[:, :-1].sum(axis=1)
        return np.asarray(self.scaler.transform(raw))

    def _one_hot(self, codes: Array) -> Array:
        parts = []
        for column, known in zip(codes.T, self.categories, strict=True):
            part = column[:, None]
            if known is not None:
                part = np.where(np.isnan(part), np.nan, part == np.arange(len(known)))
            parts.append(part)
        return np.concatenate(parts, axis=1)
