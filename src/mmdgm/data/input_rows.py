"""Users' rows for a trained model, from an npz file, a table, image files or a folder of images."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.arrays import missing_entries
from mmdgm.data.codecs import Codec, ImageCodec, TableCodec
from mmdgm.data.image_files import files_in, read_images
from mmdgm.data.npz import checked_values, read_only_array
from mmdgm.data.table_files import Sheet, read_sheet, table_format, values
from mmdgm.errors import InputError

ARRAYS = (".npz", ".npy")  # for an npy file, read_npz raises an error that says how to make an npz file


@dataclass(frozen=True, kw_only=True)
class InputRows:
    """Rows in the form that an estimator takes."""

    names: list[str]
    x: NDArray[Any]
    sheet: Sheet | None = None  # the table that holds the rows
    skipped: int = 0
    notes: list[str] = field(default_factory=list)
    original: NDArray[Any] | None = None  # the unchanged array of an npz file
    scale: float = 1.0  # (x − low) · scale is on the original's scale
    low: float = 0.0

    def restored(self, filled: NDArray[Any]) -> NDArray[Any]:
        """Filled rows with the original's shape, type and scale. Observed values are exactly the original's."""
        if self.original is None or not np.issubdtype(self.original.dtype, np.floating):
            return filled
        values = (filled - self.low) * self.scale
        if self.original.ndim == 4 and self.original.shape != values.shape:  # channels first
            values = values.reshape(*values.shape[:3], -1).transpose(0, 3, 1, 2)
        return np.where(np.isnan(self.original), values.reshape(self.original.shape), self.original).astype(
            self.original.dtype
        )

    @property
    def missing(self) -> NDArray[np.bool_]:
        return missing_entries(self.x)


def read_rows(codec: Codec, inputs: list[Path], *, scale: float | None = None, target: str = "label") -> InputRows:
    """Read rows of the kind that the codec's model was trained on.

    `scale`: the divisor that brings the values of an npz file of images into [0, 1]. None: the scale of training.
    `target`: the column of a table that may hold labels.
    """
    if absent := [path for path in inputs if not path.exists()]:
        raise InputError(f"{absent[0]} is missing")
    path = inputs[0]
    alone = [path for path in inputs if path.is_dir() or path.suffix.lower() in ARRAYS or table_format(path)]
    if len(inputs) > 1 and alone:
        raise InputError(f"{alone[0]} is not alone; give one npz file, one table, one folder, or image files")
    is_file, ending = not path.is_dir(), path.suffix.lower()
    if is_file and ending in ARRAYS:
        return read_array_rows(codec, path, scale)
    if scale is not None:
        raise InputError(f"--scale {scale:g}: is for an npz file of images; other values are on a known scale")
    if table_format(path):
        return read_sheet_rows(codec, path, target)
    if not isinstance(codec, ImageCodec):
        raise InputError(f"{path}: the model was trained on a table; give a CSV, TSV, Parquet or npz file")
    return read_image_rows(codec, inputs)


def read_array_rows(codec: Codec, path: Path, scale: float | None) -> InputRows:
    """Rows of an npz file, named by their indices. Images may be flat or have the channels first."""
    original = read_only_array(path)
    x, names = checked_values(path, original), [str(row) for row in range(len(original))]
    if not isinstance(codec, ImageCodec):
        if x.shape[1:] != (len(codec.numeric),):
            raise InputError(f"{path}: x has the shape {x.shape}, but the model was fitted on {codec.fitted_on}")
        if not all(codec.numeric):
            raise InputError(
                f"{path}: the model was trained on columns with categories; give a CSV, TSV or Parquet file"
            )
        if scale is not None:
            raise InputError(f"--scale {scale:g}: is for images; the model was trained on a table")
        return InputRows(names=names, x=x, original=original)
    height, width = codec.size[:2]
    if x.shape[1:] == (math.prod(codec.size),):
        x = x.reshape(-1, *codec.size)
    elif x.shape[1:] == (codec.channels, height, width) != codec.size:
        x = x.transpose(0, 2, 3, 1).reshape(-1, *codec.size)
    if x.shape[1:] != codec.size:
        raise InputError(f"{path}: x has the shape {x.shape}, but the model was fitted on {codec.fitted_on}")
    if scale is not None:
        if not 0 < scale < math.inf:
            raise InputError(f"--scale {scale}: give a number above 0")
        if (x < 0).any() or (x > scale).any():
            raise InputError(f"{path}: values are not between 0 and {scale:g}, so --scale {scale:g} is not theirs")
        x, span = codec.rescaled(x, scale), codec.high - codec.low
        return InputRows(names=names, x=x, original=original, scale=scale / span, low=codec.low)
    if (codec.brightest or 0) > 2 and 0 < np.nanmax(x, initial=0) <= 1:
        raise InputError(f"{path}: no value is above 1, unlike in training; if they are scaled, give --scale 1")
    return InputRows(names=names, x=x, original=original)


def read_sheet_rows(codec: Codec, path: Path, target: str) -> InputRows:
    """Rows of a table, with the columns that the model was trained on. Columns are found by name."""
    if not isinstance(codec, TableCodec):
        raise InputError(f"{path}: the model was trained on images; give image files or an npz file")
    sheet, names = read_sheet(path), codec.names
    known, there = {*names, target}, set(sheet.header)
    if absent := [name for name in names if name not in there]:
        raise InputError(f"{path}: has no column {', '.join(absent)}, which the model was trained on")
    others = [name for name in sheet.header if name not in known]
    notes = [f"{path}: the model was trained without these columns: {', '.join(others)}"] if others else []
    x = values(sheet, names, codec.numeric)
    return InputRows(names=[str(row) for row in range(len(x))], x=x, sheet=sheet, notes=notes)


def read_image_rows(codec: ImageCodec, inputs: list[Path]) -> InputRows:
    """Rows of image files, on the training images' scale. Files of a folder are named without the folder."""
    folder = inputs[0].is_dir()
    files = files_in(inputs[0]) if folder else inputs
    height, width = codec.size[:2]
    images = read_images(files, (codec.channels, height, width))
    notes = [f"{line}; skipped" for line in images.broken]
    if not images.paths:
        raise InputError(f"{inputs[0]}: no image is left of {len(files)} ({images.broken[0]})")
    names = [path.name if folder else str(path) for path in images.paths]
    return InputRows(names=names, x=codec.from_unit(images.unit), skipped=len(images.broken), notes=notes)
