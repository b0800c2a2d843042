"""Estimators in folders and pickles: what comes back predicts as before."""

import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mmdgm
from conftest import QUICK, without_times
from mmdgm import MMCVAClassifier, MMVAClassifier
from mmdgm.errors import InputError
from mmdgm.files import read_json


def test_it_is_saved_loaded_pickled_and_cloned(fitted, wine, tmp_path):
    X = wine[2]
    fitted.save(tmp_path / "model")
    for other in (MMCVAClassifier.load(tmp_path / "model"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(other.decision_function(X), fitted.decision_function(X))
        np.testing.assert_array_equal(other.sample(4, random_state=1), fitted.sample(4, random_state=1))
    assert clone(fitted).get_params() == fitted.get_params()
    with pytest.raises(InputError, match="MMCVAClassifier, not MMVAClassifier"):
        MMVAClassifier.load(tmp_path / "model")


@pytest.mark.parametrize("kind", [MMCVAClassifier, MMVAClassifier])
def test_a_warm_start_after_load_is_that_of_the_saved_model(wine, tmp_path, kind):
    _, truth, X, y = wine
    model = kind(**QUICK, warm_start=True, class_weight="balanced").fit(X, y)
    model.save(tmp_path)
    again = kind.load(tmp_path, device="cpu").fit(X, truth)
    np.testing.assert_array_equal(again.decision_function(X), model.fit(X, truth).decision_function(X))
    assert without_times(again.history_) == without_times(model.history_)


def test_odd_markers_and_weights_are_saved(wine, tmp_path):
    _, _, X, few = wine
    y = np.where(few < 0, np.nan, few)
    model = MMCVAClassifier(**QUICK, unlabeled=float("nan"), class_weight={0.0: 1.0, 1.0: 2.0}).fit(X, y)
    model.save(tmp_path)
    again = MMCVAClassifier.load(tmp_path)
    assert again.class_weight == {0.0: 1.0, 1.0: 2.0}
    assert np.isnan(again.unlabeled)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("kind", [MMCVAClassifier, MMVAClassifier])
def test_a_weighted_model_is_pickled_and_saved(wine, tmp_path, kind):
    X, y, with_holes, few = wine
    model = kind(**{**QUICK, "max_epochs": 3}, class_weight="balanced").fit(with_holes, few)
    counts = np.bincount(few[few >= 0])
    np.testing.assert_allclose(model.model_.class_weight, counts.sum() / (3 * counts), rtol=1e-6)
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(other.model_.class_weight, model.model_.class_weight)
    model.save(tmp_path)
    again = mmdgm.load(tmp_path, device="cpu")
    assert again.class_weight == "balanced"
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(
        other.set_params(warm_start=True).fit(X, y).decision_function(X),
        model.set_params(warm_start=True).fit(X, y).decision_function(X),
    )


def test_a_saved_folder_holds_three_files_and_gives_back_all_attributes(fitted, wine, tmp_path):
    X = wine[2]
    fitted.save(tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "config.json",
        "metrics.csv",
        "model.safetensors",
    ]
    for load in (mmdgm.load, MMCVAClassifier.load):
        other = load(tmp_path / "model", device="cpu")
        assert type(other) is MMCVAClassifier
        assert other.history_ == fitted.history_
        assert (other.n_iter_, other.n_iter_planned_) == (fitted.n_iter_, fitted.n_iter_planned_)
        assert (other.codec_, other.config_) == (fitted.codec_, fitted.config_)
        np.testing.assert_array_equal(other.impute(X, n_iter=3), fitted.impute(X, n_iter=3))
        np.testing.assert_array_equal(other.score_samples(X), fitted.score_samples(X))
        np.testing.assert_array_equal(other.transform(X), fitted.transform(X))
        assert other.get_params() == fitted.get_params()


def test_what_is_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        MMCVAClassifier().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda saved: saved["model"].update(z=5), "do not make"),
        (lambda saved: saved["model"].update(kind="Later"), "Later"),
        (lambda saved: saved["parameters"].update(later=1), "do not make"),
        (lambda saved: saved.pop("codec"), "do not make"),
        (lambda saved: saved.update(estimator="SVC"), "SVC"),
    ],
)
def test_a_config_of_another_model_is_refused_with_one_line(fitted, tmp_path, change, said):
    fitted.save(tmp_path)
    saved = read_json(tmp_path / "config.json")
    change(saved)
    (tmp_path / "config.json").write_text(json.dumps(saved))
    with pytest.raises(InputError, match=said) as caught:
        mmdgm.load(tmp_path)
    assert "\n" not in str(caught.value)
