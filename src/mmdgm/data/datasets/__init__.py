"""Fetch, verify and read data sets in their official formats.

`load("mnist")` reads `mnist/` in the data folder. `download("mnist")` puts the official files there.
"""

from collections.abc import Callable
from pathlib import Path

from mmdgm.data.datasets.about import ABOUT
from mmdgm.data.datasets.base import Dataset, Images, Labels, channels_last, default_data_dir
from mmdgm.data.datasets.digits import load_digits
from mmdgm.data.datasets.fetch import download, is_there
from mmdgm.data.datasets.idx import load_fashion, load_mnist
from mmdgm.data.datasets.norb import load_norb
from mmdgm.data.datasets.sums import check_sums
from mmdgm.data.datasets.svhn import load_svhn
from mmdgm.errors import InputError

LOADERS: dict[str, Callable[[Path], Dataset]] = {
    "digits": load_digits,
    "mnist": load_mnist,
    "fashion": load_fashion,
    "svhn": load_svhn,
    "norb": load_norb,
}

__all__ = [
    "ABOUT",
    "LOADERS",
    "Dataset",
    "Images",
    "Labels",
    "channels_last",
    "default_data_dir",
    "download",
    "is_there",
    "load",
    "load_digits",
    "load_fashion",
    "load_mnist",
    "load_norb",
    "load_svhn",
]


def load(name: str, data_dir: str | Path | None = None, *, extra: bool = False) -> Dataset:
    """Read a data set by its name. `data_dir` holds one folder per data set, except the embedded digits.

    `extra` appends svhn's extra rows to its training rows. Damaged files are refused (see `sums`).
    """
    if name not in LOADERS:
        raise InputError(f"there is no data set {name!r}; there are: {', '.join(LOADERS)}")
    folder = Path(data_dir) if data_dir is not None else default_data_dir()
    if extra and name != "svhn":
        raise InputError(f"{name} has no extra rows; only svhn has")
    dataset = load_svhn(folder, extra=True) if extra else LOADERS[name](folder)
    check_sums(folder / name, extra=extra)
    return dataset
