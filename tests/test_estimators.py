"""Estimators on tables and images: what goes in comes back, what cannot work is refused with one line."""

import pickle
import time
import warnings

import numpy as np
import pandas
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from mmdgm import KeepUnlabeled, MaxMarginImputer, MMCVAClassifier, MMVAClassifier
from mmdgm.errors import InputError
from mmdgm.estimators import base, classifiers, neighbours
from mmdgm.propagation.start import spread_labels

QUICK = {"hidden": (32,), "max_epochs": 20, "random_state": 0, "device": "cpu"}


def holes(X, share=0.3, seed=0):
    rng = np.random.default_rng(seed)
    mask = rng.random(X.shape) < share
    mask.reshape(len(X), -1)[:, 0] = False
    return np.where(mask, np.nan, X)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    few = np.where(np.random.default_rng(0).random(len(y)) < 0.7, -1, y)
    return X, y, holes(X), few


@pytest.fixture(scope="module")
def fitted(wine):
    _, _, X, y = wine
    return MMCVAClassifier(random_state=0, device="cpu").fit(X, y)


@pytest.fixture(scope="module")
def on_images():
    digits = load_digits()
    y = np.where(np.arange(len(digits.target)) < 100, digits.target, -1)
    return MMCVAClassifier(max_epochs=1, random_state=0, device="cpu", z=4).fit(digits.images[:400], y[:400])


def test_few_labels_and_missing_values_on_wine(fitted, wine):
    X, y, with_holes, _ = wine
    assert fitted.score(with_holes, y) > 0.85
    missing = np.isnan(with_holes)
    scaled = (fitted.impute(with_holes) - X) / X.std(axis=0)
    by_mean = (np.nanmean(with_holes, axis=0) - X) / X.std(axis=0)
    assert np.square(scaled[missing]).mean() < 0.9 * np.square(by_mean[missing]).mean()


def test_observed_entries_come_back_untouched_and_arrays_stay_as_they_are(fitted, wine):
    X = wine[2]
    before = X.copy()
    filled = fitted.impute(X, n_iter=5)
    observed = ~np.isnan(X)
    np.testing.assert_array_equal(filled[observed], X[observed])
    assert np.isfinite(filled).all()
    fitted.predict(X)
    np.testing.assert_array_equal(X, before)
    draws = fitted.impute(X[:5], n_iter=5, n_draws=3)
    assert draws.shape == (3, 5, X.shape[1])
    assert not np.array_equal(draws[0], draws[1])


def test_a_row_has_the_same_answers_in_any_company(fitted, wine):
    X = wine[2]
    together = fitted.decision_function(X[:9])
    alone = np.concatenate([fitted.decision_function(row[None]) for row in X[:9]])
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-6)  # rounding alone
    np.testing.assert_allclose(
        fitted.impute(X[:9], n_iter=7)[::-1], fitted.impute(X[:9][::-1], n_iter=7), rtol=1e-5
    )
    np.testing.assert_allclose(fitted.score_samples(X[3:4]), fitted.score_samples(X[:9])[3:4], rtol=1e-5)


def test_it_is_saved_loaded_pickled_and_cloned(fitted, wine, tmp_path):
    X = wine[2]
    fitted.save(tmp_path / "model")
    for other in (MMCVAClassifier.load(tmp_path / "model"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(other.decision_function(X), fitted.decision_function(X))
        np.testing.assert_array_equal(other.sample(4, random_state=1), fitted.sample(4, random_state=1))
    assert clone(fitted).get_params() == fitted.get_params()
    with pytest.raises(InputError, match="holds MMCVAClassifier, not MMVAClassifier"):
        MMVAClassifier.load(tmp_path / "model")


def test_samples_lie_on_the_data_s_scale(fitted, wine):
    X = wine[0]
    for label in (0, 1, 2):
        sampled = fitted.sample(50, y=label, random_state=0)
        assert (sampled >= X.min(axis=0) - 1e-6).all()
        assert (sampled <= X.max(axis=0) * (1 + 1e-6)).all()
    of_classes = fitted.sample(30, y=np.repeat([0, 1, 2], 10), random_state=0)
    assert fitted.score(of_classes, np.repeat([0, 1, 2], 10)) > 0.9
    with pytest.raises(InputError, match="there is no class 7"):
        fitted.sample(2, y=7)


def test_same_random_state_same_model(wine):
    _, _, X, y = wine
    a, b = (MMCVAClassifier(**{**QUICK, "max_epochs": 3}).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))


def test_labels_of_any_type(wine):
    _, _, X, few = wine
    names = np.array(["red", "white", "rosé"])
    y = np.where(few < 0, "", names[few])
    predicted = MMCVAClassifier(**QUICK, unlabeled="").fit(X, y).predict(X)
    assert set(predicted) <= set(names)
    with pytest.warns(UserWarning, match="-1 is taken as a class"):
        model = MMVAClassifier(**QUICK).fit(X, np.where(few == 0, 1, -1))
    assert model.classes_.tolist() == [-1, 1]


def test_minus_one_beside_another_marker_is_a_class(wine):
    X, y, *_ = wine
    for marker in (0, np.nan):
        few = np.where(y == 0, marker, np.where(y == 1, -1, 1))
        model = MMVAClassifier(**QUICK, unlabeled=marker).fit(X, few)
        labeled = y > 0
        assert model.classes_.tolist() == [-1, 1]
        assert model.score(X, few) == (model.predict(X[labeled]) == few[labeled]).mean()
    with pytest.raises(InputError, match="y has one class"):
        MMVAClassifier(**QUICK, unlabeled=1).fit(X, np.where(y == 0, -1, 1))


def test_folds_of_minus_one_and_one_hold_both():
    y = np.repeat([-1, 1], 30)
    for train, test in KeepUnlabeled(3).split(y, y):
        assert set(y[test]) == {-1, 1}
        assert len(train) + len(test) == len(y)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda X, y: (X, np.full(len(y), -1)), "no row is labeled"),
        (lambda X, y: (X, np.where(y == 0, 0, -1)), "y has one class, 0;"),
        (lambda X, y: (X, np.full(len(y), "red")), "y has one class, 'red';"),
        (lambda X, y: (X, np.zeros(10)), r"inconsistent numbers of samples: \[178, 10\]"),
        (lambda X, y: (X.tolist(), [-1]), r"inconsistent numbers of samples: \[178, 1\]"),
        (lambda X, y: (X[:0], y[:0]), "X is empty: it has no rows"),
        (lambda X, y: ([], []), "X is empty: it has no rows"),
        (lambda X, y: (np.where(np.arange(13) == 4, np.nan, X), y), "column 4 has no observed value"),
        (
            lambda X, y: (np.where(np.arange(len(X))[:, None] == 6, np.nan, X), y),
            "row 6 of X has no observed value",
        ),
    ],
)
def test_what_cannot_work_is_refused_with_one_line(wine, change, line):
    X, y = change(wine[0], wine[3])
    with pytest.raises(ValueError, match=line) as error:
        MMCVAClassifier(**QUICK).fit(X, y)
    assert "\n" not in str(error.value)


def test_wild_columns():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = np.stack(
        [
            np.exp(rng.normal(size=90) * 8) * 1e12,
            rng.normal(size=90) * 1e-9 + y * 1e-9,
            np.full(90, 5.0),
            (rng.random(90) < 0.5) * 7.0,
            y + rng.normal(size=90),
        ],
        axis=1,
    )
    model = MMCVAClassifier(**QUICK).fit(holes(X, 0.2), np.where(np.arange(90) < 30, y, -1))
    filled = model.impute(holes(X, 0.2), n_iter=5)
    assert np.isfinite(filled).all()
    assert set(np.unique(filled[:, 3])) == {0.0, 7.0}
    np.testing.assert_array_equal(filled[:, 2], 5.0)


def test_strings_are_categories():
    y = np.arange(60) % 2
    X = np.array(
        [[["cat", "dog"][label], float(i), None if i % 5 == 0 else "ab"[label]] for i, label in enumerate(y)],
        object,
    )
    model = MMCVAClassifier(**{**QUICK, "max_epochs": 60}).fit(X, np.where(np.arange(60) < 20, y, -1))
    filled = model.impute(X, n_iter=10)
    assert set(filled[:, 2]) == {"a", "b"}
    assert (filled[:, 2] == np.array(["a", "b"], object)[y]).mean() > 0.9
    assert model.score(X, y) > 0.9


def kinds(model):
    return [column.kind for column in model.codec_.table.columns]


def test_numbers_beside_text_in_lists_stay_numbers(wine):
    _, y, with_holes, _ = wine
    rows = np.column_stack([with_holes.astype(object), np.array(["red", "white", "rosé"], object)[y]])
    model, same = (MMCVAClassifier(**QUICK).fit(form, y) for form in (rows, rows.tolist()))
    assert kinds(same) == ["number"] * 13 + ["category"]
    np.testing.assert_array_equal(same.decision_function(rows.tolist()), model.decision_function(rows))
    np.testing.assert_array_equal(same.impute(rows.tolist(), n_iter=3), model.impute(rows, n_iter=3))
    assert same.score(rows.tolist(), y) == model.score(rows, y)


@pytest.mark.parametrize("form", [lambda X: X, np.ndarray.tolist, lambda X: np.char.encode(X, "utf-8")])
def test_columns_of_numbers_in_arrays_of_text_are_numbers(wine, form):
    _, y, with_holes, _ = wine
    text = np.where(np.isnan(with_holes), "", with_holes.astype(str))
    model, same = MMVAClassifier(**QUICK).fit(with_holes, y), MMVAClassifier(**QUICK).fit(form(text), y)
    np.testing.assert_array_equal(same.decision_function(form(text)), model.decision_function(with_holes))
    np.testing.assert_array_equal(same.impute(form(text), n_iter=3), model.impute(with_holes, n_iter=3))
    mixed = np.column_stack([text[:, :2], np.where(y == 0, "", np.where(y == 1, "1", "rosé"))])
    model = MMVAClassifier(**QUICK).fit(form(mixed), y)
    assert kinds(model) == ["number", "number", "category"]
    assert model.codec_.table.columns[2].values == ("1", "rosé")
    known = model.codec_.encode(model._validate_X(form(mixed[y == 1]), reset=False))
    np.testing.assert_array_equal(known[:, 2:, 0, 0], [[1, 0]] * (y == 1).sum())  # a batch of "1" alone
    assert set(model.impute(form(mixed), n_iter=3)[:, 2]) == {"1", "rosé"}
    mixed[0, 0] = "much"
    with pytest.raises(InputError, match="column 0 is one of numbers, but holds something else"):
        model.predict(form(mixed))
    with pytest.raises(ValueError, match="3 features"):
        model.predict(form(mixed[:, :2]))


@pytest.mark.parametrize("infinite", [np.inf, -np.inf])
def test_infinite_values_beside_categories_are_refused(infinite):
    X = np.array([["ab"[i % 2], float(i), i % 3] for i in range(30)], object)
    y = np.arange(30) % 2
    model = MMCVAClassifier(**QUICK).fit(X, y)
    X[4, 1] = infinite
    for ask in (model.predict, model.impute, lambda X: clone(model).fit(X, y)):
        with pytest.raises(InputError, match="column 1 holds an infinite value"):
            ask(X)
    X[4, 1] = "four"
    with pytest.raises(InputError, match="column 1 is one of numbers, but holds something else"):
        model.predict(X)


def test_tables_and_images_are_not_taken_for_each_other(fitted, on_images, wine):
    X, y, *_ = wine
    images = load_digits().images[:6]
    for ask in (fitted.predict, fitted.impute, fitted.score_samples):
        with pytest.raises(InputError, match=r"\(6, 8, 8\), but the model was fitted on a table \(rows, 13\)"):
            ask(images)
    for wrong in (X, images.reshape(6, 64), images[0, 0], images.reshape(6, 64).astype(str)):
        with pytest.raises(InputError, match=r"but the model was fitted on images \(rows, 8, 8\)"):
            on_images.predict(wrong)
    warm = MMVAClassifier(**QUICK, warm_start=True).fit(X, y)
    with pytest.raises(InputError, match="fitted on a table"):
        warm.fit(images, y[:6] + np.arange(6) % 3)


def test_data_frames_keep_their_columns(wine):
    _, _, X, y = wine
    frame = pandas.DataFrame(X, columns=[f"c{i}" for i in range(13)])
    frame["kind"] = pandas.Categorical(np.where(np.arange(len(y)) % 2, "odd", "even"))
    frame.loc[3, "kind"] = None
    model = MMCVAClassifier(**QUICK).fit(frame, y)
    filled = model.impute(frame, n_iter=5)
    assert list(filled.columns) == list(frame.columns)
    assert not filled.isna().any().any()
    assert model.feature_names_in_.tolist() == list(frame.columns)


def frame_of(column):
    """A data frame of 60 rows of two classes with such a column, every seventh value of it missing."""
    y = np.arange(60) % 2
    kinds = pandas.Series([value if i % 7 else None for i, value in enumerate(column)], dtype=object)
    return pandas.DataFrame({"size": np.random.default_rng(0).normal(size=60) + y, "kind": kinds}), y


@pytest.mark.parametrize(
    ("column", "dtype", "kind", "filled_dtype"),
    [
        ([10, 20, 30] * 20, "category", "category", "category"),
        ([True, False] * 30, "category", "category", "category"),
        ([0, 1, 2, 3, 4] * 12, "Int64", "number", "Float64"),
        ([0, 1] * 30, "Int64", "binary", "Int64"),
        ([True, False] * 30, "boolean", "binary", "boolean"),
        ([True, False] * 30, object, "binary", object),
        (["red", "blue"] * 30, object, "category", object),
        (["red", "blue"] * 30, "string", "category", "string"),
        (["red", "blue"] * 30, "str", "category", "str"),
        (np.linspace(0, 1, 60), "float32", "number", "float32"),
        (np.linspace(0, 1, 60), "Float64", "number", "Float64"),
    ],
)
@pytest.mark.parametrize("beside_text", [False, True])
def test_columns_of_data_frames(tmp_path, column, dtype, kind, filled_dtype, beside_text):
    frame, y = frame_of(column)
    frame["kind"] = frame["kind"].astype(dtype)
    if beside_text:
        frame["text"] = ["u", "v"] * 30
    before = frame.copy()
    model = MMVAClassifier(**{**QUICK, "max_epochs": 2}).fit(frame, y)
    assert model.codec_.table.columns[1].kind == kind
    filled = model.impute(frame, n_iter=3)
    pandas.testing.assert_frame_equal(frame, before)
    assert filled["kind"].dtype == filled_dtype
    assert not filled["kind"].isna().any()
    observed = frame["kind"].notna()
    assert filled["kind"][observed].tolist() == frame["kind"][observed].tolist()
    if kind != "number":
        assert set(filled["kind"].map(str)) == set(map(str, column))
    model.save(tmp_path)
    pandas.testing.assert_frame_equal(MMVAClassifier.load(tmp_path).impute(frame, n_iter=3), filled)


def test_a_category_that_a_data_frame_does_not_know_may_be_imputed():
    frame, y = frame_of(["red", "blue"] * 30)
    model = MMVAClassifier(**{**QUICK, "max_epochs": 2}).fit(frame.astype({"kind": "category"}), y)
    reds = frame[frame["kind"].isna() | (frame["kind"] == "red")].astype({"kind": "category"})
    assert set(model.impute(reds, n_iter=3)["kind"]) <= {"red", "blue"}


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pandas.date_range("2026-01-01", periods=60), "Timestamp"),
        (pandas.date_range("2026-01-01", periods=60, tz="UTC"), "Timestamp"),
        (pandas.to_timedelta(np.arange(60), unit="D"), "Timedelta"),
        (pandas.cut(np.arange(60), 3), "Interval"),
        (np.arange(60) * 1j, "complex"),
    ],
)
def test_columns_of_dates_and_other_things_are_refused_by_name(column, said):
    frame, y = frame_of([0.0, 1.5, 2.5] * 20)
    frame["kind"] = frame["kind"].astype(float)
    model = MMVAClassifier(**{**QUICK, "max_epochs": 2}).fit(frame, y)
    with pytest.raises(InputError, match=f"column kind holds {said} values; give numbers, text or booleans"):
        model.fit(frame.assign(kind=column), y)


def test_a_column_of_numbers_takes_nothing_else_later():
    frame, y = frame_of([0.0, 1.5, 2.5] * 20)
    model = MMVAClassifier(**{**QUICK, "max_epochs": 2}).fit(frame, y)
    for column in (pandas.date_range("2026-01-01", periods=60), ["many"] * 60):
        with pytest.raises(InputError, match="column kind is one of numbers, but holds something else"):
            model.predict(frame.assign(kind=column))


def test_images_of_any_size_and_type(on_images):
    images = load_digits().images[:6]
    assert on_images.sample(3, y=4).shape == (3, 8, 8)
    filled = on_images.impute(holes(images), n_iter=3)
    assert filled.shape == (6, 8, 8)
    assert filled.min() >= 0
    assert filled.max() <= 16
    with pytest.raises(InputError, match="fitted on images"):
        on_images.predict(images.reshape(6, 64))
    colour = np.random.default_rng(0).integers(0, 256, (20, 10, 13, 3), np.uint8)
    model = MMVAClassifier(max_epochs=1, random_state=0, z=3, device="cpu").fit(colour, np.arange(20) % 2)
    with pytest.raises(InputError, match="MMVAClassifier does not generate by class"):
        model.sample(2, y=0)
    assert model.reconstruct(colour).shape == colour.shape
    assert model.transform(colour).shape == (20, 3)


def scales(model, X):
    """What a model warns of when it classifies images."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.predict(X)
    return [str(warning.message) for warning in caught if "another scale" in str(warning.message)]


@pytest.mark.parametrize(
    ("change", "between"),
    [
        (lambda X: X / 16, "0 and 1"),
        (lambda X: X / 16 * 255, "0 and 255"),
        (lambda X: X / 8 - 1 - 32, "-33 and -31"),
        (lambda X: holes(X / 16), "0 and 1"),
        (lambda X: holes(X[:1] * 16), "0 and 224"),
    ],
)
def test_images_on_another_scale_are_told(on_images, change, between, tmp_path):
    X = change(load_digits().images[:40])
    line = f"X lies between {between}, but the images that the model was fitted on between 0 and 16"
    (said,) = scales(on_images, X)
    assert said.startswith(line)
    on_images.save(tmp_path)
    assert scales(MMCVAClassifier.load(tmp_path), X) == [said]
    with pytest.warns(UserWarning, match=line):
        on_images.impute(X, n_iter=1)


@pytest.mark.parametrize(
    "X",
    [
        load_digits().images[400:],
        load_digits().images[400:401],
        load_digits().images[400:410] / 2,
        load_digits().images[400:410] * 1.5,
        load_digits().images[400:401] / 100,  # a single dark one
        np.zeros((9, 8, 8)),
        np.full((9, 8, 8), np.nan),
        np.where(np.arange(64).reshape(8, 8) == 9, 1000.0, load_digits().images[400:440])
        * (np.arange(40) % 8 == 0)[:, None, None],  # few with wild pixels
    ],
)
def test_images_like_those_of_training_are_not(on_images, X):
    assert scales(on_images, X) == []


def test_training_images_that_fill_little_of_their_type_are_met_as_they_are():
    rng = np.random.default_rng(0)
    for dark in (rng.integers(0, 2, (40, 8, 8), np.uint8), rng.random((40, 8, 8)) / 50):
        model = MMVAClassifier(max_epochs=1, random_state=0, z=3, device="cpu").fit(dark, np.arange(40) % 2)
        assert scales(model, dark[:10]) == []
        assert len(scales(model, dark * 100)) == 1


def test_in_pipelines_and_searches_with_unlabeled_rows(wine):
    _, _, X, y = wine
    splitter = KeepUnlabeled(3)
    for train, test in splitter.split(X, y):
        assert (y[test] >= 0).all()
        assert set(np.flatnonzero(y < 0)) <= set(train)
    pipeline = make_pipeline(StandardScaler(), MMCVAClassifier(**{**QUICK, "max_epochs": 3}))
    assert cross_val_score(pipeline, X, y, cv=splitter).shape == (3,)
    search = GridSearchCV(MMCVAClassifier(**{**QUICK, "max_epochs": 2}), {"hat_weight": [0.1, 1.0]}, cv=splitter)
    assert search.fit(X, y).best_params_["hat_weight"] in (0.1, 1.0)
    svm = make_pipeline(MaxMarginImputer(max_epochs=5, n_iter=5, random_state=0, device="cpu"), SVC())
    labeled = y >= 0
    assert svm.fit(X[labeled], y[labeled]).predict(X).shape == y.shape
    frame = MMCVAClassifier(**QUICK).set_output(transform="default").fit(X, y).transform(X)
    assert frame.shape == (len(X), 6)


def test_the_imputer_takes_classes_and_ignores_other_targets(wine):
    X, y, with_holes, few = wine
    model = MaxMarginImputer(max_epochs=3, n_iter=5, random_state=0, device="cpu")
    without = clone(model).fit(with_holes).transform(with_holes)
    for target in (X[:, 0], X[:, :2], np.stack([y == 0, y > 0], axis=1).astype(int)):
        np.testing.assert_array_equal(clone(model).fit(with_holes, target).transform(with_holes), without)
    assert make_pipeline(model, Ridge()).fit(with_holes, X[:, 0]).score(with_holes, X[:, 0]) > 0
    for marker in (-1, np.nan):
        imputer = clone(model).set_params(unlabeled=marker).fit(with_holes, np.where(few < 0, marker, few))
        assert imputer.estimator_.classes_.tolist() == [0, 1, 2]


def test_early_stopping_and_time(wine):
    _, _, X, y = wine
    stopped = MMCVAClassifier(**{**QUICK, "max_epochs": 500}, validation_fraction=0.3, n_iter_no_change=1).fit(
        X, y
    )
    assert stopped.n_iter_ < 500
    assert MMCVAClassifier(**{**QUICK, "max_epochs": 10**6}, max_time=0.2).fit(X, y).n_iter_ < 10**5


@pytest.mark.parametrize("validation_fraction", [None, 0.3])
def test_time_that_does_not_run_out_changes_nothing(wine, validation_fraction):
    _, _, X, y = wine
    model = MMVAClassifier(**{**QUICK, "max_epochs": 110}, batch_size=20, n_iter_no_change=3)
    model.set_params(validation_fraction=validation_fraction)
    free, timed = (clone(model).set_params(max_time=max_time).fit(X, y) for max_time in (None, 1e9))
    np.testing.assert_array_equal(timed.decision_function(X), free.decision_function(X))
    assert timed.history_ == free.history_
    assert timed.n_iter_ == free.n_iter_


def test_time_runs_out_within_an_interval(wine):
    _, _, X, y = wine
    model = MMVAClassifier(**{**QUICK, "max_epochs": 9000}, max_time=0.1).fit(X, y)
    assert len(model.history_) == 1
    assert model.n_iter_ < 450
    assert 0 < model.history_[0]["epoch"] < 450


@pytest.mark.parametrize("kind", [MMCVAClassifier, MaxMarginImputer])
def test_the_clock_runs_from_the_beginning_of_fit(wine, monkeypatch, kind, capsys):
    _, _, X, y = wine

    def fill_slowly(x, fill):
        time.sleep(0.6)
        return np.where(np.isnan(x), fill, x)

    monkeypatch.setattr(base, "fill_from_neighbours", fill_slowly)
    model = kind(max_epochs=500, max_time=0.5, random_state=0, device="cpu", verbose=1)
    model.fit(X, y if kind is MMCVAClassifier else None)
    model = getattr(model, "estimator_", model)
    assert model.n_iter_planned_ == 500
    assert model.n_iter_ <= 25  # steps before the clock is read first
    assert f"max_time: ended after {model.n_iter_} of 500 epochs\n" in capsys.readouterr().err


def test_only_an_end_by_max_time_is_told(wine, capsys, tmp_path):
    _, _, X, y = wine
    model = MMVAClassifier(**QUICK, max_time=1e9, verbose=1).fit(X, y)
    assert (model.n_iter_, model.n_iter_planned_) == (20, 20)
    model.save(tmp_path)
    assert MMVAClassifier.load(tmp_path).n_iter_planned_ == 20
    MMVAClassifier(**{**QUICK, "max_epochs": 500}, validation_fraction=0.3, n_iter_no_change=1, verbose=1).fit(
        X, y
    )
    assert "max_time" not in capsys.readouterr().err
    model = MMVAClassifier(**{**QUICK, "max_epochs": 9000}, max_time=0.01).fit(X, y)
    assert model.n_iter_ < model.n_iter_planned_ == 9000
    assert capsys.readouterr().err == ""


def test_a_long_filling_from_neighbours_is_told_before(wine, monkeypatch, capsys):
    X, _, with_holes, y = wine
    told = f"filling {np.isnan(with_holes).sum():,} missing values from neighbours first"
    for long, rows, verbose, expected in (
        (0, with_holes, 1, 1),
        (0, with_holes, 0, 0),
        (0, X, 1, 0),
        (1e9, X, 1, 0),
    ):
        monkeypatch.setattr(neighbours, "LONG", long)
        for model in (MMVAClassifier(**QUICK), MaxMarginImputer(max_epochs=1, device="cpu")):
            model.set_params(verbose=verbose).fit(rows, y)
            assert capsys.readouterr().err.count(told) == expected


def test_a_warm_start_goes_on_from_the_last_weights(wine):
    _, _, X, y = wine
    model = MMCVAClassifier(**QUICK, warm_start=True).fit(X, y)
    before = {name: weight.detach().clone() for name, weight in model.model_.named_parameters()}
    model.set_params(learning_rate=1e-12).fit(X, y)
    for name, weight in model.model_.named_parameters():
        np.testing.assert_allclose(weight.detach(), before[name], rtol=0, atol=1e-9)
    with pytest.raises(InputError, match="warm_start: the parameters ask for other networks"):
        model.set_params(hidden=(7,)).fit(X, y)


def test_a_warm_start_learns_by_the_parameters_and_labels_of_now(wine):
    X, truth, _, y = wine
    model = MMVAClassifier(**QUICK, warm_start=True).fit(X, y)
    model.set_params(C=7.0, margin=2.0, class_weight={0: 3.0, 1: 0.0, 2: 0.5}).fit(X, truth)
    assert (model.model_.C, model.model_.margin, model.model_.n_rows) == (7.0, 2.0, len(X))
    assert model.model_.class_weight.tolist() == [3.0, 0.0, 0.5]
    assert model.set_params(class_weight=None).fit(X, y).model_.class_weight is None


@pytest.mark.parametrize("kind", [MMCVAClassifier, MMVAClassifier])
def test_a_warm_start_after_load_is_that_of_the_saved_model(wine, tmp_path, kind):
    _, truth, X, y = wine
    model = kind(**QUICK, warm_start=True, class_weight="balanced").fit(X, y)
    model.save(tmp_path)
    again = kind.load(tmp_path, device="cpu").fit(X, truth)
    np.testing.assert_array_equal(again.decision_function(X), model.fit(X, truth).decision_function(X))
    assert again.history_ == model.history_


def test_class_weight_and_prior(wine):
    X, _, _, y = wine
    heavy = MMVAClassifier(**QUICK, class_weight={0: 1.0, 1: 0.0, 2: 0.0}).fit(X, y).predict(X)
    assert (heavy == 0).mean() > 0.6
    strong = MMCVAClassifier(**{**QUICK, "max_epochs": 60}, balance_weight=10.0, initial_labels=None)
    strong.set_params(class_prior=[0.1, 0.1, 0.8], class_weight="balanced").fit(X, y)
    counts = np.array([(y == k).sum() for k in range(3)])
    np.testing.assert_allclose(strong.model_.balance_ratio, [0.1, 0.1, 0.8] / (counts / counts.sum()), rtol=1e-6)
    np.testing.assert_allclose(strong.model_.class_weight, counts.sum() / (3 * counts), rtol=1e-6)
    assert (strong.predict(X) == 2).mean() > 0.6  # there are 0.27, and 0.4 below
    assert (strong.set_params(class_prior=[0.1, 0.8, 0.1]).fit(X, y).predict(X) == 1).mean() > 0.6
    with pytest.raises(InputError, match="class_prior: give 3 shares"):
        MMCVAClassifier(**QUICK, class_prior=[1.0]).fit(X, y)


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_any_shape_type_and_pattern_of_missing_values(data):
    rows, columns = data.draw(st.integers(6, 25)), data.draw(st.integers(1, 5))
    kind = data.draw(st.sampled_from([np.float32, np.float64, np.int64]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    X = (rng.normal(size=(rows, columns)) * 10 ** data.draw(st.integers(-3, 3))).astype(kind)
    if X.dtype.kind == "f":
        mask = rng.random(X.shape) < data.draw(st.floats(0, 0.7))
        mask[np.arange(rows), rng.integers(columns, size=rows)] = False
        mask[rng.integers(rows, size=columns), np.arange(columns)] = False
        X[mask] = np.nan
    classes = data.draw(st.integers(2, 4))
    y = np.concatenate([np.arange(classes), rng.integers(-1, classes, rows - classes)])
    before = X.copy(), y.copy()
    estimator = data.draw(st.sampled_from([MMCVAClassifier, MMVAClassifier]))
    model = estimator(hidden=(8,), max_epochs=1, random_state=0, device="cpu").fit(X, y)
    predicted, filled = model.predict(X), model.impute(X, n_iter=3)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])
    observed = ~np.isnan(X)
    np.testing.assert_array_equal(np.asarray(filled)[observed], X[observed])
    assert np.isfinite(filled).all()
    assert predicted.shape == (rows,)
    row = data.draw(st.integers(0, rows - 1))
    assert model.predict(X[row : row + 1])[0] == predicted[row]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"max_epochs": 0}, "max_epochs=0"),
        ({"margin": -1}, "margin=-1"),
        ({"likelihood": "laplace"}, "likelihood='laplace'"),
        ({"initial_labels": "knn"}, "initial_labels='knn'"),
        ({"alpha": "a"}, "alpha='a'"),
        ({"hidden": 7}, "hidden=7"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"network": "conv"}, "wants images"),
        ({"validation_fraction": 2.0}, "validation_fraction=2.0"),
    ],
)
def test_parameters_that_mean_nothing(wine, changes, line):
    with pytest.raises(InputError, match=line):
        MMCVAClassifier(**{**QUICK, **changes}).fit(wine[2], wine[3])


def test_a_device_that_is_not_there_is_refused_in_words_for_python(wine, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device, line in (("cuda", "torch sees no GPU here; use cpu"), ("tpu", "use auto, cpu or cuda")):
        with pytest.raises(InputError, match=f"^device {device}: {line}$"):
            MMCVAClassifier(**{**QUICK, "device": device}).fit(wine[2], wine[3])


def test_odd_markers_and_weights_are_saved(wine, tmp_path):
    _, _, X, few = wine
    y = np.where(few < 0, np.nan, few)
    model = MMCVAClassifier(**QUICK, unlabeled=float("nan"), class_weight={0.0: 1.0, 1.0: 2.0}).fit(X, y)
    model.save(tmp_path)
    again = MMCVAClassifier.load(tmp_path)
    assert again.class_weight == {0.0: 1.0, 1.0: 2.0}
    assert np.isnan(again.unlabeled)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_text_markers_among_objects_and_mixed_labels(wine):
    _, _, X, few = wine
    y = np.array(["-1" if code < 0 else "abc"[code] for code in few], object)
    assert MMCVAClassifier(**QUICK).fit(X, y).classes_.tolist() == ["a", "b", "c"]
    with pytest.raises(InputError, match="several types"):
        MMCVAClassifier(**QUICK).fit(X, np.array([str(code) if code else 0 for code in few], object))


def missing_labels(few):
    """The same labels with every missing value that there is in their place."""
    names = np.array(["a", "b", "c"], object)[few]
    return {
        "float": np.where(few < 0, np.nan, few),
        "float32": np.where(few < 0, np.nan, few).astype(np.float32),
        "object": np.where(few < 0, np.nan, names),
        "Int64": pandas.Series(few, dtype="Int64").mask(few < 0),
        "string": pandas.Series(names, dtype="string").mask(few < 0),
        "category": pandas.Series(names, dtype="category").mask(few < 0),
        "NA among objects": pandas.Series(np.where(few < 0, pandas.NA, names), dtype=object),
    }


@pytest.mark.parametrize("kind", missing_labels(np.zeros(3, int)))
def test_missing_labels_lead_to_the_marker_and_work_with_it(wine, tmp_path, kind):
    _, _, X, few = wine
    y = missing_labels(few)[kind]
    for refuse in (MMCVAClassifier(**QUICK), MaxMarginImputer(), MMVAClassifier(**QUICK, unlabeled=None)):
        with pytest.raises(InputError, match=r"y holds NaN; .* give unlabeled=np\.nan"):
            refuse.fit(X, y)
    for marker in (np.nan, np.float32("nan"), pandas.NA):
        model = MMCVAClassifier(**{**QUICK, "max_epochs": 2}, unlabeled=marker).fit(X, y)
        assert len(model.classes_) == 3
        labeled = few >= 0
        assert model.score(X, y) == (model.predict(X[labeled]) == np.asarray(y)[labeled]).mean()
        model.save(tmp_path)
        assert np.isnan(MMCVAClassifier.load(tmp_path).unlabeled)
    for train, test in KeepUnlabeled(3, unlabeled=np.float32("nan")).split(X, y):
        assert (few[test] >= 0).all()
        assert (few < 0).sum() == (few[train] < 0).sum()


def test_none_among_labels_is_to_be_replaced_by_the_marker(wine):
    _, _, X, few = wine
    for labels in (np.arange(3), np.array(["a", "b", "c"])):
        y = [None if code < 0 else labels[code] for code in few]
        for refuse in (MMCVAClassifier(**QUICK), MaxMarginImputer()):
            with pytest.raises(InputError, match=r"y holds None; .* what marks the unlabeled rows, unlabeled=-1"):
                refuse.fit(X, y)


def test_epochs_are_as_many_as_asked_for(wine):
    for epochs in (1, 2, 5):
        assert MMCVAClassifier(**{**QUICK, "max_epochs": epochs}).fit(wine[2], wine[3]).n_iter_ == epochs


def test_fit_leaves_the_process_as_it_was(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    X, y = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 2
    MMVAClassifier(hidden=(8,), max_epochs=1, device="cpu").fit(X, y)
    assert not torch.backends.cudnn.benchmark


@pytest.mark.parametrize(("side", "initial_labels", "asked"), [(16, "auto", 1), (16, None, 0), (8, "auto", 0)])
def test_first_guesses_of_images_large_enough(side, initial_labels, asked, monkeypatch):
    calls = []
    monkeypatch.setattr(
        classifiers, "spread_labels", lambda x, y, **more: (calls.append(len(x)), spread_labels(x, y, **more))[1]
    )
    X = np.random.default_rng(0).random((40, side, side))
    y = np.where(np.arange(40) < 10, np.arange(40) % 2, -1)
    MMCVAClassifier(max_epochs=2, initial_labels=initial_labels, device="cpu", random_state=0).fit(X, y)
    assert calls == [40] * asked
