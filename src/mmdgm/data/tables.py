"""Tables: encode columns of numbers, of two values or of categories for networks, and decode them.

A column of numbers is centred and divided by its standard deviation. Beyond 3 standard deviations it grows as a
logarithm, so that single large values do not dominate. Columns that hold one quantity, such as pixels, share one
standard deviation, so that a pixel that is almost always dark gets little weight. A column of two values becomes
0 or 1. A column of categories becomes one 0/1 column per category. Missing values are NaN on both sides.

Decoded numbers have the decimals of the observed ones, and lie between the lowest and the highest of them.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.cells import check_kinds, is_missing
from mmdgm.errors import InputError
from mmdgm.settings import from_json

Kind = Literal["number", "binary", "category"]
BULK = 3.0
MOST_CATEGORIES = 1000  # a column with more of them must repeat each, on average, or it is one of identifiers
MOST_VALUES = 2**28  # of the encoded rows: 1 GB
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
            numbers = {value: number for number, value in enumerate(self.values)}
            found = np.array([numbers.get(value, -1) for value in column.tolist()], np.int64)
            codes: NDArray[np.float32] = (found[:, None] == np.arange(len(self.values))).astype(np.float32)
            codes[found < 0] = np.nan
            return codes
        if self.kind == "binary":
            low, high = self.values
            return _in_units(column, low, high - low)
        return _in_units(column, self.centre, self.scale)

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


def _in_units(column: NDArray[Any], centre: float, unit: float) -> NDArray[np.float32]:
    """Numbers `(rows,)` as squashed distances from a centre, `(rows, 1)`; they are finite where the numbers are."""
    largest = np.finfo(np.float64).max
    with np.errstate(over="ignore"):
        distance = (column.astype(np.float64) - centre) / unit
    return squash(distance.clip(-largest, largest)).astype(np.float32)[:, None]


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
    check_kinds(f"column {name}", column)
    observed = column[~is_missing(column)]
    if not len(observed):
        raise InputError(f"column {name} has no observed value; leave it out")
    if observed.dtype.kind in "OUS":
        values = _values(observed)
        if category or any(isinstance(value, str | bytes) for value in values):
            if len(values) > max(MOST_CATEGORIES, len(observed) // 2):
                raise InputError(
                    f"column {name} has {len(values):,} categories in {len(observed):,} values; leave it out"
                )
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


def as_numbers(name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    """A column as finite numbers, with NaN for missing values. Raises InputError for other values."""
    try:
        numbers = np.where(is_missing(column), np.nan, column).astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"column {name} is one of numbers, but holds something else ({error})") from None
    if np.isinf(numbers).any():
        raise InputError(f"column {name} holds an infinite value; NaN marks what is missing")
    return numbers


def _values(observed: NDArray[Any]) -> tuple[Any, ...]:
    """Distinct values of a column of objects or text, sorted by type and value."""
    values = {value.item() if isinstance(value, np.generic) else value for value in observed.tolist()}
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
        widest = max(learned, key=lambda column: column.width)
        if len(columns[0]) * sum(column.width for column in learned) > MOST_VALUES and widest.width > 1:
            raise InputError(
                f"the columns make more than {MOST_VALUES:,} values; leave out those of most categories, such as "
                f"column {widest.name} with {widest.width:,}"
            )
        return cls(columns=tuple(share_scale(learned)))

    @property
    def width(self) -> int:
        return sum(column.width for column in self.columns)

    def encode(self, columns: list[NDArray[Any]]) -> NDArray[np.float32]:
        """Encode columns `(rows,)` to rows `(rows, width)`, with NaN for missing values."""
        parts = []
        for known, column in zip(self.columns, columns, strict=True):
            check_kinds(f"column {known.name}", column)
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
    def from_json(cls, values: Any) -> "Table":
        """The table that `to_json` wrote. Raises InputError for anything else."""
        columns = [from_json(Column, column) for column in values] if isinstance(values, list) else []
        few = {"number": 0, "binary": 2, "category": 1}  # least numbers of values
        if not columns or any(len(column.values) < few[column.kind] or not column.scale for column in columns):
            raise InputError("config.json: the codec's columns are not those of a table")
        return cls(columns=tuple(columns))
