"""`decision_function(X, samples=…)`: draws of the scores against their closed-form mean and variance."""

import dataclasses

import numpy as np
import pytest
import torch

from conftest import QUICK
from mmdgm import MMVAClassifier
from mmdgm.errors import InputError
from mmdgm.models import MaxMarginVAEConfig

DRAWS = 4000


@pytest.fixture(scope="module", name="model")
def make_model(wine):
    return MMVAClassifier(**QUICK).fit(wine[2], wine[3])


def assert_mean_and_deviation(draws, mean, deviation):
    """z-scores of the mean over draws, and standard deviations within 8 %, which is 5 standard errors."""
    far = np.abs(draws.mean(axis=0) - mean) / (deviation / np.sqrt(len(draws)))
    assert far.max() < 4.5
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=0.08)


def test_draws_have_the_mean_and_spread_of_the_posterior(model, wine):
    X = wine[2][:10]
    draws = model.decision_function(X, samples=DRAWS)
    assert draws.shape == (DRAWS, 10, 3)
    length = np.linalg.norm(model.transform(X, features=True), axis=1)
    assert_mean_and_deviation(draws, model.decision_function(X), np.repeat(length[:, None], 3, axis=1))
    q = model.model_.classifier_posterior
    assert q.loc.shape == (3, model.model_.classifier.in_features)
    assert torch.equal(q.loc, model.model_.classifier.weight)
    assert (q.scale == 1).all()


def test_features_that_are_codes_are_drawn_too(wine):
    class OfCodes(MMVAClassifier):
        def _config(self, codec):
            config: MaxMarginVAEConfig = super()._config(codec)
            return dataclasses.replace(config, features="sample", prior_variance=0.25)

    X = wine[0]
    model = OfCodes(**{**QUICK, "max_epochs": 60}).fit(X, wine[1])
    assert model.score(X, wine[1]) > 0.85  # trained on draws of z, it predicts by E[z]
    rows = X[:10]
    draws = model.decision_function(rows, samples=DRAWS)
    with torch.no_grad():
        qz = model.model_.encoder(torch.from_numpy(model.inputs(rows))).qz
    mean, variance = qz.loc.double().numpy(), qz.variance.double().numpy()
    weights = model.model_.classifier.weight.detach().double().numpy()
    of_scores = variance @ np.square(weights).T + 0.25 * (np.square(mean) + variance).sum(axis=1, keepdims=True)
    assert_mean_and_deviation(draws, model.decision_function(rows), np.sqrt(of_scores))


def test_a_row_s_draws_depend_on_the_row_and_the_seed_alone(model, wine):
    X = wine[2][:7]
    together = model.decision_function(X, samples=3, random_state=1)
    alone = np.concatenate([model.decision_function(row[None], 3, random_state=1) for row in X], axis=1)
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-5)
    assert not np.allclose(together, model.decision_function(X, 3, random_state=2))
    np.testing.assert_allclose(model.decision_function(X, 5, random_state=1)[:3], together, rtol=1e-5, atol=1e-5)


def test_two_classes_have_one_score_per_draw(wine):
    X, y, *_ = wine
    model = MMVAClassifier(**QUICK).fit(X[y < 2], y[y < 2])
    draws = model.decision_function(X[:10], samples=DRAWS)
    assert draws.shape == (DRAWS, 10)
    length = np.linalg.norm(model.transform(X[:10], features=True), axis=1)
    assert_mean_and_deviation(draws, model.decision_function(X[:10]), np.sqrt(2) * length)


def test_draws_that_mean_nothing_are_refused(model, wine):
    for wrong in ({"samples": 0}, {"samples": 2.5}, {"samples": 2, "random_state": -1}):
        with pytest.raises(InputError):
            model.decision_function(wine[2], **wrong)
