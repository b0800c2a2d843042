"""The estimated accuracy on new rows: folds, values, time, and what an interruption leaves."""

import dataclasses
import io
import json

import numpy as np
import pytest
from rich.console import Console

import mmdgm
from mmdgm.data.labeled_files import read_data
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.experiments import honest_estimate
from mmdgm.experiments.fit_runs import FitOptions, fit_run
from mmdgm.experiments.honest_estimate import Tally, add_estimate, fold_numbers
from mmdgm.experiments.run_folder import RunFolder
from mmdgm.files import read_json

OPTIONS = FitOptions(epochs=3, seed=5, device="cpu")


def data_of(folder, x, y):
    np.savez(folder / "own.npz", x=x, y=y)
    return read_data(folder / "own.npz")


@pytest.fixture(name="data")
def make_data(tmp_path, wine):
    """Wine with few labels and missing values."""
    return data_of(tmp_path, wine[2], wine[3])


@pytest.fixture(name="run")
def make_run(data, tmp_path, quiet):
    """A finished run without an estimate."""
    folder = RunFolder(tmp_path / "run")
    fit_run(data, folder, OPTIONS, console=quiet)
    return folder


def without_seconds(estimate):
    return {name: value for name, value in estimate.items() if name != "seconds"}


# --- folds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "folds", "tested"),
    [(4, 4, 4), (20, 5, 20), (200, 5, 200), (201, 3, 201), (1000, 3, 1000), (1001, 1, 201), (30_000, 1, 2000)],
)
def test_the_number_of_folds_depends_on_the_number_of_labels(labels, folds, tested):
    y = np.concatenate([np.arange(labels) % 2, np.full(50, -1)])
    of_rows = fold_numbers(y, -1, 0)
    assert len(of_rows) == labels  # unlabeled rows have none
    assert set(of_rows) - {-1} == set(range(folds))
    assert (of_rows >= 0).sum() == tested


@pytest.mark.parametrize("counts", [(2, 2), (2, 3, 40), (1, 7, 9, 30), (100, 101, 2), (700, 2, 1, 400, 3)])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_training_fold_holds_every_class(counts, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat([f"class {k}" for k in range(len(counts))], counts))
    of_rows = fold_numbers(labels, "", seed)
    for fold in range(of_rows.max() + 1):
        assert set(labels[of_rows != fold]) == set(labels)
    for k, count in enumerate(counts):
        per_fold = np.bincount(of_rows[labels == f"class {k}"] + 1, minlength=of_rows.max() + 2)
        if count == 1:
            assert per_fold[0] == 1  # always a training row
        elif of_rows.max():  # several folds: each takes its part
            assert per_fold[0] == 0
            assert np.ptp(per_fold[1:]) <= 1
        else:
            assert abs(per_fold[1] - count / 5) < 1


def test_folds_depend_on_the_seed_alone():
    y = np.arange(60) % 3
    assert fold_numbers(y, None, 3).tolist() == fold_numbers(y, None, 3).tolist()
    assert fold_numbers(y, None, 3).tolist() != fold_numbers(y, None, 4).tolist()


# --- values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("errors", "rows"), [(0, 10), (3, 60), (40, 40)])
def test_the_interval_is_wilsons(errors, rows):
    z, right = 1.959963984540054, (rows - errors) / rows
    centre = (right + z**2 / (2 * rows)) / (1 + z**2 / rows)
    half = z / (1 + z**2 / rows) * np.sqrt(right * (1 - right) / rows + z**2 / (4 * rows**2))
    found = Tally(errors, rows, 2, 1.5).estimate(5)
    assert found["accuracy"] == right
    np.testing.assert_allclose([found["low"], found["high"]], [centre - half, centre + half], atol=1e-12)
    assert (found["labeled_rows"], found["folds"], found["planned_folds"]) == (rows, 2, 5)


@pytest.mark.parametrize("model", ["mmcva", "mmva"])
def test_errors_are_those_of_estimators_that_have_not_seen_the_rows(data, model, tmp_path, quiet):
    options, folder = dataclasses.replace(OPTIONS, model=model), RunFolder(tmp_path / "run")
    before = fit_run(data, folder, options, console=quiet)
    weights = folder.weights.read_bytes()
    result = add_estimate(data, folder, options, console=quiet)
    kind = mmdgm.MMCVAClassifier if model == "mmcva" else mmdgm.MMVAClassifier
    of_rows, labeled, errors = fold_numbers(data.y, -1, 5), np.flatnonzero(data.y >= 0), 0
    for fold in range(5):
        test = labeled[of_rows == fold]
        train = np.setdiff1d(np.arange(len(data.y)), test)
        again = kind(max_epochs=3, random_state=5, device="cpu").fit(data.x[train], data.y[train])
        errors += (again.predict(data.x[test]) != data.y[test]).sum()
    assert before["estimate"] is None
    estimate = result["estimate"]
    assert (estimate["errors"], estimate["labeled_rows"]) == (errors, len(labeled))
    assert estimate["accuracy"] == (len(labeled) - errors) / len(labeled)
    assert {**result, "estimate": None} == before
    assert read_json(folder.result) == result
    assert folder.weights.read_bytes() == weights


def test_labels_that_mean_nothing_are_learned_by_heart_and_estimated_at_chance(tmp_path, quiet):
    rng = np.random.default_rng(0)
    data = data_of(tmp_path, rng.normal(size=(60, 40)), rng.permutation(np.arange(60) % 2))
    options, folder = dataclasses.replace(OPTIONS, epochs=80), RunFolder(tmp_path / "run")
    assert fit_run(data, folder, options, console=quiet)["training_accuracy_on_labeled_rows"] == 1
    estimate = add_estimate(data, folder, options, console=quiet)["estimate"]
    assert 0.3 < estimate["accuracy"] < 0.7
    assert estimate["low"] < 0.5 < estimate["high"] < 0.85


# --- what cannot be estimated ----------------------------------------------------------------------------


def test_one_label_of_each_class_is_too_few(tmp_path):
    y = np.full(30, -1)
    y[[3, 8, 20]] = [0, 1, 2]
    data = data_of(tmp_path, np.random.default_rng(0).normal(size=(30, 4)), y)
    folder, console = RunFolder(tmp_path / "run"), Console(file=io.StringIO(), width=200)
    fit_run(data, folder, OPTIONS, console=console)
    assert add_estimate(data, folder, OPTIONS, console=console)["estimate"] is None
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 1
    assert "too few labels" in lines[0]


def test_a_class_with_one_label_is_never_tested(tmp_path, quiet, monkeypatch):
    y = np.array([0, 1] * 8 + [2] + [-1] * 13)
    data = data_of(tmp_path, np.random.default_rng(0).normal(size=(30, 4)), y)
    folder, tested, errors = RunFolder(tmp_path / "run"), [], honest_estimate._errors
    monkeypatch.setattr(honest_estimate, "_errors", lambda *words: (tested.extend(words[2]), errors(*words))[1])
    fit_run(data, folder, OPTIONS, console=quiet)
    assert add_estimate(data, folder, OPTIONS, console=quiet)["estimate"]["labeled_rows"] == 16
    assert sorted(tested) == list(range(16))


def test_a_fold_that_fails_leaves_the_model_and_no_estimate(data, run, monkeypatch):
    def diverge(*words):
        raise TrainingStopped("stopped at step 1: no number")

    console = Console(file=io.StringIO(), width=200)
    monkeypatch.setattr(honest_estimate, "_errors", diverge)
    result = add_estimate(data, run, OPTIONS, console=console)
    assert (result["status"], result["estimate"]) == ("done", None)
    assert "no number" in console.file.getvalue().splitlines()[-1]
    mmdgm.load(run.path, device="cpu")


def test_an_unfinished_run_has_no_estimate(data, run, quiet):
    run.result.write_text(json.dumps({**read_json(run.result), "status": "running"}))
    with pytest.raises(InputError, match="--resume"):
        add_estimate(data, run, OPTIONS, console=quiet)


# --- time ------------------------------------------------------------------------------------------------


def test_an_interrupted_estimate_keeps_the_model_and_the_folds_so_far(data, run, tmp_path, quiet, monkeypatch):
    whole = RunFolder(tmp_path / "whole")
    fit_run(data, whole, OPTIONS, console=quiet)
    expected = add_estimate(data, whole, OPTIONS, console=quiet)["estimate"]
    weights, errors, trained = run.weights.read_bytes(), honest_estimate._errors, []

    def counted(*words):
        trained.append(len(words[1]))
        if len(trained) == 3:
            raise KeyboardInterrupt
        return errors(*words)

    monkeypatch.setattr(honest_estimate, "_errors", counted)
    with pytest.raises(KeyboardInterrupt):
        add_estimate(data, run, OPTIONS, console=quiet)
    assert run.weights.read_bytes() == weights
    mmdgm.load(run.path, device="cpu")
    left = read_json(run.result)
    assert (left["status"], left["estimate"]["folds"], left["estimate"]["planned_folds"]) == ("done", 2, 5)
    result = add_estimate(data, run, OPTIONS, console=quiet)
    assert without_seconds(result["estimate"]) == without_seconds(expected)
    assert len(trained) == 6  # folds 1, 2, the interrupted 3; then 3, 4, 5
    assert add_estimate(data, run, OPTIONS, console=quiet) == result
    assert len(trained) == 6  # nothing is left to do


def test_max_time_holds_for_the_estimate_as_a_whole(data, run, quiet, monkeypatch):
    """Each fold takes four seconds."""
    seen, finished = [], read_json(run.result)
    monkeypatch.setattr(honest_estimate, "seconds_since", lambda _: 4.0)
    monkeypatch.setattr(honest_estimate, "_errors", lambda *words: seen.append(words[3].max_time) or 1)
    for max_time, folds in ((3.0, 1), (7.9, 1), (10.0, 2), (20.0, 5), (None, 5)):
        run.result.write_text(json.dumps({**finished, "max_time": max_time}))
        estimate = add_estimate(data, run, dataclasses.replace(OPTIONS, max_time=99), console=quiet)["estimate"]
        assert (estimate["folds"], estimate["errors"], estimate["seconds"]) == (folds, folds, 4 * folds)
        assert seen == [max_time] * folds  # the run's own, as its model was trained
        seen.clear()
