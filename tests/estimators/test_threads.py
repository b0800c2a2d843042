"""Fits and predictions in several threads give what they give in one."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from conftest import holes
from mmdgm import MaxMarginImputer, MMCVAClassifier, MMVAClassifier

IMAGES, DIGITS = load_digits().images[:80], load_digits().target[:80]


def table(wine, seed):
    _, _, X, y = wine
    model = MMCVAClassifier(hidden=(16,), max_epochs=8, random_state=seed, device="cpu").fit(X, y)
    return np.column_stack([model.decision_function(X), model.impute(X, n_draws=2)[1]])


def images(wine, seed):
    model = MMVAClassifier(z=3, max_epochs=2, random_state=seed, device="cpu").fit(holes(IMAGES), DIGITS)
    return np.column_stack([model.decision_function(IMAGES), model.impute(holes(IMAGES), n_iter=3).reshape(80, -1)])


def imputer(wine, seed):
    _, _, X, _ = wine
    return MaxMarginImputer(max_epochs=8, random_state=seed, device="cpu").fit_transform(X)


@pytest.mark.parametrize("work", [table, images, imputer])
def test_two_threads_give_what_one_gives(wine, work):
    expected = [work(wine, seed) for seed in range(4)]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda seed: work(wine, seed), range(4)))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_fits_and_predictions_leave_torch_s_random_numbers_alone(wine):
    for work in (table, images, imputer):
        before = torch.random.get_rng_state()
        work(wine, 0)
        assert torch.equal(torch.random.get_rng_state(), before)
