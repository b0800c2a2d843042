"""The classifiers on tables: few labels and missing values, and what a fitted one is asked."""

import copy

import numpy as np
import pytest
from sklearn.datasets import load_wine

from mmdgm import MMCVAClassifier
from mmdgm.errors import InputError


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
    np.testing.assert_allclose(fitted.impute(X[:9], n_iter=7)[::-1], fitted.impute(X[:9][::-1], n_iter=7), rtol=1e-5)
    np.testing.assert_allclose(fitted.score_samples(X[3:4]), fitted.score_samples(X[:9])[3:4], rtol=1e-5)


def test_samples_lie_on_the_data_s_scale(fitted, wine):
    X = wine[0]
    for label in (0, 1, 2):
        sampled = fitted.sample(50, y=label, random_state=0)
        assert (sampled >= X.min(axis=0) - 1e-6).all()
        assert (sampled <= X.max(axis=0) * (1 + 1e-6)).all()
    of_classes = fitted.sample(30, y=np.repeat([0, 1, 2], 10), random_state=0)
    assert fitted.score(of_classes, np.repeat([0, 1, 2], 10)) > 0.9
    with pytest.raises(InputError, match="no class 7"):
        fitted.sample(2, y=7)


def test_samples_are_of_their_class_in_whatever_order_classes_are(on_images):
    names = np.array(["Trouser", "Bag", "Coat", "Ankle boot", "Shirt", "Dress", "Sandal", "Top", "Hat", "Cap"])
    named = copy.copy(on_images)
    named.classes_ = names  # a data set's order, as that of fashion
    for number, name in enumerate(names):
        np.testing.assert_array_equal(
            named.sample(2, y=name, random_state=1), on_images.sample(2, y=number, random_state=1)
        )
    np.testing.assert_array_equal(
        named.sample(10, y=names, random_state=1), on_images.sample(10, y=np.arange(10), random_state=1)
    )


def test_a_row_of_a_table_may_have_no_observed_value():
    X, y = load_wine(return_X_y=True)
    X[6] = np.nan
    model = MMCVAClassifier(max_epochs=2, device="cpu", random_state=0).fit(X, y)
    filled = model.impute(X[5:8])
    assert np.isfinite(filled).all()
    np.testing.assert_allclose(filled[1], np.nanmean(X, axis=0), rtol=0.3)
    assert model.predict(X[6:7])[0] in (0, 1, 2)
