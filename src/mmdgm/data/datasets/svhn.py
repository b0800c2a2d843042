"""SVHN, cropped house numbers, from MATLAB v5 files: images `(rows, 3, 32, 32)`, labels 0 to 9.

In the files X is uint8 `(32, 32, 3, rows)` (height, width, colour, row) and y is `(rows, 1)`, where 10 means
the digit 0.
"""

from pathlib import Path

import numpy as np

from mmdgm.data.datasets.base import Dataset, Images, Labels
from mmdgm.data.datasets.files import find
from mmdgm.data.datasets.mat import read_arrays
from mmdgm.errors import InputError

ROWS = {"train": 73_257, "test": 26_032, "extra": 531_131}


def load_svhn(data_dir: Path, *, extra: bool = False) -> Dataset:
    """SVHN from the official files in `data_dir/svhn`. `extra` appends 531,131 easier rows to the training rows."""
    x_train, y_train = _read(data_dir, ("train", "extra") if extra else ("train",))
    x_test, y_test = _read(data_dir, ("test",))
    return Dataset("svhn", x_train, y_train, x_test, y_test, n_classes=10, scale=256.0)


def _read(data_dir: Path, parts: tuple[str, ...]) -> tuple[Images, Labels]:
    """The concatenated rows of one or more files. Memory of each file is freed before the next is read."""
    paths = [
        find(data_dir, "svhn", f"{part}_32x32.mat", option=" --extra" if part == "extra" else "") for part in parts
    ]
    ends = np.cumsum([ROWS[part] for part in parts])
    x = np.empty((ends[-1], 3, 32, 32), np.uint8)
    y = np.empty(ends[-1], np.int64)
    for part, path, end in zip(parts, paths, ends, strict=True):
        rows = slice(end - ROWS[part], end)
        x[rows], y[rows] = read_svhn(path, ROWS[part])
    return x, y


def read_svhn(path: Path, rows: int) -> tuple[Images, Labels]:
    """Images `(rows, 3, 32, 32)`, a view of the file's array, and labels `(rows,)`, 0 to 9."""
    arrays = read_arrays(path, {"X": (32, 32, 3, rows), "y": (rows, 1)})
    images, labels = arrays["X"], arrays["y"]
    if images.dtype != np.uint8:
        raise InputError(f"{path}: X is {images.dtype.name}, but uint8 is expected; fetch it again")
    if not np.isin(labels, np.arange(1, 11)).all():
        raise InputError(f"{path}: y holds other labels than 1 to 10 (10 is the digit 0); fetch it again")
    return images.transpose(3, 2, 0, 1), labels[:, 0].astype(np.int64) % 10
