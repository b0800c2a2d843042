"""Data sets of a few rows in their official formats, written byte by byte; what tests of several folders share."""

import gzip
import io
import struct

import numpy as np
import pytest
import scipy.io

from mmdgm.data.datasets import norb
from mmdgm.errors import InputError

IDX_ROWS = {"train": 12, "t10k": 10}
SVHN_ROWS = {"train": 12, "test": 11, "extra": 13}
NORB_ROWS = 7
NORB_MAGIC = {"uint8": 0x1E3D4C55, "int32": 0x1E3D4C54, "float32": 0x1E3D4C51, "float64": 0x1E3D4C53}


def input_error(function, *args, **options):
    """The one line of the InputError that the call ends with."""
    with pytest.raises(InputError) as caught:
        function(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def expect_few_rows(monkeypatch):
    """Make the readers expect what is written here instead of the official numbers of rows."""
    monkeypatch.setattr("mmdgm.data.datasets.idx.ROWS", IDX_ROWS)
    monkeypatch.setattr("mmdgm.data.datasets.svhn.ROWS", SVHN_ROWS)
    monkeypatch.setattr(norb, "ROWS", NORB_ROWS)
    monkeypatch.setattr(norb, "CHUNK", 3)  # so that the last portion is a smaller one


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_idx(folder):
    """A small MNIST or Fashion-MNIST, plain and gzipped by turns."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part, rows in IDX_ROWS.items():
        images, labels = rng.integers(0, 256, (rows, 28, 28), np.uint8), np.arange(rows, dtype=np.uint8) % 10
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))
    return folder


def svhn_images(part):
    """X as it lies in the file: height, width, colour, row."""
    return np.random.default_rng(SVHN_ROWS[part]).integers(0, 256, (32, 32, 3, SVHN_ROWS[part]), np.uint8)


def svhn_labels(part):
    return (np.arange(SVHN_ROWS[part], dtype=np.uint8) % 10 + 1)[:, None]


def mat_file(arrays, **options):
    file = io.BytesIO()
    scipy.io.savemat(file, arrays, **options)
    return file.getvalue()


def write_svhn(data_dir):
    """A small SVHN, with extra rows."""
    folder = data_dir / "svhn"
    folder.mkdir(parents=True)
    for part, compressed in (("train", True), ("test", False), ("extra", True)):
        content = mat_file({"X": svhn_images(part), "y": svhn_labels(part)}, do_compression=compressed)
        (folder / f"{part}_32x32.mat").write_bytes(content)
    return folder


def norb_matrix(array, sizes=None):
    """A file of NORB's matrix format; fewer than three sizes are filled up with ones."""
    sizes = sizes or (*array.shape, 1, 1)[: max(3, array.ndim)]
    header = struct.pack(f"<{2 + len(sizes)}I", NORB_MAGIC[array.dtype.name], array.ndim, *sizes)
    return header + array.astype(array.dtype.newbyteorder("<")).tobytes()


def norb_pairs(side, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (NORB_ROWS, 2, side, side), np.uint8)


def norb_info():
    """Toy, elevation, azimuth and lighting of each training row."""
    return np.stack([4 + np.arange(NORB_ROWS) % 3, *np.zeros((3, NORB_ROWS))], axis=1).astype(np.int32)


def write_norb(data_dir, side, *, packed):
    folder = data_dir / "norb"
    folder.mkdir(parents=True)
    for seed, stem in enumerate((norb.TRAIN, norb.TEST)):
        labels = (np.arange(NORB_ROWS, dtype=np.int32) + seed) % 5
        contents = {"dat": norb_matrix(norb_pairs(side, seed)), "cat": norb_matrix(labels)}
        if stem == norb.TRAIN:
            contents["info"] = norb_matrix(norb_info())
        for kind, content in contents.items():
            if packed:
                (folder / f"{stem}-{kind}.mat.gz").write_bytes(gzip.compress(content))
            else:
                (folder / f"{stem}-{kind}.mat").write_bytes(content)
    return folder


def write_all(data_dir, monkeypatch):
    """All data sets, and a library that expects as many rows as they have."""
    expect_few_rows(monkeypatch)
    for name in ("mnist", "fashion"):
        write_idx(data_dir / name)
    write_svhn(data_dir)
    write_norb(data_dir, 96, packed=True)
