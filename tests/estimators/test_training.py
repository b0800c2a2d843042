"""A classifier that collapses is found, trained again more gently, and told of."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from mmdgm import MMCVAClassifier, MMVAClassifier
from mmdgm.errors import CollapseWarning
from mmdgm.estimators import training

IMAGES, DIGITS = load_digits().images[:600], load_digits().target[:600]
TOO_FAST = {"learning_rate": 0.03, "random_state": 0, "max_epochs": 12, "device": "cpu", "precision": "32-true"}


@pytest.mark.slow
def test_a_collapse_is_mended_by_one_restart_and_told():
    model = MMVAClassifier(**TOO_FAST)
    with pytest.warns(CollapseWarning, match=r"one class; it was repeated with learning_rate=0.003: it does no more"):
        model.fit(IMAGES, DIGITS)
    assert model.score(IMAGES, DIGITS) > 0.5
    assert {row["stage"] for row in model.history_} == {"labels", "labels, repeated"}
    assert max(row["learning_rate"] for row in model.history_ if row["stage"] == "labels, repeated") <= 0.003


def collapse(monkeypatch, times):
    """Let the classifier seem to have collapsed so many times."""
    left = [True] * times
    monkeypatch.setattr(training, "collapsed", lambda model, store: bool(left and left.pop()))


OWN = {"hidden": (16,), "max_epochs": 20, "random_state": 0, "device": "cpu"}


def test_a_second_collapse_is_told_and_training_is_not_repeated_again(wine, monkeypatch):
    X, y, *_ = wine
    collapse(monkeypatch, 9)
    with pytest.warns(CollapseWarning, match="did so again; give a lower learning_rate") as told:
        model = MMVAClassifier(**OWN).fit(X, y)
    assert len(told) == 1
    assert [row["stage"] for row in model.history_] == ["labels"] * 20 + ["labels, repeated"] * 20


def test_a_repeated_training_is_that_of_the_lower_rate_alone(wine, monkeypatch):
    X, y, *_ = wine
    collapse(monkeypatch, 1)
    with pytest.warns(CollapseWarning, match=r"learning_rate=0.0001: it does no more"):
        model = MMVAClassifier(**OWN).fit(X, y)
    monkeypatch.setattr(training, "gentler", lambda plan: plan)
    collapse(monkeypatch, 1)
    with pytest.warns(CollapseWarning):
        same = MMVAClassifier(**OWN).fit(X, y)
    monkeypatch.setattr(training, "collapsed", lambda model, store: False)
    np.testing.assert_array_equal(same.decision_function(X), MMVAClassifier(**OWN).fit(X, y).decision_function(X))
    assert not np.array_equal(model.decision_function(X), same.decision_function(X))


def test_what_is_no_collapse(wine):
    X, y, *_ = wine
    MMVAClassifier(**{**OWN, "max_epochs": 1}).fit(X, y)  # too short to tell: warnings are errors here
    MMVAClassifier(**OWN, class_weight={0: 1.0, 1: 0.0, 2: 0.0}).fit(X, y)  # wanted
    rng = np.random.default_rng(0)
    MMCVAClassifier(**OWN).fit(rng.normal(size=(200, 3)), (np.arange(200) % 20 == 0).astype(int))  # a rare class


JOBS = {
    "torchrun": {
        "RANK": "1",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "1",
        "TORCHELASTIC_RUN_ID": "none",
    },
    "SLURM": {
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NAME": "train",
        "SLURM_NTASKS": "4",
        "SLURM_PROCID": "2",
        "SLURM_LOCALID": "2",
        "SLURM_NODEID": "0",
        "SLURM_NTASKS_PER_NODE": "4",
        "SLURM_STEP_NODELIST": "nowhere",
    },
}


@pytest.mark.parametrize("job", JOBS)
def test_a_fit_in_a_job_of_several_processes_runs_alone(wine, monkeypatch, job):
    _, _, X, y = wine
    expected = MMCVAClassifier(**OWN).fit(X, y).decision_function(X)
    for name, value in JOBS[job].items():
        monkeypatch.setenv(name, value)
    np.testing.assert_array_equal(MMCVAClassifier(**OWN).fit(X, y).decision_function(X), expected)
