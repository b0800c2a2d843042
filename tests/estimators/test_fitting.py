"""How estimators train: epochs, early stopping, time, warm starts, and fits that fail."""

import time

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from conftest import QUICK, without_times
from mmdgm import MaxMarginImputer, MMCVAClassifier, MMVAClassifier
from mmdgm.data import fills
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.estimators import base, classifiers, training
from mmdgm.propagation.all_rows import propagate_to_all


def test_epochs_are_as_many_as_asked_for(wine):
    for epochs in (1, 2, 5):
        assert MMCVAClassifier(**{**QUICK, "max_epochs": epochs}).fit(wine[2], wine[3]).n_iter_ == epochs


def test_same_random_state_same_model(wine):
    _, _, X, y = wine
    a, b = (MMCVAClassifier(**{**QUICK, "max_epochs": 3}).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))


def test_early_stopping_and_time(wine):
    _, _, X, y = wine
    stopped = MMCVAClassifier(**{**QUICK, "max_epochs": 500}, validation_fraction=0.3, n_iter_no_change=1).fit(X, y)
    assert stopped.n_iter_ < 500
    assert MMCVAClassifier(**{**QUICK, "max_epochs": 10**6}, max_time=0.2).fit(X, y).n_iter_ < 10**5


@pytest.mark.parametrize("validation_fraction", [None, 0.3])
def test_time_that_does_not_run_out_changes_nothing(wine, validation_fraction):
    _, _, X, y = wine
    model = MMVAClassifier(**{**QUICK, "max_epochs": 110}, batch_size=20, n_iter_no_change=3)
    model.set_params(validation_fraction=validation_fraction)
    free, timed = (clone(model).set_params(max_time=max_time).fit(X, y) for max_time in (None, 1e9))
    np.testing.assert_array_equal(timed.decision_function(X), free.decision_function(X))
    assert without_times(timed.history_) == without_times(free.history_)
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
    assert f"{model.n_iter_} of 500 epochs" in capsys.readouterr().err


def test_only_an_end_by_max_time_is_told(wine, capsys, tmp_path):
    _, _, X, y = wine
    model = MMVAClassifier(**QUICK, max_time=1e9, verbose=1).fit(X, y)
    assert (model.n_iter_, model.n_iter_planned_) == (20, 20)
    model.save(tmp_path)
    assert MMVAClassifier.load(tmp_path).n_iter_planned_ == 20
    MMVAClassifier(**{**QUICK, "max_epochs": 500}, validation_fraction=0.3, n_iter_no_change=1, verbose=1).fit(X, y)
    assert "max_time" not in capsys.readouterr().err
    model = MMVAClassifier(**{**QUICK, "max_epochs": 9000}, max_time=0.01).fit(X, y)
    assert model.n_iter_ < model.n_iter_planned_ == 9000
    assert capsys.readouterr().err == ""


def test_a_long_filling_from_neighbours_is_told_before(monkeypatch, capsys):
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 8, 8)), np.arange(40) % 2
    with_holes = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    told = f"{np.isnan(with_holes).sum():,} missing values"
    for long, rows, verbose, expected in (
        (0, with_holes, 1, 1),
        (0, with_holes, 0, 0),
        (0, X, 1, 0),
        (1e9, X, 1, 0),
    ):
        monkeypatch.setattr(fills, "LONG", long)
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
    with pytest.raises(InputError, match="warm_start"):
        model.set_params(hidden=(7,)).fit(X, y)


@pytest.mark.filterwarnings("ignore::mmdgm.errors.CollapseWarning")  # it goes on from a model of one class
def test_a_warm_start_learns_by_the_parameters_and_labels_of_now(wine):
    X, truth, _, y = wine
    model = MMVAClassifier(**QUICK, warm_start=True).fit(X, y)
    model.set_params(C=7.0, margin=2.0, class_weight={0: 3.0, 1: 0.0, 2: 0.5}).fit(X, truth)
    assert (model.model_.settings.C, model.model_.settings.margin, model.model_.n_rows) == (7.0, 2.0, len(X))
    assert model.model_.class_weight.tolist() == [3.0, 0.0, 0.5]
    assert model.set_params(class_weight=None).fit(X, y).model_.class_weight is None


def test_fit_leaves_the_process_as_it_was(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    X, y = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 2
    MMVAClassifier(hidden=(8,), max_epochs=1, device="cpu").fit(X, y)
    assert not torch.backends.cudnn.benchmark


@pytest.mark.parametrize(("side", "propagate_labels", "asked"), [(16, True, 1), (16, False, 0), (8, True, 1)])
def test_labels_are_propagated_between_images(side, propagate_labels, asked, monkeypatch):
    calls = []

    def counted(x, y, **more):
        calls.append(len(x))
        return propagate_to_all(x, y, **more)

    monkeypatch.setattr(classifiers, "propagate_to_all", counted)
    X = np.random.default_rng(0).random((40, side, side))
    X[np.arange(40) % 2 == 1, side // 2 :] += 1  # otherwise the labels would say that the graph is poor
    y = np.where(np.arange(40) < 10, np.arange(40) % 2, -1)
    model = MMCVAClassifier(max_epochs=4, propagate_labels=propagate_labels, device="cpu", random_state=0).fit(X, y)
    assert calls == [40] * asked
    no_row_is_unlabeled = model.history_[0]["hat"] == 0
    assert no_row_is_unlabeled == bool(asked)
    given_last = model.history_[-1]["stage"] == "labels" and model.history_[0]["stage"] == "propagated"
    assert given_last == (side == 8)  # small images are compared by their pixels, which is less to be trusted


def test_labels_in_unequal_numbers_do_not_pull_images_into_their_class():
    X, y = load_digits(n_class=5, return_X_y=True)
    X, y, counts = X[:500].reshape(-1, 8, 8), y[:500], (12, 1, 1, 1, 1)
    few = np.full(500, -1)
    for k, n in enumerate(counts):
        few[np.flatnonzero(y == k)[:n]] = k
    fitted = MMCVAClassifier(max_epochs=40, augmentation=None, random_state=0).fit(X, few)
    assert (fitted.predict(X) == 0).mean() < 0.3  # 0.2 of the images, three quarters of the labels
    alone = MMCVAClassifier(max_epochs=1, augmentation=None, propagate_labels=False).fit(X, few)
    ratio = alone.model_.balance_ratio.numpy() * np.array(counts) / 16
    np.testing.assert_allclose(ratio, (np.array(counts) + 5) / 41, rtol=1e-5)


class Broken(Exception):
    """What goes wrong in the middle of a fit."""


def break_training(monkeypatch, error, *, after=1):
    """Raise in the middle of every training that follows, after so many log lines."""
    fit = training.Trainer.fit

    def fit_a_little(self, store, *, on_log=(), **more):
        seen = []

        def listener(record):
            seen.append(record)
            if len(seen) == after:
                raise error

        return fit(self, store, on_log=[*on_log, listener], **more)

    monkeypatch.setattr(training.Trainer, "fit", fit_a_little)


@pytest.mark.parametrize("error", [Broken(), KeyboardInterrupt(), InputError("wrong")], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("more", [{}, {"warm_start": True}, {"validation_fraction": 0.3}], ids=str)
@pytest.mark.parametrize("kind", [MMCVAClassifier, MMVAClassifier])
def test_a_fit_that_fails_leaves_the_estimator_as_it_was(wine, monkeypatch, kind, more, error):
    X, truth, with_holes, few = wine
    model = kind(**{**QUICK, "max_epochs": 4}, **more).fit(with_holes, few)
    names, before = set(vars(model)), (model.decision_function(X), model.impute(with_holes, n_iter=3))
    attributes = model.n_features_in_, model.n_iter_, list(model.history_), model.classes_.tolist()
    with monkeypatch.context() as patch:
        break_training(patch, error, after=3)
        other = (X, truth) if "warm_start" in more else (X[:, :4] * 7, np.array(["a", "b", "c"])[truth])
        with pytest.raises(type(error)):
            model.fit(*other)
    assert set(vars(model)) == names
    np.testing.assert_array_equal(model.decision_function(X), before[0])
    np.testing.assert_array_equal(model.impute(with_holes, n_iter=3), before[1])
    assert attributes == (model.n_features_in_, model.n_iter_, model.history_, model.classes_.tolist())
    again = clone(model).fit(with_holes, few)
    np.testing.assert_array_equal(again.decision_function(X), before[0])


@pytest.mark.parametrize("error", [Broken(), KeyboardInterrupt()], ids=lambda e: type(e).__name__)
def test_after_a_first_fit_that_fails_nothing_is_fitted(wine, monkeypatch, error):
    X, y, *_ = wine
    for model in (
        MMCVAClassifier(**QUICK),
        MMVAClassifier(**QUICK),
        MaxMarginImputer(max_epochs=20, device="cpu"),
    ):
        names = set(vars(model))
        with monkeypatch.context() as patch:
            break_training(patch, error)
            with pytest.raises(type(error)):
                model.fit(X, y)
        assert set(vars(model)) == names
        with pytest.raises(NotFittedError):
            model.transform(X)
        if hasattr(model, "predict"):
            for ask in (model.predict, model.decision_function, model.impute, model.score_samples):
                with pytest.raises(NotFittedError):
                    ask(X)
            with pytest.raises(NotFittedError):
                model.sample(3)


def test_a_fit_that_diverges_or_gets_other_data_leaves_the_estimator_as_it_was(wine):
    X, y, *_ = wine
    model = MMVAClassifier(**QUICK).fit(X, y)
    before = model.decision_function(X)
    for change, X_new, error in (
        ({"learning_rate": 1e30}, X, TrainingStopped),
        ({"learning_rate": 1e-3}, np.where(np.arange(13) == 2, np.nan, X), InputError),
        ({"margin": -1}, X, InputError),
        ({"margin": None, "device": "tpu"}, X[:, :2], InputError),
    ):
        with pytest.raises(error):
            model.set_params(**change).fit(X_new, y)
        np.testing.assert_array_equal(model.decision_function(X), before)


def test_an_imputer_s_fit_that_fails_leaves_it_as_it_was(wine, monkeypatch):
    X, y, with_holes, _ = wine
    imputer = MaxMarginImputer(max_epochs=2, n_iter=3, random_state=0, device="cpu").fit(with_holes)
    before = imputer.transform(with_holes)
    break_training(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        imputer.fit(X[:, :3], y)
    np.testing.assert_array_equal(imputer.transform(with_holes), before)
