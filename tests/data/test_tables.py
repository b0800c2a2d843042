"""Tables: kinds of columns, and the way to networks' numbers and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mmdgm.data.tables import BULK, Table, learn_column, share_scale, squash, unsquash
from mmdgm.errors import InputError


@given(arrays(np.float64, 20, elements=st.floats(-1e12, 1e12)))
def test_squash_is_the_identity_in_the_bulk_and_has_an_inverse(x):
    seen = squash(x)
    inside = np.abs(x) <= BULK
    np.testing.assert_array_equal(seen[inside], x[inside])
    np.testing.assert_allclose(unsquash(seen), x, rtol=1e-9)
    assert (np.abs(seen) <= BULK + np.log1p(1e12)).all()


def test_kinds_of_columns():
    columns = [
        np.array([1.0, 2.0, 3.0, np.nan]),
        np.array([2.0, 7.0, 2.0, np.nan]),
        np.array(["b", "a", None, "b"], object),
        np.array([5.0, 5.0, 5.0, np.nan]),
    ]
    table = Table.learn(columns, ["number", "binary", "category", "constant"])
    assert [column.kind for column in table.columns] == ["number", "binary", "category", "number"]
    seen = table.encode(columns)
    std = np.std([1, 2, 3])
    expected = [
        [-1 / std, 0, 0, 1, 0],
        [0, 1, 1, 0, 0],
        [1 / std, 0, np.nan, np.nan, 0],
        [np.nan, np.nan, 0, 1, np.nan],
    ]
    np.testing.assert_allclose(seen, expected, rtol=1e-6)
    back = table.decode(np.nan_to_num(seen))
    np.testing.assert_allclose(back[0][:3].astype(float), [1, 2, 3], rtol=1e-6)
    assert back[1][:3].tolist() == [2.0, 7.0, 2.0]
    assert back[2][[0, 1, 3]].tolist() == ["b", "a", "b"]
    assert back[3].tolist() == [5.0] * 4
    again = Table.from_json(table.to_json())
    np.testing.assert_array_equal(again.encode(columns), seen)


@pytest.mark.parametrize(
    ("values", "decimals"),
    [
        ([3.0, -1.0, 7.0], 0),
        ([0.07, 1.5, 2.0], 2),
        ([0.1, 1234567.89, 3.0], 2),
        (np.float32([0.07, 1.5, 2.0]), 2),
        ([1e300, 2e300, 4e300], 0),
        ([1 / 3, 0.5, 2.0], None),
        ([1e-7, 2e-7, 4e-7], None),
    ],
)
def test_decimals_are_those_of_all_observed_values(values, decimals):
    column = learn_column("c", np.array([*np.asarray(values, float), np.nan]))
    assert column.decimals == decimals
    assert column.ends == (min(map(float, values)), max(map(float, values)))


def test_decoded_numbers_are_rounded_and_in_range_unless_exact():
    column = learn_column("age", np.array([20.0, 31.0, 44.0, 67.0]))
    seen = ((np.array([[31.4], [-5.0], [1e6]]) - column.centre) / column.scale).clip(-4, 4).astype(np.float32)
    assert column.decode(seen).tolist() == [31.0, 20.0, 67.0]
    exact = column.decode(seen, exact=True)
    assert exact[0] == pytest.approx(31.4, rel=1e-6)
    assert exact[1] < 20
    assert exact[2] > 67


def test_a_column_that_does_not_know_its_ends_keeps_its_numbers():
    """As in files of earlier versions."""
    column = Table.from_json([{"name": "c", "kind": "number", "centre": 1.0, "values": []}]).columns[0]
    assert column.decode(np.array([[0.25]], np.float32)).tolist() == [1.25]


def test_a_new_category_is_missing():
    column = learn_column("c", np.array(["a", "b"], object))
    assert np.isnan(column.encode(np.array(["z"], object))).all()


def test_huge_and_tiny_numbers_do_not_overflow():
    for size in (1e300, 1e-300):
        column = learn_column("c", np.array([1.0, 2.0, 4.0]) * size)
        np.testing.assert_allclose(
            column.decode(column.encode(np.array([1.0, 2.0, 4.0]) * size)),
            np.array([1.0, 2.0, 4.0]) * size,
            rtol=1e-6,
        )


def test_a_column_without_values_is_named():
    with pytest.raises(InputError, match=r"\bage\b"):
        learn_column("age", np.full(3, np.nan))


def learned(columns):
    return list(Table.learn(list(columns), [str(i) for i in range(len(columns))]).columns)


def test_columns_of_one_quantity_share_a_scale():
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (9, 200)).astype(float)
    pixels[0] = np.where(rng.random(200) < 0.02, 30.0 + rng.random(200), 0.0)  # a pixel at the border
    columns = learned(pixels)
    assert len({column.scale for column in columns}) == 1
    assert columns[0].scale == pytest.approx(np.sqrt(pixels.var(axis=1).mean()))
    assert columns[0].centre == pytest.approx(pixels[0].mean())
    for column, values in zip(columns, pixels, strict=True):
        np.testing.assert_allclose(column.decode(column.encode(values)), values, atol=1e-4)
        seen = column.encode(values)
        np.testing.assert_allclose([column.low, column.high], [seen.min(), seen.max()], rtol=1e-5, atol=1e-6)


def test_columns_of_several_quantities_keep_their_own():
    rng = np.random.default_rng(0)
    wild = rng.random((9, 200)) * 10.0 ** np.arange(9)[:, None]
    shifted = rng.random((9, 200)) + np.arange(9)[:, None]
    few = rng.random((7, 200))
    for table in (wild, shifted, few):
        assert [column.scale for column in learned(table)] == pytest.approx(table.std(axis=1))


def test_a_shared_scale_of_huge_numbers_does_not_overflow():
    columns = [learn_column(str(i), np.array([0.0, 1.0, 2.0, i / 8]) * 1e300) for i in range(8)]
    assert np.isfinite(share_scale(columns)[0].scale)
