"""npz files in and out: what is accepted, and that nothing in them is executed."""

import numpy as np
import pytest

from mmdgm.data.npz import checked_values, read_npz, read_only_array, save_arrays
from small_datasets import input_error

VALUES = np.array([[0, 17, 255, np.nan, 3, 256], [np.nan, np.nan, 1.3, 2, 100, 64]])


@pytest.fixture(name="write")
def make_write(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "own.npz", **arrays)
        return tmp_path / "own.npz"

    return write


def refusal(path, read=read_only_array):
    message = input_error(read, path)
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


def test_the_only_array_may_have_any_name_and_x_may_have_company(write):
    np.testing.assert_array_equal(read_only_array(write(images=VALUES)), VALUES)
    np.testing.assert_array_equal(read_only_array(write(a=np.zeros(3), x=VALUES)), VALUES)


def test_without_x_several_arrays_or_none_are_refused(write):
    assert "a, b" in refusal(write(a=VALUES, b=VALUES))
    assert "no array" in refusal(write())


def test_a_missing_file_is_refused(tmp_path):
    assert "missing" in refusal(tmp_path / "absent.npz")


@pytest.mark.parametrize(
    "damage",
    [lambda content: b"", lambda content: b"no arrays here", lambda content: content[: len(content) // 2]],
    ids=["empty", "text", "truncated"],
)
def test_what_is_no_npz_file_is_refused(write, damage):
    path = write(x=VALUES)
    path.write_bytes(damage(path.read_bytes()))
    message = refusal(path)
    assert "npz" in message
    assert "unsafe" not in message  # NumPy's advice for text is to unpickle it


def test_a_damaged_array_is_refused(write):
    path = write(x=np.arange(1000))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1  # a value: the checksum of the zip file does not hold
    path.write_bytes(bytes(content))
    assert "npz" in refusal(path)


def test_an_npy_file_is_refused_with_the_way_to_make_an_npz_file(tmp_path):
    np.save(tmp_path / "own.npy", VALUES)
    assert "numpy.savez" in refusal(tmp_path / "own.npy")


def test_pickled_objects_are_not_loaded(write):
    assert "x.astype(float)" in refusal(write(x=np.array([[None] * 6], object)))
    assert "y.astype(str)" in refusal(write(x=VALUES, y=np.array(["a", "b"], object)))


def test_saved_arrays_are_read_again(tmp_path):
    path = tmp_path / "new" / "own.npz"
    save_arrays(path, {"x": VALUES, "missing": np.isnan(VALUES)})
    arrays = read_npz(path)
    assert list(arrays) == ["x", "missing"]
    np.testing.assert_array_equal(arrays["x"], VALUES)
    np.testing.assert_array_equal(arrays["missing"], np.isnan(VALUES))


@pytest.mark.parametrize(
    ("dtype", "shape", "becomes"),
    [
        (np.uint8, (2, 3, 4), np.uint8),  # images of bytes stay
        (np.uint8, (2, 3, 4, 3), np.uint8),
        (np.uint8, (2, 3), np.float64),
        (np.int64, (2, 3, 4), np.float64),
        (np.uint16, (2, 3), np.float64),
        (np.float16, (2, 3), np.float32),
        (np.float32, (2, 3, 4), np.float32),
        (np.float64, (2, 3), np.float64),
        (bool, (2, 3), np.float32),
    ],
)
def test_values_are_those_in_the_file_as_bytes_or_floats(tmp_path, dtype, shape, becomes):
    x = np.random.default_rng(0).integers(0, 2 if dtype is bool else 200, shape).astype(dtype)
    found = checked_values(tmp_path, x)
    assert found.dtype == becomes
    np.testing.assert_array_equal(found, x)


def test_large_whole_numbers_stay_exact(tmp_path):
    assert checked_values(tmp_path, np.array([[2**24 + 1, 2**52 + 1]])).tolist() == [[2**24 + 1, 2**52 + 1]]


@pytest.mark.parametrize(
    ("x", "word"),
    [
        (np.float64(3), "()"),
        (np.zeros(6), "(6,)"),
        (np.zeros((2, 2, 2, 2, 2)), "(2, 2, 2, 2, 2)"),
        (np.zeros((0, 6)), "(0, 6)"),
        (np.zeros((6, 0)), "(6, 0)"),
        (np.array([list("abcdef")]), "<U1"),
        (np.ones((1, 6), complex), "complex128"),
        (np.array([[1.0, np.inf]]), "infinite"),
        (np.array([[1.0, -np.inf]]), "infinite"),
    ],
)
def test_what_is_no_array_of_rows_is_refused(tmp_path, x, word):
    assert word in refusal(tmp_path / "own.npz", lambda path: checked_values(path, np.asarray(x)))
