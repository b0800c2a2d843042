"""The benchmark of rows to label: what strategies are asked for, and the table of its results."""

import numpy as np

from benchmarks.few_labels import STEPS, TASKS, asked, markdown, propagated_error


def test_a_strategy_gets_the_labels_so_far_and_adds_to_them():
    task = TASKS["wine"](0, None)
    for strategy in ("random", "suggested"):
        before, recorded = np.full(len(task.y), -1), {}
        for n, rows, y in asked(task, strategy, seed=0, recorded={}):
            recorded[n] = rows.tolist()
            assert (y >= 0).sum() == n
            assert (y[before >= 0] == before[before >= 0]).all()
            assert (y[y >= 0] == task.y[y >= 0]).all()
            before = y
        assert n == STEPS[-1]
        *_, (_, _, again) = asked(task, "none is called", seed=0, recorded=recorded)
        np.testing.assert_array_equal(again, y)
        assert propagated_error(task, y) < 20


def test_a_draw_splits_the_rows():
    task = TASKS["digits"](1, None)
    assert (task.x.shape, task.x_test.shape) == ((1258, 8, 8), (539, 8, 8))
    assert task.points().shape == (1258, 64)
    first, second = TASKS["digits"](1, None), TASKS["digits"](2, None)
    assert (first.y == task.y).all()
    assert not np.array_equal(second.y, task.y)


def test_the_table_shows_mean_and_standard_error():
    cells = {f"wine/random/{n}/{seed}": {"propagated": float(n + 2 * seed)} for n in STEPS for seed in (0, 1)}
    assert markdown(cells).splitlines()[2:] == [
        "| wine | random | 11.0 ± 1.0 | 21.0 ± 1.0 | 31.0 ± 1.0 | 51.0 ± 1.0 | 101.0 ± 1.0 |"
    ]
