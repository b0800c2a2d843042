"""A data set in memory, and the default folder of data files.

Images are uint8 `(rows, channels, height, width)`, with the values of the files. `scale` is the divisor that brings
them into [0, 1]. This module does not shuffle or split rows: see `splits`.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Images = NDArray[Any]  # uint8 as read from files, float32 after preprocessing
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Dataset:
    """A data set with its official split into training and test rows."""

    name: str
    x_train: Images
    y_train: Labels
    x_test: Images
    y_test: Labels
    n_classes: int
    scale: float
    class_names: tuple[str, ...] | None = None  # None: the class names are the digits
    groups: Labels | None = (
        None  # number of the photographed object in each training row, if there are several images of each
    )

    @property
    def classes(self) -> NDArray[Any]:
        """The class names of the labels 0, 1, …."""
        return np.array(self.class_names) if self.class_names else np.arange(self.n_classes)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        _, channels, height, width = self.x_train.shape
        return channels, height, width


def default_data_dir() -> Path:
    """`$MMDGM_DATA`, or `mmdgm` in the user's cache folder."""
    if chosen := os.environ.get("MMDGM_DATA"):
        return Path(chosen).expanduser()
    home = Path.home()
    if sys.platform == "darwin":
        cache = home / "Library" / "Caches"
    elif sys.platform == "win32":
        cache = Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return cache / "mmdgm"


def channels_last(images: Images) -> Images:
    """Convert images `(rows, channels, height, width)` to the users' layout `(rows, height, width[, channels])`."""
    return images[:, 0] if images.shape[1] == 1 else images.transpose(0, 2, 3, 1)
