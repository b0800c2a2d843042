"""Codecs: convert users' arrays to the networks' rows `(rows, channels, height, width)`, and back.

A table's row is an image of 1×1 with one channel per encoded column. NaN marks missing values on both sides.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.arrays import WHITE, categorical_columns, columns_of, highest_byte
from mmdgm.data.batches import Shape
from mmdgm.data.cells import is_missing, oddity
from mmdgm.data.contrast import local_contrast
from mmdgm.data.tables import Table
from mmdgm.errors import InputError, printable
from mmdgm.settings import from_json

Values = NDArray[np.float32]
LARGEST = 1e30  # of values that are safe in float32
FAR = 1e6  # of pixels with a Gaussian likelihood, in units of the training images' range
SEVERAL = 5  # images needed before uniform darkness suggests a wrong scale


@dataclass(frozen=True, kw_only=True)
class TableCodec:
    """A table: an array `(rows, columns)`, or columns of several kinds."""

    table: Table
    is_image = False

    @classmethod
    def learn(cls, X: Any, names: list[str]) -> "TableCodec":
        return cls(table=Table.learn(columns_of(X), names, categorical_columns(X)))

    def oddities(self, X: Any) -> list[str]:
        """Warnings about columns of categories that were probably meant otherwise."""
        found = []
        for column, cells in zip(self.table.columns, columns_of(X), strict=True):
            if column.kind == "category" and any(isinstance(value, str) for value in column.values):
                found.append(oddity(column.name, cells[~is_missing(cells)].tolist()))
        return [line for line in found if line is not None]

    def unknown(self, X: Any, x: Values) -> list[str]:
        """Warnings about columns of categories in which no value is a known one. `x`: the encoded rows."""
        columns = self.table.columns
        firsts = np.cumsum([0, *(column.width for column in columns)])
        lost = [i for i, c in enumerate(columns) if c.kind == "category" and np.isnan(x[:, firsts[i]]).all()]
        cells, found = columns_of(X) if lost else [], []
        for i in lost:
            if given := cells[i][~is_missing(cells[i])].tolist():
                line = f"column {printable(columns[i].name)}: none of its values is a category of the training rows"
                found.append(f"{line}, such as {given[0]!r}; they count as missing")
        return found

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.table.columns]

    def named(self, names: list[str]) -> "TableCodec":
        """A copy with other column names."""
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

    def encode(self, X: Any) -> Values:
        return self.table.encode(columns_of(X))[:, :, None, None]

    def decode(self, seen: Values, *, exact: bool = False) -> NDArray[Any]:
        """Decode rows to an array. If `exact`, numbers are not rounded as the observed ones are."""
        columns = self.table.decode(seen.reshape(len(seen), -1), exact=exact)
        kind = np.float64 if all(column.holds_numbers for column in self.table.columns) else object
        return np.stack([column.astype(kind) for column in columns], axis=1)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "table", "columns": self.table.to_json()}


@dataclass(frozen=True, kw_only=True)
class ImageCodec:
    """Images `(rows, height, width)` or `(rows, height, width, channels)`.

    Values become (x − low) / (high − low), in [0, 1]. If `normalised`, local contrast normalisation follows. Sides
    are padded to multiples of 4, at least 8, with pixels that count as missing.
    """

    size: tuple[int, ...]  # shape of a row of the user's array
    low: float
    high: float
    gaussian: bool = False
    normalised: bool = False
    darkest: float | None = None  # lowest value of the training images; None if an older version wrote the file
    brightest: float | None = None
    contrast: float = 0.0  # 5 % quantile of (highest − lowest value) over the training images
    of_bytes: bool = False  # whether the training images were bytes
    is_image = True

    @classmethod
    def learn(
        cls, X: NDArray[Any], *, gaussian: bool = False, normalised: bool = False, scale: float | None = None
    ) -> "ImageCodec":
        """The codec of these training images. `scale` is the divisor of their values, if it is known."""
        if scale is not None or X.dtype == np.uint8:
            low, high = 0.0, scale or float(highest_byte(X))
        else:
            low, high = float(np.nanmin(X)), float(np.nanmax(X))
            low, high = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
        lows, highs = _extremes(X)
        return cls(
            size=X.shape[1:],
            low=low,
            high=high if high > low else low + max(1.0, 1e-6 * abs(low)),
            gaussian=gaussian,
            normalised=normalised,
            darkest=float(lows.min()),
            brightest=float(highs.max()),
            contrast=float(np.quantile(highs - lows, 0.05)),
            of_bytes=X.dtype == np.uint8,
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

    def encode(self, X: NDArray[Any]) -> Values:
        if X.shape[1:] != self.size:
            raise InputError(f"X has the shape {X.shape}, but the model was fitted on {self.fitted_on}")
        rows = self.unit(X)
        if self.normalised:
            if np.isnan(rows).any():
                raise InputError("contrast normalisation takes whole images: this model cannot take missing values")
            rows = local_contrast(rows)
        else:
            rows = rows.clip(-FAR, FAR) if self.gaussian else rows.clip(0, 1)  # NaN stays
        _, height, width = self.shape
        down, right = height - self.size[0], width - self.size[1]
        if not (down or right):
            return np.ascontiguousarray(rows)
        return np.pad(rows, ((0, 0), (0, 0), (0, down), (0, right)), constant_values=np.nan)

    def decode(self, seen: Values, *, exact: bool = False) -> NDArray[Any]:
        """Decode rows to images. Pixels are never rounded, `exact` or not."""
        if self.normalised:
            seen = (0.5 + seen / 3).clip(0, 1)  # for display only: the normalisation cannot be undone
        rows = seen[:, :, : self.size[0], : self.size[1]].transpose(0, 2, 3, 1).reshape(len(seen), *self.size)
        return rows.astype(np.float64) * (self.high - self.low) + self.low

    def unit(self, X: NDArray[Any]) -> Values:
        """Images `(rows, channels, height, width)` in [0, 1], with NaN for missing values."""
        exact = X.dtype == np.float64 and (self.low != 0 or self.high > LARGEST)  # float32 would not tell them apart
        with np.errstate(over="ignore"):
            values: Any = np.asarray(X, np.float64 if exact else np.float32)
            unit: Values = ((values - self.low) / (self.high - self.low)).astype(np.float32, copy=False)
        return unit.reshape(len(X), *self.size[:2], self.channels).transpose(0, 3, 1, 2)

    def from_unit(self, unit: NDArray[np.floating]) -> Values:
        """Convert pictures `(rows, channels, height, width)` in [0, 1] to images on the scale of the training images.

        White becomes 255 where the scale is that of bytes, also if they are divided by 256.
        """
        span = self.high - self.low
        white = min(span, WHITE) if self.low == 0 else span
        return np.asarray(unit.transpose(0, 2, 3, 1).reshape(-1, *self.size) * white + self.low, np.float32)

    def rescaled(self, X: NDArray[Any], scale: float) -> NDArray[Any]:
        """Convert values in [0, `scale`] to the scale of the training images."""
        return X / scale * (self.high - self.low) + self.low

    def other_scale(self, X: NDArray[Any]) -> str | None:
        """A warning if X cannot be on the scale of the training images, else None.

        The scale is wrong if half of the images reach far beyond the range of the training values. It is also wrong
        if several images together span less than a tenth of what almost every single training image spans.
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
    """The lowest and the highest value of each image. Images without values are left out."""
    flat = X.reshape(len(X), -1)
    ends = np.stack([np.fmin.reduce(flat, axis=1), np.fmax.reduce(flat, axis=1)]).astype(np.float64)
    lows, highs = ends[:, ~np.isnan(ends[0])]
    return lows, highs


Codec = TableCodec | ImageCodec


def codec_from_json(values: dict[str, Any]) -> Codec:
    """The codec that `to_json` wrote."""
    if not isinstance(values, dict) or values.get("kind") not in ("table", "images"):
        raise InputError("config.json: the codec is neither of a table nor of images")
    values = dict(values)
    if values.pop("kind") == "table":
        return TableCodec(table=Table.from_json(values.get("columns")))
    codec = from_json(ImageCodec, values)
    if len(codec.size) not in (2, 3) or min(codec.size) < 1 or codec.high <= codec.low:
        raise InputError("config.json: the codec is not one of images")
    return codec
