"""idx files written here byte by byte, whole and damaged; the embedded digits; where data is looked for."""

import gzip
import os
import struct
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmdgm.data import datasets
from mmdgm.data.datasets import default_data_dir, load
from mmdgm.data.datasets.idx import ROWS as OFFICIAL_ROWS
from mmdgm.data.datasets.idx import read_idx
from mmdgm.errors import InputError

ROWS = {"train": 12, "t10k": 10}
PIXELS = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def input_error(function, *args, **options):
    """The one line of the InputError that the call ends with."""
    with pytest.raises(InputError) as caught:
        function(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write_small(folder):
    """A small MNIST or Fashion-MNIST, plain and gzipped by turns."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part, rows in ROWS.items():
        images, labels = rng.integers(0, 256, (rows, 28, 28), np.uint8), np.arange(rows, dtype=np.uint8) % 10
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))
    return folder


@pytest.fixture(params=["mnist", "fashion"])
def small(request, tmp_path, monkeypatch):
    """The folder of a small data set in idx files; its name is the data set's."""
    monkeypatch.setattr("mmdgm.data.datasets.idx.ROWS", ROWS)
    return write_small(tmp_path / request.param)


def test_read_idx_gives_the_same_array_plain_and_gzipped(tmp_path):
    (tmp_path / "plain").write_bytes(idx(PIXELS))
    (tmp_path / "packed.gz").write_bytes(gzip.compress(idx(PIXELS)))
    for name in ("plain", "packed.gz"):
        array = read_idx(tmp_path / name, (2, 3, 4))
        assert array.dtype == np.uint8
        np.testing.assert_array_equal(array, PIXELS)


WHOLE = idx(PIXELS)
PACKED = gzip.compress(WHOLE)
DAMAGE = {
    "truncated gzip": ("x.gz", PACKED[:-9], "truncated"),
    "gzip's header alone": ("x.gz", PACKED[:6], "truncated"),
    "not gzip": ("x.gz", WHOLE, "no valid gzip"),
    "gzip with a wrong checksum": ("x.gz", PACKED[:-8] + bytes(4) + PACKED[-4:], "no valid gzip"),
    "empty gzip": ("x.gz", b"", "ends after 0 bytes"),
    "empty": ("x", b"", "ends after 0 bytes"),
    "truncated in the header": ("x", WHOLE[:9], "ends after 9 bytes"),
    "truncated": ("x", WHOLE[:-1], "39 bytes instead of 40"),
    "padded": ("x", WHOLE + b"\0", "41 bytes instead of 40"),
    "still packed": ("x", PACKED, "starts with 1f8b08"),
    "other type of numbers": ("x", b"\0\0\x0d\3" + WHOLE[4:], "starts with 00000d03"),
    "other number of sizes": ("x", b"\0\0\x08\1" + WHOLE[4:], "starts with 00000801"),
    "wrong sizes": ("x", idx(PIXELS.reshape(2, 4, 3)), "says 2×4×3, but 2×3×4"),
}


@pytest.mark.parametrize(("name", "content", "words"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_an_input_error_that_names_the_file(tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    message = input_error(read_idx, path, (2, 3, 4))
    assert message.startswith(str(path))
    assert words in message


@pytest.mark.parametrize(("name", "words"), [("absent", "No such file"), ("", "Is a directory")])
def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path, name, words):
    message = input_error(read_idx, tmp_path / name, (2, 3, 4))
    assert message.startswith(str(tmp_path / name))
    assert words in message


@settings(deadline=None)
@given(
    cut=st.integers(0, len(WHOLE)),
    flips=st.dictionaries(st.integers(0, 15), st.integers(0, 255), max_size=3),
    packed=st.booleans(),
)
def test_read_idx_gives_the_right_array_or_an_input_error(tmp_path_factory, cut, flips, packed):
    content = bytearray(WHOLE)
    for position, flip in flips.items():
        content[position] ^= flip
    content = bytes(content[:cut])
    path = tmp_path_factory.getbasetemp() / ("damaged.gz" if packed else "damaged")
    path.write_bytes(gzip.compress(content) if packed else content)
    if content == WHOLE:
        np.testing.assert_array_equal(read_idx(path, (2, 3, 4)), PIXELS)
    else:
        assert str(path) in input_error(read_idx, path, (2, 3, 4))


@settings(deadline=None)
@given(cut=st.integers(0, len(PACKED)), position=st.integers(0, len(PACKED) - 1), flip=st.integers(0, 255))
def test_a_damaged_gzip_gives_the_right_array_or_an_input_error(tmp_path_factory, cut, position, flip):
    content = bytearray(PACKED)
    content[position] ^= flip
    path = tmp_path_factory.getbasetemp() / "damaged.gz"
    path.write_bytes(bytes(content[:cut]))
    with suppress(InputError):
        np.testing.assert_array_equal(read_idx(path, (2, 3, 4)), PIXELS)


def test_the_data_set_is_what_the_files_hold(small):
    data = load(small.name, small.parent)
    rng = np.random.default_rng(0)
    for part, x, y in (("train", data.x_train, data.y_train), ("t10k", data.x_test, data.y_test)):
        np.testing.assert_array_equal(x[:, 0], rng.integers(0, 256, (ROWS[part], 28, 28), np.uint8))
        assert y.tolist() == [row % 10 for row in range(ROWS[part])]
        assert (x.dtype, y.dtype) == (np.uint8, np.int64)
    assert (data.name, data.shape, data.n_classes, data.scale) == (small.name, (1, 28, 28), 10, 256.0)


def test_fashion_has_names_for_its_classes_and_digits_have_none(tmp_path, monkeypatch):
    monkeypatch.setattr("mmdgm.data.datasets.idx.ROWS", ROWS)
    for name in ("mnist", "fashion"):
        write_small(tmp_path / name)
    assert load("mnist", tmp_path).class_names is None
    assert load("digits").class_names is None
    names = load("fashion", tmp_path).class_names
    assert (len(names), names[0], names[9]) == (10, "T-shirt/top", "Ankle boot")


def test_the_data_set_is_found_in_the_default_folder(small, monkeypatch):
    monkeypatch.setenv("MMDGM_DATA", str(small.parent))
    assert len(load(small.name).x_train) == 12


def test_a_label_above_9_is_an_input_error(small):
    path = small / "t10k-labels-idx1-ubyte"
    path.write_bytes(idx(np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 10], np.uint8)))
    message = input_error(load, small.name, small.parent)
    assert message.startswith(str(path))
    assert "label 10" in message


def test_files_of_another_size_are_an_input_error(small):
    path = small / "train-labels-idx1-ubyte"
    path.write_bytes(idx(np.zeros(11, np.uint8)))
    assert input_error(load, small.name, small.parent) == f"{path}: its header says 11, but 12 is expected"


def test_official_mnist_has_60000_and_10000_rows():
    assert OFFICIAL_ROWS == {"train": 60_000, "t10k": 10_000}


@pytest.mark.parametrize("missing", ["train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte"])
def test_a_missing_file_names_the_folder_and_a_command(small, missing):
    (small / missing).unlink()
    assert input_error(load, small.name, small.parent) == (
        f"{missing.removesuffix('.gz')}[.gz] is not in {small}; "
        f"fetch it with: mmdgm data download {small.name} --data-dir {small.parent}"
    )


def test_the_command_for_the_default_folder_needs_no_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MMDGM_DATA", str(tmp_path / "my data"))
    assert input_error(load, "mnist").endswith("fetch it with: mmdgm data download mnist")
    elsewhere = tmp_path / "other data"
    assert input_error(load, "mnist", elsewhere).endswith(f"mmdgm data download mnist --data-dir '{elsewhere}'")


def test_unknown_data_set_names_the_known_ones():
    message = input_error(load, "minst")
    assert message == "there is no data set 'minst'; there are: digits, mnist, fashion, svhn, norb"


@pytest.mark.parametrize("name", ["digits", "mnist", "fashion", "norb"])
def test_only_svhn_has_extra_rows(name):
    assert input_error(load, name, extra=True) == f"{name} has no extra rows; only svhn has"


def test_what_is_said_of_the_data_sets_is_what_they_are():
    assert list(datasets.ABOUT) == list(datasets.LOADERS)
    about, digits = datasets.ABOUT["digits"], load("digits")
    assert (about.train, about.test) == (len(digits.x_train), len(digits.x_test))
    assert (about.shape, about.classes) == (digits.shape, digits.n_classes)


REAL = {
    "mnist": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    "fashion": [6000] * 10,
    "svhn": [4948, 13861, 10585, 8497, 7458, 6882, 5727, 5595, 5045, 4659],
    "norb": [4860] * 5,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_files_where_they_are(name):
    if not os.environ.get("MMDGM_DATA") or not datasets.is_there(name):
        pytest.skip(f"$MMDGM_DATA does not hold {name}")
    data, about = load(name), datasets.ABOUT[name]
    assert np.bincount(data.y_train).tolist() == REAL[name]
    for x, y, rows in ((data.x_train, data.y_train, about.train), (data.x_test, data.y_test, about.test)):
        assert (x.shape, y.shape) == ((rows, *about.shape), (rows,))
        assert (x.dtype, y.dtype) == (np.uint8, np.int64)
        assert x.flags.c_contiguous
    assert (data.shape, data.n_classes, data.scale) == (about.shape, about.classes, 256.0)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"MMDGM_DATA": "/data", "XDG_CACHE_HOME": "/cache"}, "/data"),
        ({"MMDGM_DATA": "~/data"}, "/home/me/data"),
        ({"MMDGM_DATA": "", "XDG_CACHE_HOME": "/cache"}, "/cache/mmdgm"),
        ({"XDG_CACHE_HOME": "/cache"}, "/cache/mmdgm"),
        ({"XDG_CACHE_HOME": ""}, "/home/me/.cache/mmdgm"),  # empty counts as unset, says its specification
        ({}, "/home/me/.cache/mmdgm"),
    ],
)
def test_default_data_dir(monkeypatch, environment, expected):
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("MMDGM_DATA", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/me", **environment}.items():
        monkeypatch.setenv(name, value)
    assert default_data_dir() == Path(expected)


def test_digits_are_split_into_1297_and_500_balanced_rows():
    data = load("digits")
    assert data.x_train.shape == (1297, 1, 8, 8)
    assert data.x_test.shape == (500, 1, 8, 8)
    assert data.x_train.dtype == data.x_test.dtype == np.uint8
    assert (data.shape, data.n_classes, data.scale) == ((1, 8, 8), 10, 16.0)
    per_class = np.bincount(data.y_test, minlength=10)
    assert per_class.min() >= 48
    assert per_class.max() <= 51  # the 1,797 rows hold 174 to 183 of each class
    for x in (data.x_train, data.x_test):
        assert (x.min(), x.max()) == (0, 16)


def test_digits_test_rows_are_none_of_the_training_rows():
    from sklearn.datasets import load_digits

    data, source = load("digits"), load_digits()
    rows = [
        (*image.ravel().tolist(), label)
        for x, y in ((data.x_train, data.y_train), (data.x_test, data.y_test))
        for image, label in zip(x, y.tolist(), strict=True)
    ]
    assert len(set(rows)) == 1797
    assert set(rows) == {
        (*map(int, image), label) for image, label in zip(source.data, source.target.tolist(), strict=True)
    }


def test_digits_are_the_same_on_every_call_whatever_the_random_state(tmp_path):
    np.random.seed(1)  # noqa: NPY002 (scikit-learn would draw from this state)
    first = load("digits")
    np.random.seed(2)  # noqa: NPY002
    second = load("digits", tmp_path)
    for name in ("x_train", "y_train", "x_test", "y_test"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
