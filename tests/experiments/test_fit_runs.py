"""Runs of own data: what they leave, how they go on after an interruption, and what they refuse."""

import dataclasses
import functools

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.datasets import load_digits

import mmdgm
from conftest import without_times
from mmdgm.data.labeled_files import read_data
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.estimators import fitting, training
from mmdgm.experiments import run_folder
from mmdgm.experiments.fit_runs import FitOptions, check_fit, fit_run
from mmdgm.experiments.run_folder import RunFolder
from mmdgm.experiments.tracking import Tracking
from mmdgm.files import read_json
from mmdgm.progress import read_metrics
from mmdgm.training.loop import checkpoint_step

OPTIONS = FitOptions(epochs=20, seed=5, device="cpu")


@pytest.fixture(name="data")
def make_data(tmp_path, wine, request):
    """Wine with few labels: whole, or with missing values; or images."""
    kind = getattr(request, "param", "holes")
    X, y, with_holes, few = wine
    if kind == "images":
        digits = load_digits()
        x, y = digits.images[:90], np.where(np.arange(90) < 40, digits.target[:90], -1)
    else:
        x, y = (with_holes if kind == "holes" else X), few
    np.savez(tmp_path / "own.npz", x=x, y=y)
    return read_data(tmp_path / "own.npz")


def interrupt(monkeypatch, at):
    """A fit that saves at every log line, and is interrupted at the log line of this number (None: never)."""
    monkeypatch.setattr(fitting, "StagedTraining", functools.partial(fitting.StagedTraining, checkpoint_seconds=0.0))
    seen = []

    class Listener(Tracking):
        def __call__(self, record):
            seen.append(record.step)
            if len(seen) == at:
                raise KeyboardInterrupt

    monkeypatch.setattr(run_folder, "tracking", lambda *_, **__: Listener({}))
    return seen


@pytest.mark.parametrize("data", ["whole", "holes", "images"], indirect=True)
@pytest.mark.parametrize("model", ["mmcva", "mmva"])
def test_an_interrupted_run_ends_with_the_weights_of_the_uninterrupted_one(data, model, tmp_path, quiet, monkeypatch):
    options = dataclasses.replace(OPTIONS, model=model, epochs=12 if data.x.ndim > 2 else 20)
    whole, broken = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "broken")
    expected = fit_run(data, whole, options, console=quiet)
    lines = len(read_metrics(whole.metrics))
    assert lines >= 10
    resume = False
    for at in (1, lines // 3, lines // 3):  # before the first checkpoint; in the first half; beyond it
        with monkeypatch.context() as patch:
            seen = interrupt(patch, at)
            before = checkpoint_step(broken.checkpoint)
            with pytest.raises(KeyboardInterrupt):
                fit_run(data, broken, options, console=quiet, resume=resume)
            assert len(seen) == at
            assert seen[0] > before
        assert not broken.weights.exists()
        assert broken.status() == "running"
        with pytest.raises(InputError, match="--resume"):
            mmdgm.load(broken.path)
        resume = True
    assert 0 < checkpoint_step(broken.checkpoint) < expected_steps(whole)
    result = fit_run(data, broken, options, console=quiet, resume=True)
    one, other = load_file(whole.weights), load_file(broken.weights)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert without_times(read_metrics(whole.metrics)) == without_times(read_metrics(broken.metrics))
    for name in ("training_accuracy_on_labeled_rows", "epochs", "planned_epochs", "status"):
        assert result[name] == expected[name]
    first, second = (mmdgm.load(folder.path, device="cpu") for folder in (whole, broken))
    np.testing.assert_array_equal(first.decision_function(data.x), second.decision_function(data.x))


def expected_steps(folder):
    return read_metrics(folder.metrics)[-1]["step"]


def test_an_interrupted_run_is_the_fit_in_python(data, tmp_path, quiet, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt(patch, 5)
        with pytest.raises(KeyboardInterrupt):
            fit_run(data, RunFolder(tmp_path / "run"), OPTIONS, console=quiet)
    fit_run(data, RunFolder(tmp_path / "run"), OPTIONS, console=quiet, resume=True)
    again = mmdgm.load(tmp_path / "run", device="cpu")
    model = mmdgm.MMCVAClassifier(max_epochs=20, random_state=5, device="cpu").fit(data.x, data.y)
    np.testing.assert_array_equal(again.decision_function(data.x), model.decision_function(data.x))
    assert without_times(again.history_) == without_times(model.history_)


def test_the_result_says_what_was_trained_on(data, tmp_path, quiet):
    result = fit_run(data, RunFolder(tmp_path / "run"), OPTIONS, console=quiet)
    assert result == read_json(tmp_path / "run" / "result.json")
    assert (result["status"], result["estimator"], result["seed"]) == ("done", "MMCVAClassifier", 5)
    assert (result["epochs"], result["planned_epochs"]) == (20, 20)
    labeled = data.y >= 0
    assert (result["data"]["rows"], result["data"]["labeled"]) == (178, labeled.sum())
    assert result["data"]["missing_values"] == np.isnan(data.x).sum()
    model = mmdgm.load(tmp_path / "run", device="cpu")
    assert result["training_accuracy_on_labeled_rows"] == model.score(data.x, data.y)
    assert fit_run(data, RunFolder(tmp_path / "run"), OPTIONS, console=quiet, resume=True) == result  # done already


def test_a_run_is_not_written_over_nor_resumed_as_another(data, trained, tmp_path, quiet):
    folder = RunFolder(tmp_path / "run")
    fit_run(data, folder, dataclasses.replace(OPTIONS, epochs=1), console=quiet)
    with pytest.raises(InputError, match="--resume"):
        fit_run(data, folder, dataclasses.replace(OPTIONS, epochs=1), console=quiet)
    for change, said in (
        ({"epochs": 2}, "epochs=1, not 2"),
        ({"epochs": 1, "model": "mmva"}, "model=mmcva, not mmva"),
        ({"epochs": 1, "seed": 6}, "seed 5, not 6"),
    ):
        with pytest.raises(InputError, match=said):
            fit_run(data, folder, dataclasses.replace(OPTIONS, **change), console=quiet, resume=True)
    with pytest.raises(InputError, match="data="):
        check_fit(folder, dataclasses.replace(OPTIONS, epochs=1), tmp_path / "other.npz", resume=True)
    with pytest.raises(InputError, match="preset"):
        check_fit(RunFolder(trained), dataclasses.replace(OPTIONS, seed=3), data.path, resume=True)


def test_a_fit_that_cannot_work_leaves_a_stopped_run(data, tmp_path, quiet, monkeypatch):
    def diverge(*words, **more):
        raise TrainingStopped("stopped at step 1: no number")

    monkeypatch.setattr(training.Trainer, "fit", diverge)
    with pytest.raises(TrainingStopped):
        fit_run(data, RunFolder(tmp_path / "run"), OPTIONS, console=quiet)
    result = read_json(tmp_path / "run" / "result.json")
    assert (result["status"], "no number" in result["reason"]) == ("stopped", True)
    with pytest.raises(InputError, match="no number"):
        mmdgm.load(tmp_path / "run")
    with pytest.raises(InputError, match="mmcva"):
        fit_run(data, RunFolder(tmp_path / "other"), dataclasses.replace(OPTIONS, model="svm"), console=quiet)
    assert not (tmp_path / "other").exists()


def test_columns_keep_their_names(tmp_path, wine, quiet):
    X, y, *_ = wine
    lines = ["alcohol,acid,class", *(f"{row[0]},{row[1]},{'abc'[label]}" for row, label in zip(X, y, strict=True))]
    (tmp_path / "wine.csv").write_text("\n".join(lines) + "\n")
    data = read_data(tmp_path / "wine.csv", target="class")
    fit_run(data, RunFolder(tmp_path / "run"), dataclasses.replace(OPTIONS, epochs=2), console=quiet)
    model = mmdgm.load(tmp_path / "run", device="cpu")
    assert model.codec_.names == ["alcohol", "acid"]
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert RunFolder(tmp_path / "run").about()["data"]["target"] == "class"
