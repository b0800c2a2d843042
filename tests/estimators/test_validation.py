"""What X may be: tables, data frames, lists, images; what cannot work is refused with one line."""

import re
import warnings

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits

from conftest import QUICK, holes
from mmdgm import MMCVAClassifier, MMVAClassifier
from mmdgm.errors import InputError


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda X, y: (X, np.full(len(y), -1)), "no row"),
        (lambda X, y: (X, np.where(y == 0, 0, -1)), "one class, 0"),
        (lambda X, y: (X, np.full(len(y), "red")), "one class, 'red'"),
        (lambda X, y: (X, np.zeros(10)), r"\[178, 10\]"),
        (lambda X, y: (X.tolist(), [-1]), r"\[178, 1\]"),
        (lambda X, y: (X[:0], y[:0]), "empty"),
        (lambda X, y: ([], []), "empty"),
        (lambda X, y: (np.where(np.arange(13) == 4, np.nan, X), y), "column 4 "),
        (
            lambda X, y: (np.where(np.arange(len(X))[:, None, None] == 6, np.nan, X[:, :12].reshape(-1, 3, 4)), y),
            "row 6 ",
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
    with pytest.warns(UserWarning, match="column 2 is taken as categories"):
        model = MMVAClassifier(**QUICK).fit(form(mixed), y)
    assert kinds(model) == ["number", "number", "category"]
    assert model.codec_.table.columns[2].values == ("1", "rosé")
    known = model.codec_.encode(model._validate_X(form(mixed[y == 1]), reset=False))
    np.testing.assert_array_equal(known[:, 2:, 0, 0], [[1, 0]] * (y == 1).sum())  # a batch of "1" alone
    assert set(model.impute(form(mixed), n_iter=3)[:, 2]) == {"1", "rosé"}
    mixed[0, 0] = "much"
    with pytest.raises(InputError, match=r"column 0 .*numbers"):
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
        with pytest.raises(InputError, match=r"column 1 .*infinite"):
            ask(X)
    X[4, 1] = "four"
    with pytest.raises(InputError, match=r"column 1 .*numbers"):
        model.predict(X)


def test_tables_and_images_are_not_taken_for_each_other(fitted, on_images, wine):
    X, y, *_ = wine
    images = load_digits().images[:6]
    for ask in (fitted.predict, fitted.impute, fitted.score_samples):
        with pytest.raises(InputError, match=r"\(6, 8, 8\).*\(rows, 13\)"):
            ask(images)
    for wrong in (X, images.reshape(6, 64), images[0, 0], images.reshape(6, 64).astype(str)):
        with pytest.raises(InputError, match=r"images \(rows, 8, 8\)"):
            on_images.predict(wrong)
    warm = MMVAClassifier(**QUICK, warm_start=True).fit(X, y)
    with pytest.raises(InputError, match="a table"):
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
        ([0, 1, 2, 3, 4] * 12, "Int64", "number", "Int64"),
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
    with pytest.raises(InputError, match=f"column kind .*{said}"):
        model.fit(frame.assign(kind=column), y)


def test_a_column_of_numbers_takes_nothing_else_later():
    frame, y = frame_of([0.0, 1.5, 2.5] * 20)
    model = MMVAClassifier(**{**QUICK, "max_epochs": 2}).fit(frame, y)
    for column in (pandas.date_range("2026-01-01", periods=60), ["many"] * 60):
        with pytest.raises(InputError, match=r"column kind .*numbers"):
            model.predict(frame.assign(kind=column))


def test_images_of_any_size_and_type(on_images):
    images = load_digits().images[:6]
    assert on_images.sample(3, y=4).shape == (3, 8, 8)
    filled = on_images.impute(holes(images), n_iter=3)
    assert filled.shape == (6, 8, 8)
    assert filled.min() >= 0
    assert filled.max() <= 16
    with pytest.raises(InputError, match="images"):
        on_images.predict(images.reshape(6, 64))
    colour = np.random.default_rng(0).integers(0, 256, (20, 10, 13, 3), np.uint8)
    model = MMVAClassifier(max_epochs=1, random_state=0, z=3, device="cpu").fit(colour, np.arange(20) % 2)
    with pytest.raises(InputError, match="by class"):
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
    line = f" {between}.* 0 and 16"
    (said,) = scales(on_images, X)
    assert re.search(line, said)
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


IMAGES, DIGITS = load_digits().images[:60] * 100, load_digits().target[:60]  # whole numbers from 0 to 1600
IMAGE_TYPES = ["float16", "float32", "uint16", "int16", "int64", "uint64", "object"]


@pytest.fixture(scope="module", params=[MMCVAClassifier, MMVAClassifier])
def on_floats(request):
    return request.param(max_epochs=1, random_state=0, device="cpu", z=4).fit(IMAGES, DIGITS)


@pytest.mark.parametrize("dtype", IMAGE_TYPES)
def test_images_of_any_type_are_their_values(on_floats, dtype):
    X = IMAGES.astype(dtype)
    expected = on_floats.decision_function(IMAGES)
    np.testing.assert_array_equal(on_floats.decision_function(X), expected)
    np.testing.assert_array_equal(on_floats.predict(X), on_floats.predict(IMAGES))
    assert on_floats.score(X, DIGITS) == on_floats.score(IMAGES, DIGITS)
    np.testing.assert_array_equal(on_floats.score_samples(X), on_floats.score_samples(IMAGES))
    np.testing.assert_array_equal(on_floats.reconstruct(X), on_floats.reconstruct(IMAGES))
    same = clone(on_floats).fit(X, DIGITS)
    assert same.codec_ == on_floats.codec_
    np.testing.assert_array_equal(same.decision_function(IMAGES), expected)
    if np.dtype(dtype).kind in "fO":
        missing = np.arange(64).reshape(8, 8) % 5 == 0
        floats, others = np.where(missing, np.nan, IMAGES), np.where(missing, np.nan, IMAGES).astype(dtype)
        np.testing.assert_array_equal(on_floats.decision_function(others), on_floats.decision_function(floats))
        filled = on_floats.impute(others, n_iter=2)
        np.testing.assert_array_equal(filled[:, ~missing], others[:, ~missing])
        np.testing.assert_allclose(filled.astype(float), on_floats.impute(floats, n_iter=2), rtol=1e-3)


@pytest.mark.parametrize("dtype", [bool, "uint8", "int8", "float16", "int64"])
def test_images_of_zeros_and_ones_are_not_cut_to_dark_bytes(dtype):
    X, y = (IMAGES > 700).astype(float), DIGITS
    model = MMCVAClassifier(max_epochs=1, random_state=0, device="cpu", z=4).fit(X, y)
    assert (model.codec_.low, model.codec_.high) == (0, 1)
    expected = model.decision_function(X)
    np.testing.assert_array_equal(model.decision_function(X.astype(dtype)), expected)
    same = clone(model).fit(X.astype(dtype), y)
    np.testing.assert_array_equal(same.decision_function(X), expected)


def test_bytes_are_grey_values_up_to_255():
    X = (load_digits().images[:60] * 4).astype(np.uint8)
    model = MMVAClassifier(max_epochs=1, random_state=0, device="cpu", z=4).fit(X, DIGITS)
    assert (model.codec_.low, model.codec_.high) == (0, 255)
    np.testing.assert_allclose(model.inputs(X)[:, 0], X / 255, rtol=1e-6)


def test_bytes_up_to_16_are_not_taken_as_black():
    X = load_digits().images[:60]
    model = MMCVAClassifier(max_epochs=1, random_state=0, device="cpu", z=4)
    with pytest.warns(UserWarning, match=r"bytes up to 16, .*white"):
        model.fit(X.astype(np.uint8), DIGITS)
    assert (model.codec_.low, model.codec_.high) == (0, 16)
    np.testing.assert_array_equal(model.decision_function(X), clone(model).fit(X, DIGITS).decision_function(X))


def test_images_that_hold_no_numbers_are_refused(on_images):
    for X in (np.full((3, 8, 8), "a", object), np.full((3, 8, 8), 1j), np.full((3, 8, 8), np.inf)):
        with pytest.raises((ValueError, TypeError)):
            on_images.predict(X)
