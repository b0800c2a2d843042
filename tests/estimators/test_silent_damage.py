"""Input that would silently become other input: it is read as what it means, or refused with one line."""

import numpy as np
import pandas
import pytest
import torch
from sklearn.datasets import load_digits

from conftest import QUICK
from mmdgm import KeepUnlabeled, MaxMarginImputer, MMCVAClassifier, MMVAClassifier, suggest_labels
from mmdgm.errors import InputError

SHORT = {**QUICK, "max_epochs": 2}


def hidden(X, share=0.3):
    mask = np.random.default_rng(0).random(X.shape) < share
    mask.reshape(len(X), -1)[:, 0] = False
    return mask


@pytest.mark.parametrize("kind", [float, int, np.float32])
def test_masked_cells_of_a_table_are_missing(wine, kind):
    X, y, *_ = wine
    X = (X * 10).astype(kind)
    mask = hidden(X)
    masked, same = np.ma.masked_array(X, mask), np.where(mask, np.nan, X)
    model = MMVAClassifier(**SHORT).fit(masked, y)
    np.testing.assert_array_equal(np.isnan(model.inputs(masked)[:, :, 0, 0]), mask)
    np.testing.assert_array_equal(model.decision_function(same), model.decision_function(masked))
    filled = model.impute(masked, n_iter=2)
    np.testing.assert_array_equal(filled, model.impute(same, n_iter=2))
    assert not np.ma.isMaskedArray(filled)
    assert not np.allclose(filled[mask], X[mask])
    np.testing.assert_array_equal(
        MaxMarginImputer(max_epochs=1, random_state=0).fit_transform(masked)[~mask], X[~mask]
    )


def test_masked_categories_and_pixels_are_missing(wine):
    y = np.arange(60) % 2
    X = np.array([["ab"[k], float(i % 7)] for i, k in enumerate(y)], object)
    masked = np.ma.masked_array(X, mask=hidden(X))
    model = MMVAClassifier(**SHORT).fit(masked, y)
    assert np.isnan(model.inputs(masked)[:, 2, 0, 0]).sum() == masked.mask[:, 1].sum()
    images = np.ma.masked_array(load_digits().images[:40] * 15, mask=hidden(load_digits().images[:40]))
    for kind in (float, np.uint8):
        masked = images.astype(kind)
        model = MMVAClassifier(max_epochs=1, random_state=0, device="cpu", z=3).fit(masked, y[:40])
        np.testing.assert_array_equal(np.isnan(model.inputs(masked)[:, 0]), images.mask)


def test_masked_labels_are_refused(wine):
    X, y, *_ = wine
    masked = np.ma.masked_array(y, mask=np.arange(len(y)) % 3 > 0)
    for fit in (MMCVAClassifier(**SHORT).fit, MaxMarginImputer(max_epochs=1).fit):
        with pytest.raises(InputError, match=r"masked array; .*filled"):
            fit(X, masked)
    with pytest.raises(InputError, match="masked"):
        suggest_labels(X, 3, masked)


NOTHING = np.datetime64("NaT")


@pytest.mark.parametrize(
    "X",
    [
        np.array([[np.datetime64("2026-01-01"), NOTHING]] * 20),
        np.array([[1.0, np.datetime64("2026-01-01")], [2.0, NOTHING]] * 10, object),
        np.array([["a", np.timedelta64(3, "D")], ["b", NOTHING]] * 10, object),
        pandas.DataFrame({"when": pandas.to_datetime(["2026-01-01", None] * 10), "x": np.arange(20.0)}),
        np.full((20, 8, 8), NOTHING),
    ],
    ids=["dates", "numbers and dates", "text and times", "data frame", "images"],
)
def test_dates_are_refused_and_no_missing_date_becomes_a_number(X):
    for fit in (MaxMarginImputer(max_epochs=1).fit, lambda X: MMVAClassifier(**SHORT).fit(X, np.arange(20) % 2)):
        with pytest.raises(InputError, match=r"holds \S+ values; give numbers, text or booleans"):
            fit(X)


@pytest.mark.parametrize(
    "cell", [[1, 2], np.arange(2), {1: 2}, 1j, NOTHING, object()], ids=lambda cell: type(cell).__name__
)
def test_a_cell_that_holds_no_value_is_refused_with_its_type(wine, cell):
    X, y, *_ = wine
    objects, text = X.astype(object), np.column_stack([X.astype(object), np.where(y, "a", "b")]).astype(object)
    fitted = MMVAClassifier(**SHORT).fit(text, y)
    for X in (objects, text):
        X[5, 2] = cell
        for form in (X,) if cell is NOTHING else (X, pandas.DataFrame(X)):  # pandas says that NaT is missing
            with pytest.raises(InputError, match=rf"holds {type(cell).__name__} values"):
                MMVAClassifier(**SHORT).fit(form, y)
    with pytest.raises(InputError, match=rf"holds {type(cell).__name__} values"):
        fitted.predict(text)


def test_pandas_na_in_arrays_of_objects_is_missing(wine):
    _, y, with_holes, _ = wine
    objects = np.where(np.isnan(with_holes), pandas.NA, with_holes.astype(object))
    model = MMVAClassifier(**SHORT).fit(objects, y)
    np.testing.assert_array_equal(model.inputs(objects), model.inputs(with_holes))
    text = np.column_stack([objects, np.where(y == 0, pandas.NA, np.where(y == 1, "a", "b"))])
    model = MMVAClassifier(**SHORT).fit(text, y)
    assert np.isnan(model.inputs(text)[y == 0, 13:]).all()


def test_rows_of_different_lengths_are_refused():
    with pytest.raises(InputError, match="same number"):
        MMVAClassifier(**SHORT).fit([[1, 2], [3]] * 4, [0, 1] * 4)


@pytest.mark.parametrize("kind", [int, float, "int8"])
def test_a_marker_as_text_marks_the_same_number(wine, kind):
    X, _, _, few = wine
    y = few.astype(kind)
    model = MMVAClassifier(**SHORT, unlabeled="-1").fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.score(X, y) == model.score(X[few >= 0], y[few >= 0])
    for _, test in KeepUnlabeled(3, unlabeled="-1").split(X, y):
        assert (few[test] >= 0).all()
    assert set(suggest_labels(X, 5, y, unlabeled="-1")) <= set(np.flatnonzero(few < 0))


def test_a_marker_as_text_leaves_the_classes_minus_one_and_one_alone(wine):
    X, y, *_ = wine
    with pytest.warns(UserWarning, match="-1 is taken as a class"):
        assert MMVAClassifier(**SHORT, unlabeled="-1").fit(X, np.where(y == 0, 1, -1)).classes_.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("weight", "line"),
    [
        ({"0": 5.0}, r"no class '0'; the classes are \[0, 1, 2\]"),
        ({0: 1.0, 7: 2.0}, "no class 7"),
        ({0: "much"}, "numbers"),
        ({0: np.nan}, "0 or more"),
        ({0: None}, "0 or more"),
        ({0: [1, 2]}, "numbers"),
        ("even", "balanced"),
        (3, "balanced"),
    ],
)
def test_class_weights_that_would_be_ignored_are_refused(wine, weight, line):
    X, y, *_ = wine
    with pytest.raises(InputError, match=rf"class_weight.*{line}"):
        MMVAClassifier(**SHORT, class_weight=weight).fit(X, y)


@pytest.mark.parametrize("prior", [["a", "b", "c"], [np.nan, 0.5, 0.5], [0.5, 0.5], "even", {0: 1}])
def test_class_priors_that_are_no_shares_are_refused(wine, prior):
    X, _, _, few = wine
    with pytest.raises(InputError, match="class_prior"):
        MMCVAClassifier(**SHORT, class_prior=prior).fit(X, few)


@pytest.mark.parametrize("form", [lambda X: X, pandas.DataFrame, lambda X: X.astype(str), np.ndarray.tolist])
def test_one_question_mark_among_numbers_is_not_passed_over_in_silence(wine, form):
    X, y, *_ = wine
    X = X.astype(object)
    X[7, 4] = "?"
    with pytest.warns(UserWarning, match=r"column 4 is taken as categories: 1 of its 178 .*'\?'") as warned:
        MMVAClassifier(**SHORT).fit(form(X), y)
    assert len(warned) == 1
    assert warned[0].filename == __file__


def test_a_column_of_names_is_not_passed_over_in_silence(wine):
    X, y, *_ = wine
    X = np.column_stack([X.astype(object), [f"name {i}" for i in range(len(X))]])
    with pytest.warns(UserWarning, match=r"column 13 has 178 categories in 178 values"):
        MMVAClassifier(**SHORT).fit(X, y)


def test_a_column_of_ids_is_refused_at_once():
    rows = 40_000
    X = np.array([[f"id-{i}", float(i % 5)] for i in range(rows)], object)
    with pytest.raises(InputError, match=r"column 0 has 40,000 categories in 40,000 values; leave it out"):
        MMCVAClassifier(**SHORT).fit(X, np.arange(rows) % 2)


def test_many_columns_of_many_categories_are_refused_before_they_fill_the_memory(monkeypatch):
    monkeypatch.setattr("mmdgm.data.tables.MOST_VALUES", 10_000)
    X = np.array([[f"a{i % 90}", f"b{i % 50}"] for i in range(100)], object)
    with pytest.raises(InputError, match=r"leave out .* column 0 with 90"):
        MMCVAClassifier(**SHORT).fit(X, np.arange(100) % 2)


@pytest.mark.parametrize("kind", ["S3", object])
def test_labels_of_bytes_are_refused(wine, kind):
    X, y, *_ = wine
    with pytest.raises(InputError, match="y holds bytes"):
        MMVAClassifier(**SHORT).fit(X, y.astype("S3").astype(kind))


@pytest.mark.parametrize("label", [[1], {1: 2}, {3}])
def test_labels_that_are_no_values_are_refused(wine, label):
    X, y, *_ = wine
    labels = np.empty(len(y), object)
    labels[:] = [label] * len(y)
    for refuse in (MMVAClassifier(**SHORT), MaxMarginImputer(max_epochs=1)):
        with pytest.raises(InputError, match=f"y holds {type(label).__name__}"):
            refuse.fit(X, labels)


@pytest.mark.parametrize("kind", [MMCVAClassifier, MMVAClassifier])
def test_a_batch_of_one_row_is_refused(wine, kind):
    X, y, *_ = wine
    with pytest.raises(InputError, match="batch_size=1"):
        kind(**SHORT, batch_size=1).fit(X, y)
    kind(**SHORT, batch_size=2).fit(X[:60], y[:60])


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (torch.zeros(178, 13, requires_grad=True), "requires grad"),
        (torch.zeros(178, 13, dtype=torch.bfloat16), "BFloat16"),
        (pandas.Series(range(178)), r"shape \(178,\)"),
        (pandas.DataFrame(np.zeros((178, 2)), columns=["a", "a"]), "two columns are called 'a'"),
        (pandas.DataFrame(np.eye(178)).astype(pandas.SparseDtype(float)), "column 0 is sparse"),
        (np.zeros((178, 0, 8)), "nothing in it"),
    ],
    ids=["gradient", "bfloat16", "series", "names", "sparse", "no pixels"],
)
def test_tables_of_forms_that_cannot_be_read_are_refused(wine, X, said):
    with pytest.raises(InputError, match=said):
        MMVAClassifier(**SHORT).fit(X, wine[1])


def test_labels_with_a_gradient_are_refused(wine):
    X, y, *_ = wine
    with pytest.raises(InputError, match="requires grad"):
        MMVAClassifier(**SHORT).fit(X, torch.tensor(y * 1.0, requires_grad=True))


@pytest.mark.parametrize("kind", ["Int64", "UInt8", "boolean", "int64[pyarrow]", "bool[pyarrow]"])
def test_labels_of_pandas_own_types_stay_what_they_are(wine, kind):
    """scikit-learn makes floats of them: True was predicted as 1.0."""
    X, y, *_ = wine
    labels = pandas.Series(y == 0 if "bool" in kind else y, dtype=kind)
    model = MMVAClassifier(**SHORT).fit(X, labels)
    assert model.classes_.dtype == labels.dtype.numpy_dtype
    assert 0 < model.score(X, labels) == model.score(X, labels.to_numpy(model.classes_.dtype))


@pytest.mark.parametrize("marker", [[1], np.array([0, 1]), {}])
def test_a_marker_that_is_not_one_value_is_refused(wine, marker):
    X, y, *_ = wine
    with pytest.raises(InputError, match=r"unlabeled=.*give one value"):
        MMVAClassifier(**SHORT, unlabeled=marker).fit(X, y)


def test_classes_that_no_file_could_hold_are_refused(wine):
    X, y, *_ = wine
    with pytest.raises(InputError, match=r"class a\\udcff is no valid Unicode"):
        MMVAClassifier(**SHORT).fit(X, np.array(["a\udcff", "b", "c"])[y])


def test_classes_that_look_the_same_are_refused(wine):
    X, y, *_ = wine
    with pytest.raises(InputError, match="form of their Unicode"):
        MMVAClassifier(**SHORT).fit(X, np.array(["\xe9", "e\u0301", "e"])[y])


def test_huge_values_after_training_give_numbers(wine):
    X, y, *_ = wine
    X = np.column_stack([X, y == 0])  # the last column holds two values
    model = MMVAClassifier(**SHORT).fit(X, y)
    scores = model.decision_function(np.where(np.arange(14) < [[3], [14], [0]], 1e308, -1.7e308))
    assert np.isfinite(scores).all()


def test_a_column_without_any_known_category_is_told():
    y = np.arange(60) % 3
    X = pandas.DataFrame({"size": np.arange(60.0) % 7, "kind": np.array(list("abc"))[y]})
    model = MMVAClassifier(**SHORT).fit(X, y)
    missing = model.decision_function(X.assign(kind=None))
    with pytest.warns(UserWarning, match=r"column kind: none of its values is a category.*, such as 1\.5") as told:
        np.testing.assert_array_equal(model.decision_function(X.assign(kind=1.5)), missing)
    assert len(told) == 1
    model.predict(X.assign(kind=["new", *X.kind[1:]]))  # one new category is no warning, and warnings are errors


@pytest.mark.parametrize("change", [lambda x: x * 1e300, lambda x: x + 1e9], ids=["huge", "far from zero"])
def test_images_that_float32_cannot_hold_are_scaled_first(change):
    """They became infinite, and then missing; or all equal."""
    images, y = load_digits().images[:40], np.arange(40) % 2
    model = MMVAClassifier(max_epochs=1, random_state=0, device="cpu", z=3).fit(change(images), y)
    np.testing.assert_allclose(model.inputs(change(images))[:, 0], images / 16, atol=1e-7)
    for pixel in (1e308, -1e308):
        with pytest.warns(UserWarning, match="another scale"):
            assert np.isfinite(model.decision_function(np.full((1, 8, 8), pixel))).all()


def test_a_huge_pixel_and_a_gaussian_likelihood_give_numbers():
    images, y = load_digits().images[:40], np.arange(40) % 2
    model = MMVAClassifier(max_epochs=1, random_state=0, device="cpu", z=3, likelihood="gaussian").fit(images, y)
    images[0, 0, 0] = 1e308
    assert np.isfinite(model.decision_function(images)).all()
