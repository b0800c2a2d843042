"""The benchmark of costs: what the methods are given, and the table of its results."""

import numpy as np
import pytest

from benchmarks.costs import METHODS, TASKS, markdown, parameters


def test_methods_get_costs_relative_to_their_mean():
    cost = np.array([[0.0, 10.0], [1.0, 0.0]])
    assert parameters("default", cost) == {}
    np.testing.assert_allclose(parameters("cost_matrix", cost)["cost_matrix"], cost / 5.5)
    assert parameters("class_weight", cost)["class_weight"] == pytest.approx({0: 10 / 5.5, 1: 1 / 5.5})


def test_tasks_have_a_cost_for_every_error():
    for make in TASKS.values():
        task = make()
        classes = len(np.unique(task.y))
        assert ((task.cost > 0) == ~np.eye(classes, dtype=bool)).all()
    assert np.bincount(TASKS["diabetes"]().y).tolist() == [87, 89, 88, 88, 90]


def test_the_table_shows_differences_to_the_default():
    cells = {
        f"t/m/{method}/{seed}": {"cost": 2.0 - i * (1 + seed), "error_percent": 10.0 + i}
        for i, method in enumerate(METHODS)
        for seed in (0, 1)
    }
    assert markdown(cells).splitlines()[2] == (
        "| t, 2 draws | `m` | 2.000 | 0.500 (−1.500 ± 0.500) | −1.000 (−3.000 ± 1.000) | 10.0 | 11.0 | 12.0 |"
    )
