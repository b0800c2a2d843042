"""idx files written byte by byte, whole and damaged."""

import gzip
import re
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmdgm.data.datasets import load
from mmdgm.data.datasets.idx import ROWS as OFFICIAL_ROWS
from mmdgm.data.datasets.idx import read_idx
from mmdgm.errors import InputError
from small_datasets import IDX_ROWS as ROWS
from small_datasets import expect_few_rows, idx, input_error, write_idx

PIXELS = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


@pytest.fixture(params=["mnist", "fashion"])
def small(request, tmp_path, monkeypatch):
    """The folder of a small data set in idx files; its name is the data set's."""
    expect_few_rows(monkeypatch)
    return write_idx(tmp_path / request.param)


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
    expect_few_rows(monkeypatch)
    for name in ("mnist", "fashion"):
        write_idx(tmp_path / name)
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
    message = input_error(load, small.name, small.parent)
    assert message.startswith(str(path))
    assert re.findall(r"\d+", message.removeprefix(str(path))) == ["11", "12"]


def test_official_mnist_has_60000_and_10000_rows():
    assert OFFICIAL_ROWS == {"train": 60_000, "t10k": 10_000}


@pytest.mark.parametrize("missing", ["train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte"])
def test_a_missing_file_names_the_folder_and_a_command(small, missing):
    (small / missing).unlink()
    message = input_error(load, small.name, small.parent)
    assert missing.removesuffix(".gz") in message
    assert str(small) in message
    assert message.endswith(f"mmdgm data download {small.name} --data-dir {small.parent}")
