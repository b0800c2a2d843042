"""Tables: encode columns of numbers, of two values or of categories for networks, and decode them.

A column of numbers is centred and divided by its standard deviation. Beyond 3 standard deviations it grows as a
logarithm, so that single large values do not dominate. Columns that hold one quantity, such as pixels, share one
standard deviation, so that a pixel that is almost always dark gets little weight. A column of two values becomes
0 or 1. A column of categories becomes one 0/1 column per category. Missing values are NaN on both sides.

Decoded numbers have the decimals of the observed ones, and lie between the lowest and the highest of them.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mmdgm.errors import InputError

Kind = Literal["number", "binary", "category"]
BULK = 3.0
MOST_DECIMALS = 6  # of rounded numbers


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table: its kind, and the parameters of its encoding."""

    name: str
    kind: Kind
    centre: float = 0.0
    scale: float = 1.0
    low: float = 0.0  # range of the observed values, encoded
    high: float = 0.0
    deviation: float = 1.0  # standard deviation of a column of numbers, encoded
    values: tuple[Any, ...] = ()  # values of a binary column, or categories
    ends: tuple[float, float] | None = None  # lowest and highest observed number
    decimals: int | None = None  # that all observed numbers are rounded to; None: they are not rounded

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return len(self.values) if self.kind == "category" else 1

    @property
    def holds_numbers(self) -> bool:
        """Whether the user's values are numbers."""
        return self.kind == "number" or (self.kind == "binary" and not isinstance(self.values[0], bool))

    def encode(self, column: NDArray[Any]) -> NDArray[np.float32]:
        """Encode `(rows,)` to `(rows, width)`. An unknown category becomes a missing value."""
        if self.kind == "category":
            codes = np.stack([column == value for value in self.values], axis=1).astype(np.float32)
            return np.asarray(np.where(codes.any(axis=1, keepdims=True), codes, np.nan), np.float32)
        if self.kind == "binary":
            low, high = self.values
            return np.asarray((column.astype(np.float64) - low) / (high - low), np.float32)[:, None]
        return squash((column.astype(np.float64) - self.centre) / self.scale).astype(np.float32)[:, None]

    def decode(self, seen: NDArray[np.float32], *, exact: bool = False) -> NDArray[Any]:
        """Decode `(rows, width)` to `(rows,)`. Binary columns and categories take the nearest value.

        Numbers are rounded as the observed ones are, and keep to their range; not if `exact`.
        """
        if self.kind == "category":
            return np.asarray(np.array(self.values, dtype=object)[seen.argmax(axis=1)])
        if self.kind == "binary":
            return np.asarray(np.where(seen[:, 0] >= 0.5, self.values[1], self.values[0]))
        numbers = unsquash(seen[:, 0].astype(np.float64)) * self.scale + self.centre
        if not exact and self.decimals is not None:
            numbers = np.round(numbers, self.decimals) + 0.0  # no -0
        return numbers if exact or self.ends is None else numbers.clip(*self.ends)


def squash(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Identity up to ±BULK, logarithmic beyond. The first derivative is continuous."""
    beyond = np.maximum(np.abs(x) - BULK, 0)
    return np.where(beyond > 0, np.sign(x) * (BULK + np.log1p(beyond)), x)


def unsquash(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of `squash`."""
    beyond = np.maximum(np.abs(x) - BULK, 0)
    return np.where(beyond > 0, np.sign(x) * (BULK + np.expm1(np.minimum(beyond, 700))), x)


def learn_column(name: str, column: NDArray[Any], *, category: bool = False) -> Column:
    """The Column that describes these observed values. With `category`, objects and text are always categories."""
    observed = column[~is_missing(column)]
    if not len(observed):
        raise InputError(f"column {name} has no observed value; leave it out")
    if observed.dtype.kind in "OUS":
        values = _values(name, observed)
        if category or any(isinstance(value, str | bytes) for value in values):
            return Column(name=name, kind="category", values=values, high=1.0)
        if all(isinstance(value, bool) for value in values):
            return Column(name=name, kind="binary", values=(False, True), high=1.0)
    observed = as_numbers(name, observed)
    distinct = np.unique(observed[:10_000])
    if len(distinct) == 2 and len(np.unique(observed)) == 2:
        return Column(name=name, kind="binary", values=tuple(distinct.tolist()), high=1.0)
    size = np.abs(observed).max() or 1.0  # squares of huge values overflow
    centre, scale = float((observed / size).mean() * size), float((observed / size).std() * size)
    scale = scale if scale > 1e-12 * size else 1.0
    ends = float(observed.min()), float(observed.max())
    low, high = (float(end) for end in squash((np.array(ends) - centre) / scale))
    decimals = count_decimals(observed)
    return Column(
        name=name, kind="number", centre=centre, scale=scale, low=low, high=high, ends=ends, decimals=decimals
    )


def count_decimals(x: NDArray[np.float64]) -> int | None:
    """The number of decimals that all values `(rows,)` are rounded to; None if there are more than MOST_DECIMALS."""
    with np.errstate(over="ignore"):
        short = x.astype(np.float32)
        kind = np.float32 if (short == x).all() else np.float64  # 0.1 in single precision is not the 0.1 of double
        fit = (k for k in range(MOST_DECIMALS + 1) if (np.round(x, k).astype(kind) == x.astype(kind)).all())
        return next(fit, None)


def share_scale(columns: list[Column]) -> list[Column]:
    """Columns with one common scale, the root of their mean variance, if columns of numbers hold one quantity.

    They are taken to hold one quantity if at least 8 of them vary, their lowest values are close together, and most
    of them span half of the common range or more.
    """
    ranges = {
        i: unsquash(np.array([column.low, column.high])) * column.scale + column.centre
        for i, column in enumerate(columns)
        if column.kind == "number" and column.high > column.low
    }
    if len(ranges) < 8:
        return columns
    lowest, highest = np.array(list(ranges.values())).T
    whole = highest.max() - lowest.min()
    if (lowest - lowest.min()).max() > 0.1 * whole or np.median(highest - lowest) < 0.5 * whole:
        return columns
    scales = np.array([columns[i].scale for i in ranges])
    scale = float(np.sqrt(np.mean((scales / scales.max()) ** 2)) * scales.max())  # squares may overflow
    shared = list(columns)
    for i, ends in ranges.items():
        low, high = squash((ends - columns[i].centre) / scale)
        deviation = columns[i].scale / scale
        shared[i] = replace(columns[i], scale=scale, deviation=deviation, low=float(low), high=float(high))
    return shared


def is_empty(cell: str) -> bool:
    """Whether a text cell holds no value."""
    return not cell.strip()


def number(cell: str) -> float | None:
    """The number in a cell: NaN if the cell is empty, None if it is not a number."""
    try:
        return None if "_" in cell else float(cell)  # Python would accept 1_000
    except ValueError:
        return math.nan if is_empty(cell) else None


def holds_numbers(cells: Iterable[str]) -> bool:
    """Whether all non-empty cells are numbers."""
    return all(number(cell) is not None for cell in cells)


def is_missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Boolean mask of NaN or None in a column."""
    if column.dtype.kind == "O":
        return np.array([value is None or value != value for value in column], bool)
    return np.isnan(column) if column.dtype.kind == "f" else np.zeros(len(column), bool)


def as_numbers(name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    """A column as finite numbers, with NaN for missing values. Raises InputError for other values."""
    try:
        numbers = np.where(is_missing(column), np.nan, column).astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"column {name} is one of numbers, but holds something else ({error})") from None
    if np.isinf(numbers).any():
        raise InputError(f"column {name} holds an infinite value; NaN marks what is missing")
    return numbers


def _values(name: str, observed: NDArray[Any]) -> tuple[Any, ...]:
    """Distinct values of a column of objects or text, sorted by type and value.

    Raises InputError for values that are neither text nor numbers.
    """
    values = {value.item() if isinstance(value, np.generic) else value for value in observed.tolist()}
    for value in values:
        if not isinstance(value, str | bytes) and not hasattr(value, "__float__"):
            raise InputError(f"column {name} holds {type(value).__name__} values; give numbers, text or booleans")
    return tuple(sorted(values, key=lambda value: (str(type(value)), value)))


@dataclass(frozen=True, kw_only=True)
class Table:
    """All columns of a table."""

    columns: tuple[Column, ...]

    @classmethod
    def learn(cls, columns: list[NDArray[Any]], names: list[str], categories: Collection[int] = ()) -> "Table":
        """The table of these columns. `categories`: positions of categorical columns, which may hold numbers."""
        learned = [
            learn_column(name, column, category=i in categories)
            for i, (name, column) in enumerate(zip(names, columns, strict=True))
        ]
        return cls(columns=tuple(share_scale(learned)))

    @property
    def width(self) -> int:
        return sum(column.width for column in self.columns)

    def encode(self, columns: list[NDArray[Any]]) -> NDArray[np.float32]:
        """Encode columns `(rows,)` to rows `(rows, width)`, with NaN for missing values."""
        parts = []
        for known, column in zip(self.columns, columns, strict=True):
            missing = is_missing(column)
            if known.kind != "category":
                column = as_numbers(known.name, column)
            parts.append(np.where(missing[:, None], np.float32(np.nan), known.encode(column)))
        return np.concatenate(parts, axis=1)

    def decode(self, seen: NDArray[np.float32], *, exact: bool = False) -> list[NDArray[Any]]:
        """Decode rows `(rows, width)` to columns; if `exact`, numbers are not rounded."""
        ends = np.cumsum([column.width for column in self.columns])[:-1]
        parts = np.split(seen, ends, axis=1)
        return [column.decode(part, exact=exact) for column, part in zip(self.columns, parts, strict=True)]

    def each(self, attribute: str) -> list[Any]:
        """An attribute of the source column of each encoded column."""
        return [getattr(column, attribute) for column in self.columns for _ in range(column.width)]

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_json(cls, values: list[dict[str, Any]]) -> "Table":
        columns = []
        for of_column in values:
            plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in of_column.items()}
            columns.append(Column(**plain))
        return cls(columns=tuple(columns))
