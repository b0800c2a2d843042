"""small NORB: images of toys of five kinds by the left camera, reduced to `(24300, 1, 32, 32)`.

A file is one matrix, little-endian: a 32-bit magic number for the type, the number of dimensions, at least three
sizes (those beyond the dimensions are 1), then the values, last index fastest.
"""

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.datasets.base import Dataset, Images, Labels
from mmdgm.data.datasets.files import by, find, opened
from mmdgm.errors import InputError

ROWS = 24_300
CLASSES = ("animal", "human", "airplane", "truck", "car")
TRAIN = "smallnorb-5x46789x9x18x6x2x96x96-training"
TEST = "smallnorb-5x01235x9x18x6x2x96x96-testing"
BYTES, INTEGERS = 0x1E3D4C55, 0x1E3D4C54
SIDE = 32
CHUNK = 500  # rows read at a time


def load_norb(data_dir: Path) -> Dataset:
    """small NORB from the files in `data_dir/norb`. Images may be 96×96 (the official files), 64×64 or 32×32."""
    (x_train, y_train), (x_test, y_test) = (
        (
            read_left(find(data_dir, "norb", f"{stem}-dat.mat")),
            read_classes(find(data_dir, "norb", f"{stem}-cat.mat")),
        )
        for stem in (TRAIN, TEST)
    )
    toys = read_toys(find(data_dir, "norb", f"{TRAIN}-info.mat"))
    return Dataset("norb", x_train, y_train, x_test, y_test, 5, 256.0, CLASSES, toys)


def read_left(path: Path) -> Images:
    """The left camera's images as uint8 `(rows, 1, 32, 32)`: means of blocks, rounded to the nearest integer."""
    with opened(path) as file:
        sizes = _sizes(file, path, BYTES, 4)
        side = sizes[-1]
        if sizes != (ROWS, 2, side, side) or side not in (32, 64, 96):
            raise InputError(
                f"{path}: its header says {by(sizes)}, but {by((ROWS, 2, 96, 96))} is expected (or 64×64, 32×32)"
            )
        x = np.empty((ROWS, 1, SIDE, SIDE), np.uint8)
        for first in range(0, ROWS, CHUNK):
            rows = min(CHUNK, ROWS - first)
            content = _exactly(file, path, rows * 2 * side * side)
            pairs = np.frombuffer(content, np.uint8).reshape(rows, 2, side, side)
            x[first : first + rows, 0] = reduce(pairs[:, 0])
        _end(file, path)
    return x


def reduce(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Reduce images `(rows, 32k, 32k)` to `(rows, 32, 32)`, the means of k×k blocks."""
    k = images.shape[-1] // SIDE
    total = np.zeros((len(images), SIDE, SIDE), np.uint16)
    for i in range(k):
        for j in range(k):
            total += images[:, i::k, j::k]
    mean: NDArray[np.uint8] = ((total + k * k // 2) // (k * k)).astype(np.uint8)
    return mean


def read_classes(path: Path) -> Labels:
    """The labels `(rows,)`, 0 to 4."""
    y = _integers(path, 1)[:, 0]
    if y.min() < 0 or y.max() >= len(CLASSES):
        raise InputError(f"{path}: holds labels from {y.min()} to {y.max()}, but the labels are 0 to 4")
    return y


def read_toys(path: Path) -> Labels:
    """The number of the toy in each image, `(rows,)`: each class has five toys in the training rows."""
    return _integers(path, 4)[:, 0]


def _integers(path: Path, columns: int) -> Labels:
    """A file's integers `(rows, columns)`."""
    with opened(path) as file:
        sizes = _sizes(file, path, INTEGERS, 1 if columns == 1 else 2)
        if sizes != (ROWS, columns, 1):
            raise InputError(f"{path}: its header says {by(sizes)}, but {by((ROWS, columns, 1))} is expected")
        values = np.frombuffer(_exactly(file, path, 4 * ROWS * columns), "<i4").astype(np.int64)
        _end(file, path)
    return values.reshape(ROWS, columns)


def _sizes(file: BinaryIO, path: Path, magic: int, dimensions: int) -> tuple[int, ...]:
    found = _exactly(file, path, 8)
    expected = struct.pack("<2I", magic, dimensions)
    if found != expected:
        raise InputError(
            f"{path}: starts with {found.hex()} instead of {expected.hex()}; it is another file, or still packed"
        )
    count = max(3, dimensions)
    return struct.unpack(f"<{count}I", _exactly(file, path, 4 * count))


def _exactly(file: BinaryIO, path: Path, length: int) -> bytes:
    content = file.read(length)
    if len(content) < length:
        raise InputError(f"{path}: ends too early (truncated); fetch it again")
    return content


def _end(file: BinaryIO, path: Path) -> None:
    if file.read(1):
        raise InputError(f"{path}: goes on after its last value; fetch it again")
