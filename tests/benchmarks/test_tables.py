"""The benchmark of tables: tasks, encodings, methods, scores and ranks."""

import json

import numpy as np
import pandas as pd
import pytest

from benchmarks.tables import classifiers, measure
from benchmarks.tables.classifiers import CLASSIFIERS, FRAME, OURS, Method
from benchmarks.tables.encoding import Encoder
from benchmarks.tables.imputers import IMPUTERS
from benchmarks.tables.measure import Bench
from benchmarks.tables.scores import column_error, imputation_error, ranks, wins
from benchmarks.tables.tasks import Table, draw_task, read_table, table_names


def objects(values):
    return pd.Series(values, dtype=object)


def made_table(rows=300, seed=0):
    """Two columns that tell the class, and one of noise; every tenth colour is missing."""
    rng = np.random.default_rng(seed)
    y = np.arange(rows) % 3
    colour = np.array(["red", "green", "blue"], object)[y]
    colour[::10] = None
    columns = {"size": y + rng.normal(0, 0.3, rows), "colour": objects(colour), "noise": rng.normal(5, 2, rows)}
    return Table(pd.DataFrame(columns), y)


# --- tables and tasks ------------------------------------------------------------------------------------------


def test_a_folder_is_read_by_its_manifest(tmp_path):
    (tmp_path / "shop.csv").write_text('size,code,"kind, of it",class\n1.5,7,NA,yes\n,,"a, b",no\n2,10,,yes\n')
    types = {"size": "number", "code": "category", "kind, of it": "category"}
    (tmp_path / "manifest.json").write_text(json.dumps({"shop": {"target": "class", "types": types}}))
    assert table_names(tmp_path) == ["shop", "iris", "wine", "breast_cancer", "digits"]
    x, y = read_table("shop", tmp_path)
    assert y.tolist() == [1, 0, 1]
    assert x["size"].dtype == float
    assert x["size"].isna().tolist() == [False, True, False]
    assert x["code"].tolist() == ["7", None, "10"]
    assert x["kind, of it"].tolist() == ["NA", "a, b", None]
    assert x["code"].dtype == object


def test_a_table_of_scikit_learn_has_columns_of_numbers():
    x, y = read_table("digits", None)
    assert (x.shape, len(np.unique(y))) == ((1797, 64), 10)
    assert not x.isna().any(axis=None)


def test_a_task_splits_the_rows_by_class_and_hides_a_share_of_the_cells():
    table = made_table(1000)
    task = draw_task(table, missing=0.3, seed=1)
    assert (len(task.x), len(task.x_test)) == (700, 300)
    assert np.bincount(task.y_test).tolist() == [100, 100, 100]
    observed = np.asarray(task.complete_test.notna())
    assert 0.25 < task.hidden_test[observed].mean() < 0.33
    assert not task.hidden_test[~observed].any()
    for frame in (task.x, task.x_test):
        assert frame.notna().any(axis=1).all()
        assert 0.25 < frame[["size", "noise"]].isna().mean(axis=None) < 0.33
        assert [frame[name].dtype for name in frame] == [float, object, float]
    shown = ~task.hidden_test & observed
    assert (task.x_test.to_numpy()[shown] == task.complete_test.to_numpy()[shown]).all()
    again, other = draw_task(table, missing=0.3, seed=1), draw_task(table, missing=0.3, seed=2)
    pd.testing.assert_frame_equal(again.x, task.x)
    assert not other.x.equals(task.x)


def test_nothing_is_hidden_without_a_share():
    task = draw_task(made_table(), missing=0.0, seed=0)
    assert not task.hidden_test.any()
    assert task.x_test.equals(task.complete_test)


def test_large_tables_are_cut_and_tiny_classes_empty_rows_and_empty_columns_left_out():
    x, y = made_table(2500)
    x = x.assign(empty=np.nan)
    y = np.where(np.arange(len(y)) == 0, 3, y)
    assert len(np.unique(draw_task(Table(x, y), missing=0.0, seed=0).y)) == 3
    cut = draw_task(Table(x, y), missing=0.0, seed=0)
    assert 1999 <= len(cut.x) + len(cut.x_test) <= 2000
    assert list(cut.x) == list(cut.complete_test) == ["size", "colour", "noise"]
    few, y = made_table(60)
    few.iloc[:5] = [[np.nan, None, np.nan]] * 5
    task = draw_task(Table(few, y), missing=0.9, seed=0)
    assert len(task.x) + len(task.x_test) == 55
    assert task.x.notna().any(axis=1).all()


def test_labels_are_drawn_class_by_class_and_are_nested():
    x, y = made_table(300)
    kept = (y < 2) | (np.arange(300) < 50)  # 16 rows of the last class, 11 of them for training
    task = draw_task(Table(x[kept], y[kept]), missing=0.3, seed=4)
    assert np.bincount(task.y).tolist() == [70, 70, 11]
    few, many = task.labels(10), task.labels(50)
    for given in (few, many):
        assert (given[given >= 0] == task.y[given >= 0]).all()
    assert np.bincount(few[few >= 0]).tolist() == [10, 10, 5]
    assert np.bincount(many[many >= 0]).tolist() == [35, 35, 5]
    assert (many[few >= 0] == few[few >= 0]).all()


# --- nothing of the test rows is used -------------------------------------------------------------------------


def test_the_encoder_is_fitted_on_observed_training_cells():
    train = pd.DataFrame({"a": [1.0, 3.0, np.nan], "b": objects(["x", None, "y"])})
    encoder = Encoder(train)
    codes = encoder.codes(pd.DataFrame({"a": [5.0, np.nan], "b": objects(["z", "y"])}))
    np.testing.assert_array_equal(codes, [[5, np.nan], [np.nan, 1]])
    # a has the mean 2 and the deviation 1; x and y are observed twice, and are 1 once
    np.testing.assert_allclose(encoder.matrix(codes), [[3, np.nan, np.nan], [np.nan, -1, 1]])
    np.testing.assert_allclose(encoder.most_likely(np.array([[3, 0.2, 0.1], [0, -2, -1.0]])), [[5, 0], [2, 1]])


def test_the_last_column_of_a_category_follows_from_the_others():
    task = draw_task(made_table(), missing=0.0, seed=0)
    encoder = Encoder(task.x)
    matrix = encoder.matrix(np.where(np.isnan(codes := encoder.codes(task.x)), 1, codes))
    assert encoder.independent.tolist() == [0, 1, 2, 4]
    np.testing.assert_allclose(encoder.completed(matrix[:, encoder.independent]), matrix, atol=1e-12)


def test_the_likelier_category_is_compared_before_scaling():
    train = pd.DataFrame({"b": objects(["x"] * 9 + ["y"])})
    # 0.6 for x and 0.4 for y; y is far above its mean of 0.1
    matrix = (np.array([[0.6, 0.4]]) - [0.9, 0.1]) / 0.3
    assert Encoder(train).most_likely(matrix).tolist() == [[0]]


def test_methods_see_no_test_labels_and_only_some_training_labels(monkeypatch):
    seen = {}

    class Spy:
        def predict(self, x_test):
            seen["x_test"] = x_test
            return np.zeros(len(x_test), int)

    def fit(x, y, seed):
        seen.update(x=x, y=y, seed=seed)
        return Spy()

    monkeypatch.setitem(CLASSIFIERS, "spy", Method("mean", fit))
    task = draw_task(made_table(), missing=0.3, seed=3)
    cell = Bench(task).classifies("spy", 10)
    np.testing.assert_array_equal(seen["y"], task.labels(10))
    assert (seen["seed"], (seen["y"] >= 0).sum(), len(seen["x"])) == (3, 30, 210)
    assert len(seen["x_test"]) == 90
    assert not np.isnan(seen["x_test"]).any()
    assert cell["accuracy"] == pytest.approx(100 / 3, abs=1e-5)


def test_ours_gets_the_data_frame_and_is_scored_on_its_imputation_too(monkeypatch):
    task, got = draw_task(made_table(), missing=0.3, seed=3), []

    class Oracle:
        def predict(self, x_test):
            return task.y_test

        def impute(self, x_test):
            return task.complete_test

    def fit(x, y, seed):
        got.append(x)
        return Oracle()

    monkeypatch.setitem(CLASSIFIERS, OURS, Method(FRAME, fit))
    cell = Bench(task).classifies(OURS, 10)
    assert (cell["accuracy"], cell["imputation"]) == (100, 0)
    assert got[0] is task.x
    assert "imputation" not in Bench(draw_task(made_table(), missing=0.0, seed=3)).classifies(OURS, 10)


def test_the_first_guess_gets_filled_training_and_test_rows(monkeypatch):
    def nearest(x, y, x_test, *, seed):
        distance = ((x_test[:, None] - x[y >= 0]) ** 2).sum(axis=2)
        return np.eye(int(y.max()) + 1)[y[y >= 0][distance.argmin(axis=1)]]

    monkeypatch.setattr(classifiers, "class_chances_of_tables", nearest)
    cell = Bench(draw_task(made_table(), missing=0.3, seed=0)).classifies("first-guess-alone", 10)
    assert cell["accuracy"] > 70


@pytest.mark.parametrize("name", IMPUTERS)
def test_an_imputer_learns_from_training_rows_alone(name):
    task = draw_task(made_table(150), missing=0.3, seed=0)
    encoder = Encoder(task.x)
    with measure.quiet():
        whole = IMPUTERS[name](task.x, task.x_test, encoder, 0)
        part = IMPUTERS[name](task.x, task.x_test.iloc[:7], encoder, 0)
    np.testing.assert_allclose(part.x, whole.x)
    np.testing.assert_allclose(part.x_test, whole.x_test[:7])
    for filled, frame in ((whole.x, task.x), (whole.x_test, task.x_test)):
        assert not np.isnan(filled).any()
        given = encoder.matrix(encoder.codes(frame))
        np.testing.assert_allclose(filled[~np.isnan(given)], given[~np.isnan(given)])


def test_forests_fill_better_than_means_and_exactly_where_columns_agree():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 400)
    x = pd.DataFrame({"a": 10.0 * kind, "b": objects(np.array(["p", "q", "r"])[kind]), "c": -5.0 * kind})
    bench = Bench(draw_task(Table(x, kind), missing=0.2, seed=0))
    error = {name: bench.imputes(name)["imputation"] for name in IMPUTERS}
    assert error["mean"] == pytest.approx(1, abs=0.01)
    assert max(error["forest"], error["KNN"], error["iterative"]) < 0.35


# --- scores -----------------------------------------------------------------------------------------------------


def test_errors_are_relative_to_mean_and_mode():
    train = np.array([0.0, 2.0, 4.0])  # mean 2
    # hidden 1 and 5: errors of the mean 1 and 3, RMSE √5; of the guesses 1 and 2: RMSE √2.5
    assert column_error(train, np.array([1.0, 5]), np.array([2.0, 3]), numeric=True) == pytest.approx(0.5**0.5)
    # mode 1: wrong for three of four; the guesses for one
    truth, guess = np.array([0.0, 1, 2, 0]), np.array([0.0, 1, 2, 1])
    assert column_error(np.array([1.0, 1, 0]), truth, guess, numeric=False) == pytest.approx(1 / 3)


def test_columns_that_the_baseline_knows_are_left_out():
    ones = np.ones(4)
    assert column_error(ones, ones, ones, numeric=True) is None
    assert column_error(np.array([0.0, 2.0]), ones, ones, numeric=True) is None
    assert column_error(ones, ones, ones, numeric=False) is None


def test_the_error_of_imputation_is_the_mean_over_columns_with_hidden_cells():
    train = np.array([[0, 1, 0, 3.0], [2, 1, 1, 3], [4, 0, 1, 3], [np.nan, np.nan, 0, 3]])
    truth = np.array([[1, 0, 0, 3.0], [5, 1, 1, 3], [2, 2, 1, 3], [2, 0, 1, 3]])
    filled = np.array([[2, 0, 9, 3.0], [3, 1, 9, 3], [2, 2, 9, 3], [2, 1, 9, 3]])
    hidden = np.array([[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 1], [1, 1, 0, 1]], bool)
    numeric = np.array([True, False, False, True])
    # first column: squared errors 1 + 4 of the guesses, 1 + 9 of the mean; second: 1 wrong guess, 3 wrong modes;
    # the third has only two hidden cells; the fourth is constant
    assert imputation_error(train, truth, filled, hidden, numeric) == pytest.approx((0.5**0.5 + 1 / 3) / 2)
    assert imputation_error(train, truth, filled, np.zeros_like(hidden), numeric) is None


def test_tied_methods_share_ranks_and_wins():
    scores = np.array([[90.0, 80, 90 + 1e-12, 70], [50, 60, 70, 70]])
    np.testing.assert_array_equal(ranks(scores, high_is_good=True), [[1.5, 3, 1.5, 4], [4, 3, 1.5, 1.5]])
    np.testing.assert_array_equal(ranks(scores, high_is_good=False), [[3.5, 2, 3.5, 1], [1, 2, 3.5, 3.5]])
    assert wins(scores, high_is_good=True).tolist() == [1, 0, 2, 1]
    assert wins(scores, high_is_good=False).tolist() == [1, 0, 0, 1]
