"""Charts: what is drawn is what was given; axes can be the caller's own."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from mmdgm.report import charts


def test_curves_are_the_values_and_long_ones_are_thinned():
    steps = list(range(10_000))
    axes = charts.curves({"one": (steps, [2.0 * s for s in steps]), "two": ([0, 9], [1.0, 5.0])}, title="loss")
    long, short = axes.get_lines()
    assert (long.get_label(), axes.get_title(loc="left")) == ("one", "loss")
    x, y = long.get_data()
    assert len(x) == charts.POINTS
    assert (x[0], x[-1]) == (0, 9999)
    np.testing.assert_array_equal(y, 2 * np.asarray(x))
    np.testing.assert_array_equal(short.get_ydata(), [1, 5])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two"]


def test_the_first_steps_do_not_hide_the_rest():
    axes = charts.curves({"loss": (list(range(100)), [1000.0] * 5 + [1.0, 2.0] * 47 + [1.0])}, title="loss")
    assert axes.get_ylim() == pytest.approx((0.95, 2.05))


def test_limits_of_constant_values_and_of_nothing():
    assert charts.limits(np.array([4.0, 4.0, np.nan])) == pytest.approx((3.6, 4.4))
    low, high = charts.limits(np.array([np.nan, np.inf]))
    assert low < high


def test_rounds_show_the_errors_and_a_level():
    axes = charts.rounds({0: 0.3, 1: 0.2, 20: 0.1}, {"posterior mean": 0.05})
    found = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
    np.testing.assert_array_equal(found["after each round"], [0.3, 0.2, 0.1])
    np.testing.assert_array_equal(found["posterior mean"], [0.05, 0.05])
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] > 0.3


def test_principal_components_of_a_line():
    along = np.array([1.0, -2.0, 2.0]) / 3
    points, shares = charts.principal_components(np.arange(5)[:, None] * along + 7)
    np.testing.assert_allclose(np.abs(points[:, 0]), [2, 1, 0, 1, 2], atol=1e-12)
    np.testing.assert_allclose(points[:, 1], 0, atol=1e-12)
    np.testing.assert_allclose(shares, [1, 0], atol=1e-12)


def test_principal_components_of_one_column_and_of_equal_rows():
    points, shares = charts.principal_components(np.ones((4, 1)))
    assert points.shape == (4, 2)
    assert not points.any()
    assert not shares.any()


def test_classes_are_drawn_into_given_axes():
    own = Figure().subplots()
    points, codes = np.arange(8.0).reshape(4, 2), np.array([0, 2, 0, 2])
    assert charts.embedding(points, codes, ["a", "b", "c"], axes=own) is own
    found = {line.get_label(): np.column_stack(line.get_data()).tolist() for line in own.get_lines()}
    assert found == {"a": [[0, 1], [4, 5]], "c": [[2, 3], [6, 7]]}
    styles = {(line.get_color(), line.get_marker()) for line in own.get_lines()}
    assert len(styles) == 2
