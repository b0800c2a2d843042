"""MATLAB files written by SciPy and by MATLAB itself, whole and damaged everywhere."""

import struct
import warnings
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st

from mmdgm.data.datasets import mat, svhn
from mmdgm.errors import InputError
from small_datasets import input_error
from small_datasets import mat_file as packed
from small_datasets import svhn_images as images
from small_datasets import svhn_labels as labels

SHAPES = {"X": (32, 32, 3, 12), "y": (12, 1)}
ARRAYS = {"X": images("train"), "y": labels("train")}
PLAIN, PACKED = packed(ARRAYS), packed(ARRAYS, do_compression=True)
TAGS = range(128, 200)  # X's element up to its first values
Y_TAGS = range(len(PLAIN) - 72, len(PLAIN) - 16)  # y's up to its values


def test_other_variables_are_passed_over(tmp_path):
    path = tmp_path / "x.mat"
    others = {"name": "a text", "cells": np.array([1, "b"], object), "struct": {"a": 1}, "more": np.eye(30)}
    for compressed in (False, True):
        path.write_bytes(packed({**others, **ARRAYS}, do_compression=compressed))
        for name, array in mat.read_arrays(path, SHAPES).items():
            np.testing.assert_array_equal(array, ARRAYS[name])


@pytest.mark.parametrize("content", [PLAIN, PACKED], ids=["plain", "compressed"])
@pytest.mark.parametrize("portion", [1, 7, 1000, 36_864])
def test_the_arrays_do_not_depend_on_the_portions_that_are_read(tmp_path, monkeypatch, content, portion):
    monkeypatch.setattr(mat, "PORTION", portion)
    path = tmp_path / "x.mat"
    path.write_bytes(content)
    for name, array in mat.read_arrays(path, SHAPES).items():
        np.testing.assert_array_equal(array, ARRAYS[name])


MATLAB = Path(scipy.io.matlab.__file__).parent / "tests" / "data"
BY_MATLAB = [
    f"test{name}_{version}_GLNX86.mat"
    for name in ("double", "matrix", "3dmatrix", "minus", "multi")
    for version in ("6.5.1", "7.1", "7.4")
    if (name, version) != ("multi", "6.5.1")
]


@pytest.mark.parametrize("name", BY_MATLAB)
def test_files_written_by_matlab_are_read_as_scipy_reads_them(name):
    if not (MATLAB / name).is_file():
        pytest.skip("this SciPy comes without its test files")
    expected = {key: array for key, array in scipy.io.loadmat(MATLAB / name).items() if not key.startswith("__")}
    arrays = mat.read_arrays(MATLAB / name, {key: array.shape for key, array in expected.items()})
    assert set(arrays) == set(expected)
    for key, array in expected.items():
        np.testing.assert_array_equal(arrays[key], array)
        assert arrays[key].dtype == array.dtype


@pytest.mark.parametrize("path", sorted(MATLAB.glob("*.mat")), ids=lambda path: path.name)
def test_any_other_file_of_matlab_is_an_input_error(path):
    assert str(path) in input_error(mat.read_arrays, path, SHAPES)


def retyped(offset, content):
    """The plain file with bytes replaced from the offset on."""
    return PLAIN[:offset] + content + PLAIN[offset + len(content) :]


DAMAGE = {
    "empty": (b"", "its header is another"),
    "a text": (b"no arrays in here\n" * 20, "its header is another"),
    "a web page": (b"<!DOCTYPE html><title>404</title>", "its header is another"),
    "the header alone": (PLAIN[:128], "there is no array X"),
    "v7.3, HDF5": (PLAIN[:124] + b"\x00\x02IM" + bytes(384) + b"\x89HDF\r\n\x1a\n", "its header is another"),
    "big-endian": (PLAIN[:124] + b"\x01\x00MI" + PLAIN[128:], "its header is another"),
    "v4": (packed({"X": np.eye(2), "y": np.eye(2)}, format="4"), "its header is another"),
    "no X": (packed({"y": ARRAYS["y"]}), "there is no array X"),
    "no y": (packed({"X": ARRAYS["X"]}), "there is no array y"),
    "nothing after X": (PLAIN[:-72], "there is no array y"),
    "truncated X": (PLAIN[:9000], "it ends too early"),
    "truncated y": (PLAIN[:-20], "it ends too early"),
    "truncated, compressed": (PACKED[:9000], "it ends too early"),
    "a row too many": (packed({**ARRAYS, "X": images("extra")}), "X is 32×32×3×13 instead of 32×32×3×12"),
    "a label too few": (packed({**ARRAYS, "y": labels("test")}), "y is 11×1 instead of 12×1"),
    "a row of labels": (packed({**ARRAYS, "y": labels("train").T}), "y is 1×12 instead of 12×1"),
    "grey": (packed({**ARRAYS, "X": images("train")[:, :, 0]}), "X is 32×32×12 instead of 32×32×3×12"),
    "floating images": (packed({**ARRAYS, "X": images("train") / 255}), "X is float64"),
    "wide images": (packed({**ARRAYS, "X": images("train").astype(np.uint16)}), "X is uint16"),
    "images in words": (packed({**ARRAYS, "X": "a text"}), "X does not hold real numbers"),
    "images in cells": (packed({**ARRAYS, "X": np.array([1, "b"], object)}), "X does not hold real numbers"),
    "complex labels": (packed({**ARRAYS, "y": labels("train") + 1j}), "y does not hold real numbers"),
    "logical labels": (packed({**ARRAYS, "y": labels("train") > 3}), "y does not hold real numbers"),
    "sparse labels": (
        packed({**ARRAYS, "y": scipy.sparse.csc_array(labels("train"))}),
        "does not hold real numbers",
    ),
    "label 11": (packed({**ARRAYS, "y": labels("train") + 1}), "y holds other labels"),
    "label 0": (packed({**ARRAYS, "y": labels("train") - 1}), "y holds other labels"),
    "label 1.5": (packed({**ARRAYS, "y": labels("train") + 0.5}), "y holds other labels"),
    "label NaN": (packed({**ARRAYS, "y": labels("train") * np.nan}), "y holds other labels"),
    # the next three make SciPy 1.17 end the process
    "values of no known type": (retyped(184, b"\x00"), "X has values of the type 0"),
    "values of a far type": (retyped(185, b"\xff"), "X has values of the type 65282"),
    "class sparse": (retyped(144, b"\x05"), "X does not hold real numbers"),
    "element of no known type": (retyped(128, b"\x0d"), "an element has the type 13"),
    "element too long": (retyped(132, struct.pack("<I", 2**32 - 1)), "an array's length is wrong"),
    "values too long": (retyped(188, struct.pack("<I", 2**32 - 1)), "4294967295 bytes instead of 36864"),
    "sizes too long": (retyped(156, struct.pack("<I", 2**32 - 1)), "the length 4294967295"),
    "sizes of 3 bytes": (retyped(156, struct.pack("<I", 3)), "no whole MATLAB v5 file"),
    "name too long": (retyped(176, b"\x01\x00\x05\x00"), "5 bytes lie in 4"),
    "compressed text": (
        PLAIN[:128] + struct.pack("<2I", 15, 30) + zlib.compress(b"text" * 9),
        "the type 1954047348",
    ),
}


@pytest.mark.parametrize(("content", "words"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_an_input_error_that_names_the_file(tmp_path, content, words):
    path = tmp_path / "x.mat"
    path.write_bytes(content)
    message = input_error(svhn.read_svhn, path, 12)
    assert message.startswith(str(path))
    assert words in message


def test_a_checksum_that_does_not_hold_is_an_input_error(tmp_path):
    path = tmp_path / "x.mat"
    length = struct.unpack("<I", PACKED[132:136])[0]  # of X's zlib stream, which its checksum ends
    path.write_bytes(PACKED[: 136 + length - 4] + bytes(4) + PACKED[136 + length :])
    assert "incorrect data check" in input_error(svhn.read_svhn, path, 12)


def read_or_input_error(path, content):
    """Images and labels, or none after an InputError; any other exception is the test's failure."""
    path.write_bytes(content)
    with warnings.catch_warnings(), suppress(InputError):
        warnings.simplefilter("error")
        return svhn.read_svhn(path, 12)


def check_shape(x, y):
    assert (x.dtype, x.shape, y.dtype, y.shape) == (np.uint8, (12, 3, 32, 32), np.int64, (12,))
    assert set(y.tolist()) <= set(range(10))


@settings(deadline=None)
@given(
    flips=st.dictionaries(st.sampled_from([*range(124, 128), *TAGS, *Y_TAGS]), st.integers(1, 255), max_size=3),
    cut=st.integers(0, len(PLAIN)) | st.just(len(PLAIN)),
)
def test_a_damaged_plain_file_gives_arrays_of_the_right_shape_or_an_input_error(tmp_path_factory, flips, cut):
    """Values have no checksum, so a file damaged there alone gives what it holds."""
    content = bytearray(PLAIN)
    for position, flip in flips.items():
        content[position] ^= flip
    found = read_or_input_error(tmp_path_factory.getbasetemp() / "plain.mat", bytes(content[:cut]))
    if found is not None:
        check_shape(*found)
    if cut == len(PLAIN) and not flips:
        np.testing.assert_array_equal(found[0], np.moveaxis(ARRAYS["X"], (3, 2), (0, 1)))


@pytest.mark.parametrize("position", [*range(124, 128), *TAGS, *Y_TAGS])
def test_no_byte_of_a_tag_can_be_changed_unnoticed_into_another_array(tmp_path, position):
    for value in (0, 1, 2, 4, 5, 6, 9, 14, 15, 16, 127, 128, 255):
        content = PLAIN[:position] + bytes([value]) + PLAIN[position + 1 :]
        found = read_or_input_error(tmp_path / "x.mat", content)
        if found is not None and position < 192:
            check_shape(*found)
            np.testing.assert_array_equal(found[1], labels("train")[:, 0] % 10)
            np.testing.assert_array_equal(found[0], np.moveaxis(ARRAYS["X"], (3, 2), (0, 1)))


@settings(deadline=None)
@given(cut=st.integers(0, len(PACKED)), position=st.integers(128, len(PACKED) - 1), flip=st.integers(0, 255))
def test_a_damaged_compressed_file_gives_the_right_arrays_or_an_input_error(tmp_path_factory, cut, position, flip):
    content = bytearray(PACKED)
    content[position] ^= flip
    for cut_here in (cut, len(PACKED)):
        found = read_or_input_error(tmp_path_factory.getbasetemp() / "packed.mat", bytes(content[:cut_here]))
        if found is not None:
            np.testing.assert_array_equal(found[0], np.moveaxis(ARRAYS["X"], (3, 2), (0, 1)))
            np.testing.assert_array_equal(found[1], labels("train")[:, 0] % 10)


@settings(deadline=None)
@given(content=st.binary(max_size=300))
def test_bytes_after_a_header_never_make_arrays(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "noise.mat"
    assert read_or_input_error(path, PLAIN[:128] + content) is None
    assert read_or_input_error(path, content) is None
