"""What the page Play asks a model of a table.

A row is a JSON list. A cell is a number, or the position of a value among the column's values; null: missing.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.app.answers import Asked
from mmdgm.data.arrays import missing_entries
from mmdgm.data.codecs import TableCodec
from mmdgm.data.tables import Column
from mmdgm.errors import InputError
from mmdgm.estimators import MMCVAClassifier, MMVAClassifier

Estimator = MMCVAClassifier | MMVAClassifier
DRAWS, LARGEST = 40, 1e300
LIKELY = 3  # categories that are named with their shares of the draws


class TablePlay:
    """A fitted estimator of a table, and rows to show as examples (None: only the typical row)."""

    def __init__(self, estimator: Estimator, rows: NDArray[Any] | None = None):
        assert isinstance(estimator.codec_, TableCodec)
        self.estimator, self.columns, self.rows = estimator, estimator.codec_.table.columns, rows
        self.typical = self._cells(estimator.codec_.decode(estimator.fill_[None])[0])
        self._random = np.random.default_rng(0)

    def about(self) -> Asked:
        """What the page needs to know of the model."""
        return {
            "kind": "table",
            "classes": [str(name) for name in self.estimator.classes_.tolist()],
            "columns": [_about_column(column) for column in self.columns],
            "typical": self.typical,
            "examples": self.rows is not None,
        }

    def look(self, asked: Asked) -> Asked:
        """Classify a row and fill its empty cells: their means, and what draws of them look like."""
        x = self._row(asked.get("row"))
        missing = missing_entries(x)[0]
        if not missing.any():
            return {**self._scores(x), "filled": [None] * len(missing)}
        filled = self.estimator.impute(x)
        draws = self.estimator.impute(x, n_draws=DRAWS)[:, 0]
        about: list[Asked | None] = [None] * len(missing)
        cells, of_draws = self._cells(filled[0]), list(zip(*map(self._cells, draws), strict=True))
        for i in np.flatnonzero(missing):
            about[i] = {"cell": cells[i], **_spread(self.columns[i], of_draws[i])}
        return {**self._scores(np.concatenate([filled, draws])), "filled": about}

    def example(self) -> Asked:
        """A row of the data at hand."""
        if self.rows is None:
            return {"row": self.typical}
        return {"row": self._cells(self.rows[self._random.integers(len(self.rows))])}

    def _scores(self, X: NDArray[Any]) -> dict[str, Any]:
        scores = self.estimator.class_scores(X)
        return {
            "prediction": int(scores[0].argmax()),
            "scores": scores[0].tolist(),
            "low": np.quantile(scores, 0.05, axis=0).tolist(),
            "high": np.quantile(scores, 0.95, axis=0).tolist(),
        }

    def _row(self, cells: Any) -> NDArray[Any]:
        """A row of JSON values as an array `(1, columns)` like those that the estimator was trained on."""
        if not isinstance(cells, list) or len(cells) != len(self.columns):
            raise InputError(f"a row has {len(self.columns)} cells")
        values = [_value(column, cell) for column, cell in zip(self.columns, cells, strict=True)]
        if all(column.holds_numbers for column in self.columns):
            return np.array([values], np.float64)
        row = np.empty((1, len(values)), object)
        row[0] = values
        return row

    def _cells(self, row: NDArray[Any]) -> list[Any]:
        """A row of the estimator as JSON values."""
        return [_cell(column, value) for column, value in zip(self.columns, row, strict=True)]


def table_questions(play: TablePlay) -> dict[str, Callable[[Asked], Asked]]:
    """The questions with a JSON object as content, by the last part of their path."""
    return {"look": play.look, "example": lambda _: play.example()}


def _about_column(column: Column) -> Asked:
    names = [str(value) for value in column.values]
    return {"name": column.name, "kind": column.kind, "values": names, "ends": column.ends}


def _cell(column: Column, value: Any) -> Any:
    if value is None or value != value:
        return None
    if column.kind == "number":
        return float(value)
    return column.values.index(value) if value in column.values else None


def _value(column: Column, cell: Any) -> Any:
    """A cell as the estimator takes it: a number, a known value, or a missing value."""
    if cell is None:
        return np.nan if column.holds_numbers else None
    if isinstance(cell, bool) or not isinstance(cell, int | float) or not abs(cell) < LARGEST:
        raise InputError(f"column {column.name}: {cell!r} is no number")
    if column.kind == "number":
        return float(cell)
    if cell not in range(len(column.values)):
        raise InputError(f"column {column.name}: there is no value {cell}")
    return column.values[int(cell)]


def _spread(column: Column, draws: Sequence[Any]) -> dict[str, Any]:
    """The range of nine tenths of the draws of a number, or the most frequent values with their shares."""
    if column.kind == "number":
        low, high = np.quantile(np.array(draws, np.float64), [0.05, 0.95])
        return {"low": float(low), "high": float(high)}
    counts = sorted(Counter(draws).items(), key=lambda pair: -pair[1])[:LIKELY]
    return {"likely": [[cell, count / len(draws)] for cell, count in counts]}
