"""MaxMarginImputer: with classes, without, and beside other targets."""

import pickle

import numpy as np
import pandas
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from mmdgm import MaxMarginImputer, MMCVAClassifier


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


IMPUTER = MaxMarginImputer(max_epochs=20, n_iter=10, random_state=0, device="cpu")


def test_missing_values_are_filled_better_than_by_the_mean_and_others_stay(wine):
    X, _, with_holes, _ = wine
    before, missing = with_holes.copy(), np.isnan(with_holes)
    filled = clone(IMPUTER).set_params(max_epochs=None).fit_transform(with_holes)
    np.testing.assert_array_equal(with_holes, before)
    np.testing.assert_array_equal(filled[~missing], X[~missing])
    scaled, by_mean = ((rows - X) / X.std(axis=0) for rows in (filled, np.nanmean(with_holes, axis=0)))
    assert np.square(scaled[missing]).mean() < 0.8 * np.square(by_mean[missing]).mean()


def test_with_classes_it_is_the_classifier_and_without_a_model_of_the_rows(wine):
    _, _, X, few = wine
    classifier = MMCVAClassifier(max_epochs=20, random_state=0, device="cpu").fit(X, few)
    imputer = clone(IMPUTER).fit(X, few)
    np.testing.assert_array_equal(imputer.transform(X), classifier.impute(X, n_iter=10))
    alone = clone(IMPUTER).fit(X)
    assert not hasattr(alone.estimator_, "classes_")
    rounds = [model.impute(X, n_iter=4, method="rounds") for model in (alone.estimator_, imputer.estimator_)]
    assert not np.array_equal(*rounds)
    same = clone(IMPUTER).fit(X)
    np.testing.assert_array_equal(alone.transform(X), same.transform(X))
    whole = wine[0]
    np.testing.assert_array_equal(alone.transform(whole), whole)


def test_it_is_pickled_and_takes_images(wine):
    X = wine[2]
    imputer = clone(IMPUTER).fit(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(imputer)).transform(X), imputer.transform(X))
    images = load_digits().images[:40]
    missing = np.zeros(images.shape, bool)
    missing[:, 3:5, 3:5] = True
    filled = clone(IMPUTER).set_params(max_epochs=1).fit_transform(np.where(missing, np.nan, images))
    np.testing.assert_array_equal(filled[~missing], images[~missing])
    assert ((filled >= 0) & (filled <= 16)).all()


def test_names_of_columns_are_those_of_the_last_fit(wine):
    X = wine[2]
    frame = pandas.DataFrame(X[:, :3], columns=["a", "b", "c"])
    imputer = clone(IMPUTER).set_params(max_epochs=2).fit(frame)
    filled = imputer.transform(frame)
    assert list(filled.columns) == ["a", "b", "c"]
    assert imputer.get_feature_names_out().tolist() == ["a", "b", "c"]
    assert imputer.fit(X[:, :2]).n_features_in_ == 2
    assert not hasattr(imputer, "feature_names_in_")
    assert imputer.get_feature_names_out().tolist() == ["x0", "x1"]
