"""MNIST and Fashion-MNIST: four idx files each, with the same names and sizes. Images are `(rows, 1, 28, 28)`."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.datasets.base import Dataset
from mmdgm.data.datasets.files import by, find, opened
from mmdgm.errors import InputError

ROWS = {"train": 60_000, "t10k": 10_000}
FASHION = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)


def load_mnist(data_dir: Path) -> Dataset:
    """MNIST from the official files in `data_dir/mnist`. The scale of grey values is 256, as in the paper."""
    return _load("mnist", data_dir, None)


def load_fashion(data_dir: Path) -> Dataset:
    """Fashion-MNIST from the official files in `data_dir/fashion`."""
    return _load("fashion", data_dir, FASHION)


def _load(name: str, data_dir: Path, class_names: tuple[str, ...] | None) -> Dataset:
    arrays: dict[str, Any] = {}
    for part, rows in ROWS.items():
        images = read_idx(find(data_dir, name, f"{part}-images-idx3-ubyte"), (rows, 28, 28))
        label_path = find(data_dir, name, f"{part}-labels-idx1-ubyte")
        labels = read_idx(label_path, (rows,)).astype(np.int64)
        if labels.max() > 9:
            raise InputError(f"{label_path}: holds the label {labels.max()}, but the labels are 0 to 9")
        arrays[part] = images[:, None], labels
    (x_train, y_train), (x_test, y_test) = arrays["train"], arrays["t10k"]
    return Dataset(name, x_train, y_train, x_test, y_test, n_classes=10, scale=256.0, class_names=class_names)


def read_idx(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes, gzipped if its name ends in `.gz`. Its sizes must be `shape`.

    The format: two zero bytes, the type (8: unsigned byte), the number of sizes, each size as a big-endian
    32-bit integer, then the bytes, last index fastest.
    """
    header_length = 4 + 4 * len(shape)
    expected = header_length + int(np.prod(shape))
    with opened(path) as file:
        content = file.read(expected + 1)  # a small gzip file may unpack to gigabytes
    if len(content) < header_length:
        raise InputError(f"{path}: ends after {len(content)} bytes, inside the header; fetch it again")
    magic = bytes([0, 0, 8, len(shape)])
    if content[:4] != magic:
        raise InputError(
            f"{path}: starts with {content[:4].hex()}, but an idx file of {len(shape)}-dimensional bytes "
            f"starts with {magic.hex()}; it is another file, or still packed"
        )
    sizes = struct.unpack(f">{len(shape)}I", content[4:header_length])
    if sizes != shape:
        raise InputError(f"{path}: its header says {by(sizes)}, but {by(shape)} is expected")
    if len(content) != expected:
        at_least = "at least " * (len(content) > expected)
        raise InputError(f"{path}: holds {at_least}{len(content)} bytes instead of {expected}; fetch it again")
    return np.frombuffer(content, np.uint8, offset=header_length).reshape(shape)
