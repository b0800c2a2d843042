"""Find, verify and read data sets in their official formats.

Images are uint8 `(rows, channels, height, width)`, as they lie in the files; `scale` is the divisor that
takes them into [0, 1]. Nothing here shuffles or splits: see `splits`.
"""

import gzip
import os
import shlex
import struct
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.errors import InputError

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A data set with its official split into training and test rows."""

    name: str
    x_train: Images
    y_train: Labels
    x_test: Images
    y_test: Labels
    n_classes: int
    scale: float

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


def load(name: str, data_dir: Path | None = None) -> Dataset:
    """Read a data set by its name; `data_dir` holds one folder per data set that lies in files."""
    if name not in LOADERS:
        raise InputError(f"there is no data set {name!r}; there are: {', '.join(LOADERS)}")
    return LOADERS[name](data_dir if data_dir is not None else default_data_dir())


# --- scikit-learn's digits: 1,797 images of 8x8, grey values 0..16, no file needed -----------------------


def load_digits(data_dir: Path) -> Dataset:
    """The embedded digits; a fixed stratified draw of 500 rows is the test set, whatever the seed of a run."""
    from sklearn.datasets import load_digits as embedded
    from sklearn.model_selection import train_test_split

    digits = embedded()
    images = digits.images.astype(np.uint8)[:, None]
    labels = digits.target.astype(np.int64)
    x_train, x_test, y_train, y_test = train_test_split(
        images, labels, test_size=500, stratify=labels, random_state=0
    )
    return Dataset(
        name="digits",
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
        n_classes=10,
        scale=16.0,
    )


# --- MNIST: four idx files, gzipped or not ---------------------------------------------------------------

MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz"
MNIST_ROWS = {"train": 60_000, "t10k": 10_000}


def load_mnist(data_dir: Path) -> Dataset:
    """The official MNIST files in `data_dir/mnist`; grey values are divided by 256, as the paper does."""
    folder = data_dir / "mnist"
    arrays: dict[str, Any] = {}
    for part, rows in MNIST_ROWS.items():
        images = read_idx(_find_idx(folder, f"{part}-images-idx3-ubyte"), (rows, 28, 28))
        label_path = _find_idx(folder, f"{part}-labels-idx1-ubyte")
        labels = read_idx(label_path, (rows,)).astype(np.int64)
        if labels.max() > 9:
            raise InputError(f"{label_path}: holds the label {labels.max()}, but MNIST's labels are 0 to 9")
        arrays[part] = images[:, None], labels
    (x_train, y_train), (x_test, y_test) = arrays["train"], arrays["t10k"]
    return Dataset(
        name="mnist",
        x_train=x_train,
        y_train=y_train,
        x_test=x_test,
        y_test=y_test,
        n_classes=10,
        scale=256.0,
    )


def _find_idx(folder: Path, stem: str) -> Path:
    for name in (f"{stem}.gz", stem):
        if (folder / name).is_file():
            return folder / name
    raise InputError(
        f"MNIST is not in {folder} ({stem}[.gz] is missing); fetch it with: "
        f"curl -fL --create-dirs --output-dir {shlex.quote(str(folder))} --remote-name-all '{MNIST_URL}'"
    )


def read_idx(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """An idx file of unsigned bytes whose sizes must be `shape`; gzipped when its name ends in `.gz`.

    The format: two zero bytes, the type (8: unsigned byte), the number of sizes, each size as a big-endian
    32-bit integer, then the bytes, last index fastest.
    """
    content = _read_bytes(path)
    header_length = 4 + 4 * len(shape)
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
        raise InputError(f"{path}: its header says {_by(sizes)}, but {_by(shape)} is expected")
    expected = header_length + int(np.prod(shape))
    if len(content) != expected:
        raise InputError(f"{path}: holds {len(content)} bytes instead of {expected}; fetch it again")
    return np.frombuffer(content, np.uint8, offset=header_length).reshape(shape)


def _read_bytes(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except EOFError:
        raise InputError(f"{path}: the gzip stream ends too early (truncated); fetch it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: is no valid gzip file ({error}); fetch it again") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def _by(sizes: tuple[int, ...]) -> str:
    return "×".join(str(size) for size in sizes)


LOADERS = {"digits": load_digits, "mnist": load_mnist}
