"""Rect against hand-counted rows and columns; Rand-Drop's rate and determinism."""

import numpy as np
import pytest

from mmdgm.data.masks import rand_drop, rect
from mmdgm.errors import InputError


@pytest.mark.parametrize(
    ("shape", "size", "rows", "columns"),
    [
        ((2, 1, 28, 28), (12, 12), range(8, 20), range(8, 20)),  # 8 pixels on every side
        ((28, 28), (28, 4), range(28), range(12, 16)),
        ((3, 7, 6), (3, 2), range(2, 5), range(2, 4)),
        ((1, 1, 7, 5), (2, 2), range(2, 4), range(1, 3)),  # no centre: the spare pixel is below and right
        ((1, 4, 4), (0, 3), range(0), range(3)),
    ],
)
def test_rect_is_centred(shape, size, rows, columns):
    expected = np.zeros(shape, bool)
    for row in rows:
        for column in columns:
            expected[..., row, column] = True
    missing = rect(shape, *size)
    assert missing.dtype == bool
    np.testing.assert_array_equal(missing, expected)


@pytest.mark.parametrize("size", [(29, 12), (12, 29), (-1, 12), (12, -1)])
def test_a_rect_that_does_not_fit_is_refused(size):
    with pytest.raises(InputError, match=rf"Rect\({size[0]}, {size[1]}\).*28×28"):
        rect((5, 1, 28, 28), *size)


@pytest.mark.parametrize("p", [0.2, 0.6, 0.8])
def test_rand_drop_misses_each_entry_independently_at_its_rate(p):
    missing = rand_drop((100, 1, 28, 28), p, seed=0)
    assert missing.shape == (100, 1, 28, 28)
    assert missing.dtype == bool
    tolerance = 5 * (p * (1 - p) / missing.size) ** 0.5
    assert missing.mean() == pytest.approx(p, abs=tolerance)
    neighbours = missing[..., 1:] & missing[..., :-1]
    assert neighbours.mean() == pytest.approx(p * p, abs=3 * tolerance)


@pytest.mark.parametrize("p", [0, 1])
def test_rand_drop_of_none_and_of_all(p):
    assert (rand_drop((10, 50), p, seed=0) == bool(p)).all()


def test_rand_drop_is_a_function_of_the_seed():
    first, again, other = (rand_drop((10, 50), 0.5, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_rand_drop_of_no_probability_is_refused(p):
    with pytest.raises(InputError, match="between 0 and 1"):
        rand_drop((2, 2), p, seed=0)
