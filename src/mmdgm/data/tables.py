"""Tables: columns of numbers on any scale, of two values, or of categories, as networks see them, and back.

A column of numbers is centred and divided by its standard deviation; beyond 3 of these it grows as a logarithm, so
that single large values do not rule. Columns that hold one quantity, such as pixels, are divided by one standard
deviation: a pixel that is almost always dark shall not weigh as much as the others. A column of two values becomes
0 or 1, one of categories one such column for each of them. Missing values are NaN on both sides.
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


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a table: its kind, and what takes it to networks' numbers and back."""

    name: str
    kind: Kind
    centre: float = 0.0
    scale: float = 1.0
    low: float = 0.0  # range of the observed values, as networks see them
    high: float = 0.0
    deviation: float = 1.0  # standard deviation of a column of numbers, as networks see it
    values: tuple[Any, ...] = ()  # of a binary column or one of categories

    @property
    def width(self) -> int:
        """Columns that networks see."""
        return len(self.values) if self.kind == "category" else 1

    @property
    def holds_numbers(self) -> bool:
        """Whether its values are numbers on the user's side."""
        return self.kind == "number" or (self.kind == "binary" and not isinstance(self.values[0], bool))

    def encode(self, column: NDArray[Any]) -> NDArray[np.float32]:
        """`(rows,)` to `(rows, width)`; a category that was not there before is missing."""
        if self.kind == "category":
            codes = np.stack([column == value for value in self.values], axis=1).astype(np.float32)
            return np.asarray(np.where(codes.any(axis=1, keepdims=True), codes, np.nan), np.float32)
        if self.kind == "binary":
            low, high = self.values
            return np.asarray((column.astype(np.float64) - low) / (high - low), np.float32)[:, None]
        return squash((column.astype(np.float64) - self.centre) / self.scale).astype(np.float32)[:, None]

    def decode(self, seen: NDArray[np.float32]) -> NDArray[Any]:
        """`(rows, width)` to `(rows,)`: binary columns and categories to the nearest value."""
        if self.kind == "category":
            return np.asarray(np.array(self.values, dtype=object)[seen.argmax(axis=1)])
        if self.kind == "binary":
            return np.asarray(np.where(seen[:, 0] >= 0.5, self.values[1], self.values[0]))
        return unsquash(seen[:, 0].astype(np.float64)) * self.scale + self.centre


def squash(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Identity up to ±BULK, logarithmic beyond; smooth to the first derivative."""
    beyond = np.maximum(np.abs(x) - BULK, 0)
    return np.where(beyond > 0, np.sign(x) * (BULK + np.log1p(beyond)), x)


def unsquash(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of `squash`."""
    beyond = np.maximum(np.abs(x) - BULK, 0)
    return np.where(beyond > 0, np.sign(x) * (BULK + np.expm1(np.minimum(beyond, 700))), x)


def learn_column(name: str, column: NDArray[Any], *, category: bool = False) -> Column:
    """What there is to know of a column, from its observed values; numbers may be meant as categories."""
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
    low, high = squash((np.array([observed.min(), observed.max()]) - centre) / scale)
    return Column(name=name, kind="number", centre=centre, scale=scale, low=float(low), high=float(high))


def share_scale(columns: list[Column]) -> list[Column]:
    """One scale for all columns of numbers, the root of their mean variance, where they hold one quantity.

    That is taken to be so where there are at least 8 that vary, all begin near one lowest value, and most of them
    span half of the common range or more.
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
    """Whether a cell of text holds no value."""
    return not cell.strip()


def number(cell: str) -> float | None:
    """A cell's number, NaN where it is empty; None where it holds something else."""
    if is_empty(cell):
        return math.nan
    try:
        return None if "_" in cell else float(cell)  # Python would take 1_000
    except ValueError:
        return None


def holds_numbers(cells: Iterable[str]) -> bool:
    """Whether all cells that are not empty are numbers."""
    return all(number(cell) is not None for cell in cells)


def is_missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a column has NaN or None."""
    if column.dtype.kind == "O":
        return np.array([value is None or value != value for value in column], bool)
    return np.isnan(column) if column.dtype.kind == "f" else np.zeros(len(column), bool)


def as_numbers(name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    """A column of finite numbers, NaN where missing; anything else is refused."""
    try:
        numbers = np.where(is_missing(column), np.nan, column).astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"column {name} is one of numbers, but holds something else ({error})") from None
    if np.isinf(numbers).any():
        raise InputError(f"column {name} holds an infinite value; NaN marks what is missing")
    return numbers


def _values(name: str, observed: NDArray[Any]) -> tuple[Any, ...]:
    """The values that a column of objects or text takes, sorted by type and value; plain ones alone are taken."""
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
        """`categories`: positions of columns that hold categories, whatever their values look like."""
        learned = [
            learn_column(name, column, category=i in categories)
            for i, (name, column) in enumerate(zip(names, columns, strict=True))
        ]
        return cls(columns=tuple(share_scale(learned)))

    @property
    def width(self) -> int:
        return sum(column.width for column in self.columns)

    def encode(self, columns: list[NDArray[Any]]) -> NDArray[np.float32]:
        """Columns `(rows,)` to rows `(rows, width)`, NaN where missing."""
        parts = []
        for known, column in zip(self.columns, columns, strict=True):
            missing = is_missing(column)
            if known.kind != "category":
                column = as_numbers(known.name, column)
            parts.append(np.where(missing[:, None], np.float32(np.nan), known.encode(column)))
        return np.concatenate(parts, axis=1)

    def decode(self, seen: NDArray[np.float32]) -> list[NDArray[Any]]:
        """Rows `(rows, width)` to columns."""
        ends = np.cumsum([column.width for column in self.columns])[:-1]
        return [c.decode(part) for c, part in zip(self.columns, np.split(seen, ends, axis=1), strict=True)]

    def each(self, attribute: str) -> list[Any]:
        """An attribute of the column that each of the networks' columns belongs to."""
        return [getattr(column, attribute) for column in self.columns for _ in range(column.width)]

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(column) for column in self.columns]

    @classmethod
    def from_json(cls, values: list[dict[str, Any]]) -> "Table":
        return cls(columns=tuple(Column(**{**v, "values": tuple(v["values"])}) for v in values))
