"""The end of a fit's time: for all the work inside it, in its own thread alone."""

import math
import threading
import time

import numpy as np
import pytest
from sklearn.datasets import load_digits

from conftest import holes
from mmdgm import MaxMarginImputer, MMCVAClassifier, MMVAClassifier
from mmdgm.data import deadline
from mmdgm.training import trainer

LONG = 2.0  # seconds that a fit with less than half a second may take on a busy machine


def test_time_is_over_after_its_end_and_only_inside():
    assert (deadline.is_set(), deadline.is_over()) == (False, False)
    with deadline.ends_at(time.monotonic() - 1):
        assert deadline.is_over()
        with pytest.raises(deadline.TimeIsOver):
            deadline.look()
        seen = []
        thread = threading.Thread(target=lambda: seen.append(deadline.is_over()))
        thread.start()
        thread.join()
        assert seen == [False]
        with deadline.ends_at(math.inf):
            deadline.look()
        assert deadline.is_over()
    with deadline.ends_at(time.monotonic() + 100):
        assert (deadline.is_set(), deadline.is_over()) == (True, False)
    deadline.look()


def wide(n, d, share=0.0):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    X = rng.normal(size=(n, d)) + (np.arange(d) < 20) * y[:, None]
    return holes(X, share), np.where(np.arange(n) < n // 5, y, -1)


def digits(n, share=0.0):
    images, y = load_digits(return_X_y=True)
    images = np.kron(images[:n].reshape(-1, 8, 8), np.ones((4, 4)))
    return holes(images, share), np.where(np.arange(n) < 100, y[:n], -1)


CASES = {
    "wide": (wide, (300, 3000)),
    "wide with holes": (wide, (300, 3000, 0.2)),
    "long with holes": (wide, (20_000, 60, 0.2)),
    "many labels": (wide, (6_000, 30)),
    "images": (digits, (1200,)),
    "images with holes": (digits, (1200, 0.3)),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", [MMCVAClassifier, MMVAClassifier, MaxMarginImputer])
def test_max_time_holds_wherever_the_time_goes(kind, case):
    make, size = CASES[case]
    X, y = make(*size)
    model = kind(max_time=0.3, random_state=0, device="cpu")
    began = time.process_time()  # other processes may take this one's turn
    model.fit(X, y)
    assert time.process_time() - began < LONG
    if kind is not MaxMarginImputer:
        assert model.predict(X[:50]).shape == (50,)
        assert np.isfinite(model.decision_function(X[:50])).all()


def test_a_fit_whose_time_is_over_at_once_takes_a_step_and_is_fitted(wine):
    _, _, X, y = wine
    for kind in (MMCVAClassifier, MMVAClassifier):
        model = kind(max_time=1e-9, random_state=0, device="cpu").fit(X, y)
        assert model.history_[-1]["step"] == 1
        assert np.isfinite(model.decision_function(X)).all()
        assert np.isfinite(model.impute(X)).all()


def test_a_long_training_in_little_time_does_not_wait_for_a_compiler(wine, monkeypatch):
    def compiled(objective):
        raise AssertionError("compiling takes up to a minute")

    monkeypatch.setattr(trainer, "compile_objective", compiled)
    began = time.monotonic()
    MMVAClassifier(max_epochs=10**9, max_time=0.2, random_state=0, device="cpu", hidden=(8,)).fit(*wine[:2])
    assert time.monotonic() - began < 10


def test_much_time_changes_nothing(wine):
    _, _, X, y = wine
    own = {"random_state": 0, "device": "cpu", "max_epochs": 5}
    expected = MMCVAClassifier(**own).fit(X, y).decision_function(X)
    np.testing.assert_array_equal(MMCVAClassifier(**own, max_time=1000).fit(X, y).decision_function(X), expected)
