"""small NORB's matrices written here byte by byte, whole and damaged."""

import gzip
import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmdgm.data.datasets import load, norb
from mmdgm.errors import InputError
from small_datasets import NORB_ROWS as ROWS
from small_datasets import expect_few_rows, input_error, write_norb
from small_datasets import norb_matrix as matrix
from small_datasets import norb_pairs as pairs


@pytest.fixture(autouse=True)
def small_norb(monkeypatch):
    expect_few_rows(monkeypatch)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("side", [32, 64, 96])
def test_norb_is_the_left_camera_in_means_of_blocks(tmp_path, side, packed):
    write_norb(tmp_path, side, packed=packed)
    data = load("norb", tmp_path)
    k = side // 32
    for seed, (x, y) in enumerate(((data.x_train, data.y_train), (data.x_test, data.y_test))):
        assert (x.dtype, x.shape, y.dtype) == (np.uint8, (ROWS, 1, 32, 32), np.int64)
        assert x.flags.c_contiguous
        left = pairs(side, seed)[:, 0].astype(float)
        means = np.array(
            [[left[:, k * i : k * i + k, k * j : k * j + k].mean((1, 2)) for j in range(32)] for i in range(32)]
        )
        np.testing.assert_array_equal(x[:, 0], np.floor(means.transpose(2, 0, 1) + 0.5))
        assert y.tolist() == [(row + seed) % 5 for row in range(ROWS)]
    assert (data.shape, data.n_classes, data.scale) == ((1, 32, 32), 5, 256.0)
    assert data.class_names == ("animal", "human", "airplane", "truck", "car")
    assert data.groups.tolist() == [4 + row % 3 for row in range(ROWS)]


def test_black_and_white_stay_so():
    for value in (0, 255):
        assert (norb.reduce(np.full((2, 96, 96), value, np.uint8)) == value).all()


def test_the_official_names_and_rows(monkeypatch):
    monkeypatch.undo()
    assert norb.ROWS == 24_300
    assert norb.TRAIN == "smallnorb-5x46789x9x18x6x2x96x96-training"
    assert norb.TEST == "smallnorb-5x01235x9x18x6x2x96x96-testing"


@pytest.mark.parametrize("kind", ["dat", "cat", "info"])
def test_a_missing_file_names_a_command(tmp_path, kind):
    folder = write_norb(tmp_path, 32, packed=False)
    (folder / f"{norb.TRAIN}-{kind}.mat").unlink()
    message = input_error(load, "norb", tmp_path)
    assert f"{norb.TRAIN}-{kind}.mat" in message
    assert str(folder) in message
    assert message.endswith(f"mmdgm data download norb --data-dir {tmp_path}")


DAT, CAT = matrix(pairs(32)), matrix(np.arange(ROWS, dtype=np.int32) % 5)
IMAGES = {
    "empty": (b"", "too early"),
    "a text": (b"no images in here", "starts with 6e6f20696d616765"),
    "truncated in the header": (DAT[:20], "too early"),
    "header alone": (DAT[:24], "too early"),
    "truncated": (DAT[:-1], "too early"),
    "padded": (DAT + b"\0", "goes on after its last value"),
    "labels in place of images": (CAT, "starts with 544c3d1e01000000 instead of 554c3d1e04000000"),
    "floating": (matrix(pairs(32).astype(np.float32)), "starts with 514c3d1e"),
    "big-endian": (struct.pack(">2I", 0x1E3D4C55, 4) + DAT[8:], "starts with 1e3d4c55"),
    "still packed": (gzip.compress(DAT), "starts with 1f8b08"),
    "three sizes": (matrix(pairs(32)[:, 0]), "starts with 554c3d1e03000000"),
    "a row too few": (matrix(pairs(32)[1:]), "says 6×2×32×32, but 7×2×96×96"),
    "one camera": (matrix(pairs(32)[:, :1]), "says 7×1×32×32"),
    "not square": (matrix(np.zeros((ROWS, 2, 32, 64), np.uint8)), "says 7×2×32×64"),
    "sides of 48": (matrix(np.zeros((ROWS, 2, 48, 48), np.uint8)), "says 7×2×48×48"),
    "sides of 0": (matrix(np.zeros((ROWS, 2, 0, 0), np.uint8)), "says 7×2×0×0"),
    "huge": (matrix(pairs(32), (ROWS, 2, 2**31, 2**31)), "2147483648"),
    "larger than it is": (matrix(pairs(32), (ROWS, 2, 96, 96)), "too early"),
}
LABELS = {
    "empty": (b"", "too early"),
    "truncated": (CAT[:-1], "too early"),
    "padded": (CAT + b"\0", "goes on after its last value"),
    "bytes": (matrix(np.zeros(ROWS, np.uint8)), "starts with 554c3d1e01000000 instead of 544c3d1e01000000"),
    "a label too many": (matrix(np.zeros(ROWS + 1, np.int32)), "says 8×1×1, but 7×1×1"),
    "sizes that are not filled with ones": (matrix(np.zeros(ROWS, np.int32), (ROWS, 2, 1)), "says 7×2×1"),
    "label 5": (matrix(np.arange(ROWS, dtype=np.int32)), "labels from 0 to 6"),
    "label -1": (matrix(np.arange(ROWS, dtype=np.int32) % 5 - 1), "labels from -1 to 3"),
}


@pytest.mark.parametrize(("content", "words"), IMAGES.values(), ids=IMAGES)
def test_damaged_images_are_an_input_error(tmp_path, content, words):
    check_damage(norb.read_left, tmp_path, content, words)


@pytest.mark.parametrize(("content", "words"), LABELS.values(), ids=LABELS)
def test_damaged_labels_are_an_input_error(tmp_path, content, words):
    check_damage(norb.read_classes, tmp_path, content, words)


def check_damage(read, tmp_path, content, words):
    for path, written in ((tmp_path / "x.mat", content), (tmp_path / "x.mat.gz", gzip.compress(content))):
        path.write_bytes(written)
        message = input_error(read, path)
        assert message.startswith(str(path))
        assert words in message


@settings(deadline=None)
@given(
    flips=st.dictionaries(st.integers(0, 23), st.integers(1, 255), max_size=2),
    cut=st.integers(0, len(DAT)) | st.just(len(DAT)),
    tail=st.binary(max_size=2),
)
def test_images_are_the_right_ones_or_an_input_error(tmp_path_factory, flips, cut, tail):
    content = bytearray(DAT)
    for position, flip in flips.items():
        content[position] ^= flip
    content = bytes(content[:cut]) + tail
    path = tmp_path_factory.getbasetemp() / "damaged.mat"
    path.write_bytes(content)
    if content == DAT:
        np.testing.assert_array_equal(norb.read_left(path), pairs(32)[:, :1])
    elif content[:24] != DAT[:24] or len(content) != len(DAT):
        assert str(path) in input_error(norb.read_left, path)


@settings(deadline=None)
@given(
    flips=st.dictionaries(st.integers(0, len(CAT) - 1), st.integers(1, 255), max_size=2),
    cut=st.integers(0, len(CAT)),
)
def test_labels_are_0_to_4_or_an_input_error(tmp_path_factory, flips, cut):
    for length in (cut, len(CAT)):
        content = bytearray(CAT)
        for position, flip in flips.items():
            content[position] ^= flip
        path = tmp_path_factory.getbasetemp() / "damaged-cat.mat"
        path.write_bytes(bytes(content[:length]))
        with suppress(InputError):
            y = norb.read_classes(path)
            assert (y.shape, y.min() >= 0, y.max() <= 4) == ((ROWS,), True, True)


PACKED = gzip.compress(DAT)


@settings(deadline=None)
@given(cut=st.integers(0, len(PACKED)), position=st.integers(0, len(PACKED) - 1), flip=st.integers(0, 255))
def test_a_damaged_gzip_gives_the_right_images_or_an_input_error(tmp_path_factory, cut, position, flip):
    content = bytearray(PACKED)
    content[position] ^= flip
    path = tmp_path_factory.getbasetemp() / "damaged.mat.gz"
    for length in (cut, len(PACKED)):
        path.write_bytes(bytes(content[:length]))
        with suppress(InputError):
            np.testing.assert_array_equal(norb.read_left(path), pairs(32)[:, :1])
