"""Users' arrays as images `(rows, channels, height, width)` that networks see, and back on the users' scale.

A table's row is an image of 1×1 with a channel per column. NaN is missing on both sides.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.tables import Table, holds_numbers, is_empty, is_missing, number
from mmdgm.errors import InputError
from mmdgm.networks.likelihoods import BernoulliPixels, GaussianPixels, Likelihood, MixedColumns
from mmdgm.networks.stacks import Shape

Values = NDArray[np.float32]
SEVERAL = 5  # images from which on dark ones are no chance


@dataclass(frozen=True, kw_only=True)
class TableCodec:
    """A table: an array `(rows, columns)`, or columns of several kinds."""

    table: Table
    is_image = False

    @classmethod
    def learn(cls, X: Any, names: list[str]) -> "TableCodec":
        return cls(table=Table.learn(columns_of(X), names, categorical_columns(X)))

    def named(self, names: list[str]) -> "TableCodec":
        """The same with other names of its columns."""
        columns = (replace(column, name=name) for column, name in zip(self.table.columns, names, strict=True))
        return TableCodec(table=Table(columns=tuple(columns)))

    @property
    def shape(self) -> Shape:
        return (self.table.width, 1, 1)

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers."""
        return [column.kind != "category" for column in self.table.columns]

    @property
    def fitted_on(self) -> str:
        return f"a table (rows, {len(self.table.columns)})"

    def likelihood(self) -> Likelihood:
        binary = [kind != "number" for kind in self.table.each("kind")]
        low, high, spread = (self.table.each(name) for name in ("low", "high", "spread"))
        return MixedColumns(binary, low, high, spread)

    def encode(self, X: Any) -> Values:
        return self.table.encode(columns_of(X))[:, :, None, None]

    def decode(self, seen: Values) -> NDArray[Any]:
        columns = self.table.decode(seen.reshape(len(seen), -1))
        kind = np.float64 if all(column.holds_numbers for column in self.table.columns) else object
        return np.stack([column.astype(kind) for column in columns], axis=1)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "table", "columns": self.table.to_json()}


@dataclass(frozen=True, kw_only=True)
class ImageCodec:
    """Images `(rows, height, width)` or `(rows, height, width, channels)`.

    (x − low) / (high − low) lies in [0, 1]. Sides are padded to multiples of 4, and to 8 at least, by pixels that
    count as missing.
    """

    size: tuple[int, ...]  # of a row of the user's array
    low: float
    high: float
    gaussian: bool = False
    darkest: float | None = None  # of the training images' values; None in files from before these were kept
    brightest: float | None = None
    contrast: float = 0.0  # all but a twentieth of the training images span at least so much
    is_image = True

    @classmethod
    def learn(cls, X: NDArray[Any], *, gaussian: bool) -> "ImageCodec":
        if X.dtype == np.uint8:
            low, high = 0.0, 255.0
        else:
            low, high = float(np.nanmin(X)), float(np.nanmax(X))
            low, high = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
        lows, highs = _extremes(X)
        return cls(
            size=X.shape[1:],
            low=low,
            high=high if high > low else low + 1,
            gaussian=gaussian,
            darkest=float(lows.min()),
            brightest=float(highs.max()),
            contrast=float(np.quantile(highs - lows, 0.05)),
        )

    @property
    def channels(self) -> int:
        return self.size[2] if len(self.size) == 3 else 1

    @property
    def shape(self) -> Shape:
        height, width = (-(-side // 4) * 4 for side in self.size[:2])
        return (self.channels, max(height, 8), max(width, 8))

    @property
    def fitted_on(self) -> str:
        return f"images (rows, {', '.join(map(str, self.size))})"

    def likelihood(self) -> Likelihood:
        return GaussianPixels() if self.gaussian else BernoulliPixels()

    def encode(self, X: NDArray[Any]) -> Values:
        if X.shape[1:] != self.size:
            raise InputError(f"X has the shape {X.shape}, but the model was fitted on {self.fitted_on}")
        unit = (X.astype(np.float32) - self.low) / (self.high - self.low)
        rows = unit.reshape(len(X), *self.size[:2], self.channels).transpose(0, 3, 1, 2)
        if not self.gaussian:
            rows = rows.clip(0, 1)  # NaN stays
        _, height, width = self.shape
        down, right = height - self.size[0], width - self.size[1]
        if not (down or right):
            return np.ascontiguousarray(rows)
        return np.pad(rows, ((0, 0), (0, 0), (0, down), (0, right)), constant_values=np.nan)

    def decode(self, seen: Values) -> NDArray[Any]:
        rows = seen[:, :, : self.size[0], : self.size[1]].transpose(0, 2, 3, 1).reshape(len(seen), *self.size)
        return rows.astype(np.float64) * (self.high - self.low) + self.low

    def other_scale(self, X: NDArray[Any]) -> str | None:
        """A line on images whose values cannot be on the scale of the training images; None: they may be.

        They cannot where half of them reach far beyond all that was there in training, nor where several of them
        together span a tenth of what almost every single image did.
        """
        lows, highs = _extremes(X)
        if self.darkest is None or self.brightest is None or not len(lows):
            return None
        low, high, span = lows.min(), highs.max(), self.brightest - self.darkest
        beyond = np.median(highs) > self.brightest + span or np.median(lows) < self.darkest - span / 2
        sliver = len(lows) >= SEVERAL and 0 < high - low < self.contrast / 10
        if not (beyond or sliver) or not span:
            return None
        return (
            f"X lies between {low:.3g} and {high:.3g}, but the images that the model was fitted on between "
            f"{self.darkest:.3g} and {self.brightest:.3g}; if X is on another scale, bring it to theirs"
        )

    def to_json(self) -> dict[str, Any]:
        return {"kind": "images", **asdict(self)}


def _extremes(X: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The lowest and the highest value of each image that has any."""
    flat = X.reshape(len(X), -1)
    ends = np.stack([np.fmin.reduce(flat, axis=1), np.fmax.reduce(flat, axis=1)]).astype(np.float64)
    lows, highs = ends[:, ~np.isnan(ends[0])]
    return lows, highs


Codec = TableCodec | ImageCodec


def codec_from_json(values: dict[str, Any]) -> Codec:
    """The codec that `to_json` described."""
    values = dict(values)
    if values.pop("kind") == "table":
        return TableCodec(table=Table.from_json(values["columns"]))
    return ImageCodec(**{**values, "size": tuple(values["size"])})


def as_array(X: Any, codec: Codec | None = None) -> Any:
    """An array of what may be lists, in which numbers beside text stay numbers; data frames as they are.

    Where there is nothing but text, cells are read as those of a CSV file: empty ones are missing, and columns
    whose others are all numbers, or that the codec knows as such, hold numbers.
    """
    if hasattr(X, "iloc") or hasattr(X, "toarray"):
        return X
    array = np.asarray(X)
    if array.dtype.kind not in "US" or array.ndim != 2:
        return array
    given = array if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if not all(isinstance(value, str | bytes) for value in given.flat):
        return given
    cells = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    if isinstance(codec, TableCodec) and len(codec.table.columns) == cells.shape[1]:
        numeric = codec.numeric
    else:
        numeric = [holds_numbers(column) for column in cells.T]
    read = np.empty(cells.shape, object)
    for i, column in enumerate(cells.T):
        read[:, i] = [_value(str(cell), numeric[i]) for cell in column]
    only_numbers = all(isinstance(value, float) for value in read.flat)
    return read.astype(np.float64) if only_numbers else read


def _value(cell: str, numeric: bool) -> float | str | None:
    """What a cell of text holds; in a column of numbers, text that is none is kept, to be refused by name."""
    if is_empty(cell):
        return np.nan if numeric else None
    found = number(cell) if numeric else None
    return cell if found is None else found


def columns_of(X: Any) -> list[NDArray[Any]]:
    """The columns of a data frame or of an array `(rows, columns)`."""
    if hasattr(X, "iloc"):
        return [_plain(X.iloc[:, i]) for i in range(X.shape[1])]
    return list(np.asarray(X).T)


def _plain(series: Any) -> NDArray[Any]:
    """A data frame's column as numbers with NaN, or as objects."""
    missing = np.asarray(series.isna())
    if getattr(series.dtype, "kind", "O") in "fiub":
        return np.where(missing, np.nan, np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan)))
    values = np.array(series.astype(object))
    values[missing] = None
    return values


def categorical_columns(X: Any) -> list[int]:
    """Positions of a data frame's columns of dtype "category", which may hold numbers."""
    return [i for i in range(X.shape[1]) if hasattr(X.iloc[:, i], "cat")] if hasattr(X, "iloc") else []


def has_categories(X: Any) -> bool:
    """Whether a data frame or an array has columns that are no numbers."""
    if hasattr(X, "iloc"):
        return any(getattr(dtype, "kind", "O") not in "fiub" for dtype in X.dtypes)
    array = np.asarray(X) if not hasattr(X, "dtype") else X
    return (
        getattr(array.dtype, "kind", "f") == "O"
        and array.ndim == 2
        and any(isinstance(value, str) for value in array.ravel())
    )


def missing_entries(X: Any) -> NDArray[np.bool_]:
    """Where a user's array or data frame has no value."""
    if hasattr(X, "iloc"):
        return np.asarray(X.isna())
    array = np.asarray(X)
    return is_missing(array.ravel()).reshape(array.shape)


def restore(X: Any, decoded: NDArray[Any], missing: NDArray[np.bool_]) -> Any:
    """A copy of what the user gave, with its missing entries, and no others, taken from `decoded`."""
    if hasattr(X, "iloc"):
        filled = X.copy()
        for i in np.flatnonzero(missing.any(axis=0)):
            filled.isetitem(i, _fill_column(X.iloc[:, i], decoded[missing[:, i], i], missing[:, i]))
        return filled
    filled = np.array(X, copy=True)
    filled[missing] = decoded[missing]
    return filled


def _fill_column(column: Any, values: NDArray[Any], missing: NDArray[np.bool_]) -> Any:
    """A data frame's column with values where it has none; whole numbers that get fractions become Float64."""
    filled, kind = column.copy(), getattr(column.dtype, "kind", "O")
    if kind in "fb":
        values = values.astype(bool if kind == "b" else f"f{column.dtype.itemsize}")
    if kind in "iu" and (values % 1).any():
        filled = filled.astype("Float64")
    if hasattr(column, "cat"):
        known = set(column.cat.categories)
        filled = filled.cat.add_categories([value for value in dict.fromkeys(values) if value not in known])
    filled[missing] = values
    return filled


def first_row_without_values(x: Values) -> int | None:
    """The number of the first row in which nothing is observed."""
    missing = np.isnan(x.reshape(len(x), -1)).all(axis=1)
    return int(missing.argmax()) if missing.any() else None
