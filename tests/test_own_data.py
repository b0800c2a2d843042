"""Users' arrays: what is accepted, what each refusal says, and that observed values come back untouched."""

import numpy as np
import pytest

from mmdgm.data.npz import read_values, save_arrays
from mmdgm.errors import InputError

SHAPE = (1, 2, 3)
VALUES = np.array([[0, 17, 255, np.nan, 3, 256], [np.nan, np.nan, 1.3, 2, 100, 64]])


@pytest.fixture
def write(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "own.npz", **arrays)
        return tmp_path / "own.npz"

    return write


def refusal(path, *, shape=SHAPE, scale=256.0):
    with pytest.raises(InputError) as caught:
        read_values(path, shape, scale)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path)).removeprefix(": ")


@pytest.mark.parametrize("form", [(2, 1, 2, 3), (2, 2, 3), (2, 6)])
def test_accepted_shapes_give_the_same_images(write, form):
    values = read_values(write(x=VALUES.reshape(form)), SHAPE, 256.0)
    assert values.unit.shape == (2, 1, 2, 3)
    assert values.unit.dtype == np.float32
    np.testing.assert_array_equal(values.unit, (VALUES / 256).astype(np.float32).reshape(2, 1, 2, 3))
    assert values.original.shape == form


def test_images_of_several_channels_have_no_short_form(write):
    x = np.full((2, 3, 2, 2), 9.0)
    assert read_values(write(x=x), (3, 2, 2), 256.0).unit.shape == (2, 3, 2, 2)
    assert read_values(write(x=x.reshape(2, 12)), (3, 2, 2), 256.0).unit.shape == (2, 3, 2, 2)
    assert refusal(write(x=x[:, 0]), shape=(3, 2, 2)) == (
        "x has the shape (2, 2, 2), but the model takes (rows, 3, 2, 2), (rows, 12)"
    )


def test_the_only_array_may_have_any_name_and_x_may_have_company(write):
    assert read_values(write(images=VALUES), SHAPE, 256.0).original.shape == (2, 6)
    x = read_values(write(a=np.zeros(3), x=VALUES), SHAPE, 256.0).original
    np.testing.assert_array_equal(x, VALUES)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("form", [(2, 1, 2, 3), (2, 2, 3), (2, 6)])
def test_restore_fills_holes_and_keeps_observed_values_to_the_bit(write, dtype, form):
    x = VALUES.astype(dtype).reshape(form)
    values = read_values(write(x=x), SHAPE, 256.0)
    filled = np.where(np.isnan(values.unit), np.float32(0.25), 0)  # an imputation that forgets what it saw
    restored = values.restore(filled)
    assert (restored.dtype, restored.shape) == (dtype, form)
    holes = np.isnan(x)
    assert restored[~holes].tobytes() == x[~holes].tobytes()
    assert restored[holes].tolist() == [64.0] * 3
    assert np.isnan(values.original).sum() == 3  # the user's array is not written to


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_whole_numbers_come_back_as_they_were(write, dtype):
    x = np.array([[0, 1, 2, 3, 4, 255]], dtype)
    values = read_values(write(x=x), SHAPE, 256.0)
    assert values.unit.ravel().tolist() == (x[0] / 256).tolist()
    restored = values.restore(values.unit)
    np.testing.assert_array_equal(restored, x)
    assert restored.dtype == dtype


def test_large_whole_numbers_come_back_exactly(write):
    x = np.array([[2**24 + 1, 0, 0, 0, 0, 0]])
    values = read_values(write(x=x), SHAPE, 2.0**25)
    assert int(values.restore(values.unit)[0, 0]) == 2**24 + 1


@pytest.mark.parametrize("x", [np.full((1, 6), np.nan), np.zeros((1, 6)), np.zeros((1, 6), np.uint8)])
def test_all_missing_and_all_black_are_accepted(write, x):
    np.testing.assert_array_equal(read_values(write(x=x), SHAPE, 256.0).unit.ravel(), x[0])


def test_values_up_to_1_are_accepted_with_scale_1(write):
    x = np.array([[0, 0.5, 1, np.nan, 0.25, 0]])
    np.testing.assert_array_equal(read_values(write(x=x), SHAPE, 1.0).unit.ravel(), x[0])


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"a": VALUES, "b": VALUES}, "holds a, b; name the array with the rows x"),
        ({}, "holds no array; name the array with the rows x"),
        (
            {"x": np.zeros((2, 5))},
            "x has the shape (2, 5), but the model takes (rows, 1, 2, 3), (rows, 6), (rows, 2, 3)",
        ),
        (
            {"x": np.float64(3)},
            "x has the shape (), but the model takes (rows, 1, 2, 3), (rows, 6), (rows, 2, 3)",
        ),
        ({"x": np.zeros((0, 6))}, "x has no rows"),
        ({"x": np.array([list("abcdef")])}, "x holds <U1, but numbers are expected (NaN where missing)"),
        ({"x": np.ones((1, 6), bool)}, "x holds bool, but numbers are expected (NaN where missing)"),
        ({"x": np.ones((1, 6), complex)}, "x holds complex128, but numbers are expected (NaN where missing)"),
        (
            {"x": VALUES - 1},
            "values must be 0 or more and finite; NaN marks what is missing",
        ),
        (
            {"x": VALUES + 0.5},
            "values lie between 0.5 and 256.5, but 0 to 256 is expected; "
            "give the divisor that takes them into [0, 1] as --scale",
        ),
        (
            {"x": np.array([[0, np.inf, 0, 0, 0, 9]])},
            "values must be 0 or more and finite; NaN marks what is missing",
        ),
        (
            {"x": VALUES / 256},
            "no value is above 1, but 0 to 256 is expected; if they are scaled, give --scale 1",
        ),
    ],
)
def test_each_refusal_says_what_is_wrong(write, arrays, words):
    assert refusal(write(**arrays)) == words


def test_a_missing_file_is_refused(tmp_path):
    assert refusal(tmp_path / "absent.npz") == " is missing"


@pytest.mark.parametrize(
    "damage",
    [lambda content: b"", lambda content: b"no arrays here", lambda content: content[: len(content) // 2]],
    ids=["empty", "text", "truncated"],
)
def test_what_is_no_npz_file_is_refused(write, damage):
    path = write(x=VALUES)
    path.write_bytes(damage(path.read_bytes()))
    message = refusal(path)
    assert "npz file" in message
    assert "unsafe" not in message  # NumPy's advice for text is to unpickle it


def test_an_npy_file_is_refused_with_the_way_to_make_an_npz_file(tmp_path):
    np.save(tmp_path / "own.npy", VALUES)
    assert refusal(tmp_path / "own.npy") == "is no npz file; make one with numpy.savez(path, x=...)"


def test_pickled_objects_are_not_loaded(write):
    path = write(x=np.array([[None] * 6], object))
    assert refusal(path) == "x is an array of objects; save it as x.astype(float)"
    path = write(x=VALUES, y=np.array(["a", "b"], object))
    assert refusal(path) == "y is an array of objects; save it as y.astype(str)"


def test_saved_arrays_are_read_again(tmp_path):
    save_arrays(tmp_path / "new" / "own.npz", {"x": VALUES, "missing": np.isnan(VALUES)})
    np.testing.assert_array_equal(read_values(tmp_path / "new" / "own.npz", SHAPE, 256.0).original, VALUES)
    with np.load(tmp_path / "new" / "own.npz") as archive:
        np.testing.assert_array_equal(archive["missing"], np.isnan(VALUES))
