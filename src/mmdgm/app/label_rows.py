"""Rows of a user's data as a person sees them: a picture, or a card of columns with the unusual values marked."""

import io
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mmdgm.data.arrays import missing_entries
from mmdgm.data.codecs import ImageCodec
from mmdgm.data.image_files import shown_image
from mmdgm.data.labeled_files import LabeledData
from mmdgm.data.table_files import cell_text
from mmdgm.report.figures import as_pictures

LARGE, SMALL = 640, 128  # pixels per side of a picture, and of one in the wall
PHOTO = 128  # pixels: larger pictures are sent as JPEG
RARE = 0.02  # a value is unusual if at most this share of a column is as far out on its side, or is as rare
SHOWN = 60  # columns of a card


class RowViews:
    """Pictures or cards of the rows."""

    def __init__(self, data: LabeledData):
        self._data = data
        self.are_images = data.files is not None or data.x.ndim > 2
        self._codec = ImageCodec.learn(data.x) if self.are_images and data.files is None else None
        self._columns = [] if self.are_images else [_Column(data.x[:, j]) for j in range(data.x.shape[1])]
        self._names = data.columns or [f"x{j}" for j in range(len(self._columns))]

    def __len__(self) -> int:
        return len(self._data.x)

    def name(self, row: int) -> str:
        """The file of an image, or the number of the row."""
        return self._data.files[row] if self._data.files is not None else f"row {row}"

    def picture(self, row: int, *, small: bool = False) -> tuple[bytes, str]:
        """Return a row's image file and its media type."""
        most = SMALL if small else LARGE
        if self._data.files is not None:
            image = shown_image(self._data.path / self._data.files[row], most)
        else:
            assert self._codec is not None
            image = _image_of(as_pictures(self._codec, self._data.x[row][None, None])[0, 0])
        file, photo = io.BytesIO(), max(image.size) > PHOTO
        image.save(file, "JPEG" if photo else "PNG", **({"quality": 90} if photo else {}))
        return file.getvalue(), "image/jpeg" if photo else "image/png"

    def card(self, row: int) -> dict[str, Any]:
        """Return the cells of a table's row: name, text, what is unusual about it, and its place from 0 to 1."""
        cells = [
            {"name": name, **column.cell(self._data.x[row, j])}
            for j, (name, column) in enumerate(zip(self._names[:SHOWN], self._columns, strict=False))
        ]
        return {"cells": cells, "more": max(0, len(self._names) - SHOWN)}


class _Column:
    """What is usual in a column."""

    def __init__(self, values: NDArray[Any]):
        there = values[~missing_entries(values[:, None])[:, 0]]
        try:
            self._sorted = np.sort(there.astype(float))
            self._counts: dict[Any, int] = {}
        except (TypeError, ValueError):
            self._sorted = np.empty(0)
            names, counts = np.unique(there.astype(str), return_counts=True)
            self._counts = dict(zip(names.tolist(), counts.tolist(), strict=True))

    def cell(self, value: Any) -> dict[str, Any]:
        if value is None or value != value:
            return {"text": "", "unusual": "", "place": None}
        if self._counts:
            rare = self._counts.get(str(value), 0) <= RARE * sum(self._counts.values())
            return {"text": str(value), "unusual": "rare" if rare else "", "place": None}
        number, n = float(value), len(self._sorted)
        below, above = self._sorted.searchsorted(number, "right"), n - self._sorted.searchsorted(number)
        low, high = self._sorted[0], self._sorted[-1]
        few = max(1, math.floor(RARE * n)) if len(np.unique(self._sorted)) > 2 else 0
        unusual = "low" if below <= few else "high" if above <= few else ""
        return {
            "text": cell_text(number),
            "unusual": unusual,
            "place": round((number - low) / (high - low), 4) if high > low else 0.5,
        }


def _image_of(unit: NDArray[np.float32]) -> Image.Image:
    """An image of pixels `(1 or 3, height, width)` in [0, 1]; missing ones are grey."""
    pixels = np.round(np.nan_to_num(unit, nan=0.5).clip(0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)
    return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
