"""First values for missing entries against neighbours found by hand."""

import numpy as np
import pytest

from mmdgm.data import fills
from mmdgm.data.fills import column_means, fill_from_neighbours, takes_long

NAN = np.nan


def test_column_means_are_those_of_the_observed_values():
    x = np.array([[1, NAN, NAN], [3, 5, NAN], [5, 6, NAN]], np.float32).reshape(3, 3, 1, 1)
    means = column_means(x)
    assert (means.shape, means.dtype) == ((3, 1, 1), np.float32)
    assert means.ravel().tolist() == [3, 5.5, 0]  # nothing observed: 0


def by_hand(x, neighbours):
    """Means of the nearest rows that have the value, weighted by 1/distance over the columns that both have."""
    filled = x.copy()
    for i, j in np.argwhere(np.isnan(x)):
        near = []
        for other in range(len(x)):
            both = ~np.isnan(x[i]) & ~np.isnan(x[other])
            if other != i and both.any() and not np.isnan(x[other, j]):
                distance = np.sqrt(x.shape[1] / both.sum() * ((x[i, both] - x[other, both]) ** 2).sum())
                near.append((distance, x[other, j]))
        near = sorted(near)[:neighbours]
        filled[i, j] = np.average([value for _, value in near], weights=[1 / distance for distance, _ in near])
    return filled


def test_neighbours_fill_what_is_missing():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 6)).astype(np.float32)
    x[rng.random(x.shape) < 0.2] = NAN
    filled = fill_from_neighbours(x.reshape(30, 2, 3, 1), np.full((2, 3, 1), 99, np.float32))
    assert (filled.shape, filled.dtype) == ((30, 2, 3, 1), np.float32)
    np.testing.assert_allclose(filled.reshape(30, 6), by_hand(x, 10), rtol=1e-4, atol=1e-5)
    observed = ~np.isnan(x)
    np.testing.assert_array_equal(filled.reshape(30, 6)[observed], x[observed])


def test_a_whole_array_stays_itself():
    x = np.ones((3, 2), np.float32)
    assert fill_from_neighbours(x, np.zeros(2, np.float32)) is x


@pytest.mark.parametrize("why", ["rows", "column"])
def test_where_neighbours_cannot_tell_the_fill_does(monkeypatch, why):
    x = np.array([[1, NAN, 3], [NAN, NAN, 6], [7, 8 if why == "rows" else NAN, 9]], np.float32)
    if why == "rows":
        monkeypatch.setattr(fills, "ROWS", 2)
    filled = fill_from_neighbours(x, np.array([10, 20, 30], np.float32))
    np.testing.assert_array_equal(filled, np.where(np.isnan(x), [10, 20, 30], x))
    monkeypatch.setattr(fills, "LONG", 0)
    assert not takes_long(x)  # nothing is asked of neighbours


def test_what_takes_long_is_known_before(monkeypatch):
    x = np.array([[1, NAN], [NAN, 4], [5, 6]], np.float32)
    assert not takes_long(x)
    for long, told in ((5, True), (6, False)):  # two missing values times three rows
        monkeypatch.setattr(fills, "LONG", long)
        assert takes_long(x) == told
