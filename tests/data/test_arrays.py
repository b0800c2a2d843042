"""Users' arrays, lists and data frames: their values, what is missing, and filled copies."""

import numpy as np
import pandas as pd
import pytest

from mmdgm.data.arrays import (
    as_array,
    categorical_columns,
    columns_of,
    first_row_without_values,
    has_categories,
    missing_entries,
    restore,
)

NAN = np.nan


def test_numbers_stay_numbers_beside_text():
    array = as_array([[1.5, "a"], [2, "b"]])
    assert array.dtype == object
    assert array.tolist() == [[1.5, "a"], [2, "b"]]


@pytest.mark.parametrize("kind", ["U", "S"])
def test_text_is_read_as_the_cells_of_a_sheet(kind):
    cells = np.array([["1", "a", "2"], ["", "", " 4e1 "], ["3", "b", "-1"]], kind)
    array = as_array(cells)
    assert array[:, 1].tolist() == ["a", None, "b"]
    np.testing.assert_array_equal(array[:, [0, 2]].astype(float), [[1, 2], [NAN, 40], [3, -1]])
    numbers = as_array(cells[:, [0, 2]])
    assert numbers.dtype == np.float64
    np.testing.assert_array_equal(numbers, [[1, 2], [NAN, 40], [3, -1]])


def test_columns_that_are_known_keep_their_kind():
    cells = np.array([["1", "2"], ["x", "3"]])
    assert as_array(cells, [True, False]).tolist() == [[1.0, "2"], ["x", "3"]]  # x is refused later, by name
    assert as_array(cells).tolist() == [["1", 2.0], ["x", 3.0]]


def test_other_arrays_and_data_frames_stay_as_they_are():
    x, frame = np.ones((2, 3), np.int16), pd.DataFrame({"a": [1]})
    assert as_array(x) is x
    assert as_array(frame) is frame
    assert as_array([[1, 2]]).tolist() == [[1, 2]]


FRAME = pd.DataFrame(
    {
        "number": [1.5, NAN, 2.0],
        "whole": pd.array([1, None, 3], "Int64"),
        "flag": pd.array([True, None, False], "boolean"),
        "text": ["a", None, "b"],
        "kind": pd.Categorical([7, None, 8]),
    }
)


def test_columns_of_a_data_frame():
    number, whole, flag, text, kind = columns_of(FRAME)
    for column, expected in ((number, [1.5, NAN, 2]), (whole, [1, NAN, 3]), (flag, [1, NAN, 0])):
        assert column.dtype == np.float64
        np.testing.assert_array_equal(column, expected)
    assert text.tolist() == ["a", None, "b"]
    assert kind.tolist() == [7, None, 8]
    assert categorical_columns(FRAME) == [4]
    assert categorical_columns(np.ones((2, 2))) == []


def test_columns_of_an_array():
    assert [column.tolist() for column in columns_of(np.array([[1, 2], [3, 4]]))] == [[1, 3], [2, 4]]


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (FRAME, True),
        (FRAME[["number", "whole"]], False),
        (np.array([[1.0, "a"]], object), True),
        (np.array([[1.0, None]], object), False),
        (np.ones((2, 2)), False),
    ],
)
def test_whether_there_are_categories(x, expected):
    assert has_categories(x) is expected


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (np.array([[1.0, NAN], [NAN, 2.0]]), [[False, True], [True, False]]),
        (np.array([["a", None], [NAN, 2.0]], object), [[False, True], [True, False]]),
        (np.array([[1, 2]]), [[False, False]]),
        (FRAME[["whole", "text"]], [[False, False], [True, True], [False, False]]),
        (np.array([[[1.0], [NAN]]]), [[[False], [True]]]),
    ],
)
def test_what_is_missing(x, expected):
    assert missing_entries(x).tolist() == expected


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(2, 6), (2, 2, 3), (2, 2, 3, 1)])
def test_filled_copies_keep_observed_values_to_the_bit(dtype, shape):
    x = np.array([[0, 17, 255, NAN, 3, 256], [NAN, NAN, 1.3, 2, 100, 64]], dtype).reshape(shape)
    filled = restore(x, np.full(shape, 0.25), missing_entries(x))
    assert (filled.dtype, filled.shape) == (dtype, shape)
    holes = np.isnan(x)
    assert filled[~holes].tobytes() == x[~holes].tobytes()
    assert filled[holes].tolist() == [0.25] * 3
    assert holes.sum() == 3  # the user's array is not written to


def test_whole_numbers_come_back_exactly():
    x = np.array([[2**53 + 1, 3]])
    filled = restore(x, np.zeros((1, 2)), missing_entries(x))
    assert filled.dtype == x.dtype
    assert filled.tolist() == [[2**53 + 1, 3]]


def test_filled_data_frames_keep_their_columns():
    decoded = np.array([[9, 9, 9, "z", 9], [0.5, 2.0, 1.0, "c", 8], [9, 9, 9, "z", 9]], object)
    filled = restore(FRAME, decoded, missing_entries(FRAME))
    assert filled["number"].tolist() == [1.5, 0.5, 2.0]
    assert filled["whole"].tolist() == [1, 2, 3]
    assert filled["flag"].tolist() == [True, True, False]
    assert filled["text"].tolist() == ["a", "c", "b"]
    assert filled["kind"].tolist() == [7, 8, 8]
    assert (filled.dtypes == FRAME.dtypes).all()
    assert FRAME.isna().to_numpy().sum() == 5


def test_whole_numbers_that_get_fractions_become_floating():
    frame = FRAME[["whole"]]
    filled = restore(frame, np.array([[0.0], [2.5], [0.0]]), missing_entries(frame))["whole"]
    assert (filled.dtype, filled.tolist()) == ("Float64", [1, 2.5, 3])


def test_a_row_without_values_is_found():
    x = np.ones((4, 2, 1, 1), np.float32)
    assert first_row_without_values(x) is None
    x[2:, 0] = NAN
    assert first_row_without_values(x) is None
    x[2:] = NAN
    assert first_row_without_values(x) == 2
