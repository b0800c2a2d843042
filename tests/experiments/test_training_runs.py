"""Runs of presets: what they leave behind, and what they refuse."""

import csv
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from conftest import image_size
from mmdgm.data import datasets
from mmdgm.data.datasets import channels_last
from mmdgm.data.splits import labeled_draw
from mmdgm.devices import Machine
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.experiments import rows as experiment_rows
from mmdgm.experiments import training_runs
from mmdgm.experiments.evaluation import evaluate, labeled_rows
from mmdgm.experiments.presets import find_preset
from mmdgm.experiments.rows import split_rows
from mmdgm.experiments.run_folder import RunFolder, load
from mmdgm.files import read_json
from mmdgm.settings import override
from mmdgm.training.trainer import Trainer

DIGITS = find_preset("digits-mmcva-50").config


def train(path, *assignments, console, seed=0, resume=False):
    config, overrides = override(DIGITS, ["epochs=2", "log_every=5", *assignments])
    (result,) = training_runs.train_runs(
        config,
        [(seed, RunFolder(path))],
        overrides=overrides,
        console=console,
        machine=Machine("cpu"),
        resume=resume,
    )
    return result


def test_result_says_what_was_run_and_what_came_out(trained):
    result = read_json(trained / "result.json")
    assert result["status"] == "done"
    assert (result["preset"], result["seed"], result["quick"]) == ("digits-mmcva-50", 3, True)
    assert result["overrides"] == {"epochs": 30, "validation": 100, "log_every": 50}
    assert result["config"]["training"]["epochs"] == 30
    assert result["config"]["model"]["kind"] == "MaxMarginConditionalVAEConfig"
    assert result["dataset"] == {
        "name": "digits",
        "labeled": 50,
        "labeled_per_class": [5] * 10,
        "unlabeled": 1147,
        "validation": 100,
        "test": 500,
        "files": {},
    }
    assert result["steps"] == 30 * (1147 // 150)
    assert 0 <= result["error_percent"] < 40  # short, but far better than chance
    assert -60 < result["elbo"] < -20
    assert {"validation_error_percent", "validation_elbo", "seconds", "images_per_second"} <= result.keys()
    assert result["versions"]["torch"] == torch.__version__
    assert result["device"].startswith("cpu")


def test_leavings_are_complete_and_readable(trained):
    names = {str(path.relative_to(trained)) for path in trained.rglob("*") if path.is_file()}
    assert names >= {
        "config.json",
        "model.safetensors",
        "result.json",
        "metrics.csv",
        "figures/samples.png",
        "figures/imputations.png",
        "figures/curves.png",
    }
    with (trained / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [50, 100, 150, 200, 210]
    assert all(np.isfinite(float(row["loss"])) for row in rows)
    assert image_size(trained / "figures" / "samples.png") == (10 * 50 + 2, 10 * 50 + 2)
    assert image_size(trained / "figures" / "imputations.png") == (16 * 50 + 2, 5 * 50 + 2)


def test_loaded_run_evaluates_to_the_same_figures(trained):
    estimator = load(trained, device="cpu")
    found = {
        prefix + name: value
        for prefix, X, y in labeled_rows(trained, estimator, None, target=None, data_dir=None)
        for name, value in evaluate(estimator, X, y).items()
    }
    result = read_json(trained / "result.json")
    assert found == {name: pytest.approx(result[name], rel=1e-5) for name in found}
    kinds = {"error_percent", "elbo", "elbo_binarised"}
    assert set(found) == kinds | {f"validation_{kind}" for kind in kinds}


def test_validation_rows_are_the_same_for_every_seed_and_never_trained_on():
    config, _ = override(DIGITS, ["validation=100"])
    dataset = datasets.load("digits")
    first, second = (split_rows(dataset, config, seed) for seed in (0, 1))
    assert np.array_equal(first.x_validation, second.x_validation)
    assert np.array_equal(first.x, second.x)  # all rows, in the order of the data set
    assert not np.array_equal(first.y, second.y)
    assert [(first.y == k).sum() for k in range(-1, 10)] == [1147, *[5] * 10]
    parts = [{image.tobytes() for image in x} for x in (first.x, first.x_validation)]
    everything = {image.tobytes() for image in dataset.x_train}
    assert [len(part) for part in parts] == [1197, 100]  # no two digits are alike
    assert set.union(*parts) == everything
    assert len(everything) == 1197 + 100
    truth = {image.tobytes(): label for image, label in zip(dataset.x_train, dataset.y_train, strict=True)}
    for rows in (first, second):
        assert all(truth[x.tobytes()] == y for x, y in zip(rows.x, rows.y, strict=True) if y >= 0)


def test_without_unlabeled_rows_the_labeled_ones_alone_are_there():
    config, _ = override(DIGITS, ["unlabeled=false"])
    dataset = datasets.load("digits")
    rows = split_rows(dataset, config, 0)
    whole = split_rows(dataset, DIGITS, 0)
    assert np.array_equal(np.sort(rows.y), np.repeat(np.arange(10), 5))
    assert {x.tobytes() for x in rows.x} == {x.tobytes() for x in whole.x[whole.y >= 0]}
    assert experiment_rows.counts(dataset, rows)["unlabeled"] == 0


def test_a_folder_with_a_run_is_not_written_over(tmp_path, quiet):
    first = train(tmp_path, console=quiet)
    content = (tmp_path / "result.json").read_bytes()
    with pytest.raises(InputError, match="--resume"):
        train(tmp_path, console=quiet)
    with pytest.raises(InputError, match="epochs=2, not 3"):
        train(tmp_path, "epochs=3", console=quiet, resume=True)
    with pytest.raises(InputError, match="seed 0, not 1"):
        train(tmp_path, console=quiet, seed=1, resume=True)
    assert train(tmp_path, console=quiet, resume=True) == first  # done already
    assert (tmp_path / "result.json").read_bytes() == content


def test_a_run_that_got_into_the_folder_meanwhile_is_not_written_over(tmp_path, quiet, monkeypatch):
    def other_run_first(*words):
        train_elsewhere.undo()
        train(tmp_path / "run", "hat_weight=0", console=quiet)
        return split_rows(*words)

    with monkeypatch.context() as train_elsewhere:
        train_elsewhere.setattr(training_runs, "split_rows", other_run_first)
        with pytest.raises(InputError, match="already holds a run"):
            train(tmp_path / "run", console=quiet)
    assert read_json(tmp_path / "run" / "result.json")["overrides"]["hat_weight"] == 0


def test_a_stopped_run_says_so_and_is_no_model(tmp_path, quiet, monkeypatch):
    monkeypatch.setattr("mmdgm.models.losses.hinge", lambda scores, y, **_: scores.sum(1) * float("nan"))
    with pytest.raises(TrainingStopped, match="no number"):
        train(tmp_path, console=quiet)
    result = read_json(tmp_path / "result.json")
    assert result["status"] == "stopped"
    assert "no number" in result["reason"]
    with pytest.raises(InputError, match="stopped at step 5"):
        load(tmp_path)


def test_a_stopped_seed_does_not_take_the_others_with_it(tmp_path, quiet, monkeypatch):
    fit = training_runs.Trainer.fit

    def fail_once(self, batches, **more):
        monkeypatch.setattr(training_runs.Trainer, "fit", fit)
        raise TrainingStopped("stopped at step 1")

    monkeypatch.setattr(training_runs.Trainer, "fit", fail_once)
    config, overrides = override(DIGITS, ["epochs=1"])
    folders = [(seed, RunFolder(tmp_path / str(seed))) for seed in (0, 1)]
    with pytest.raises(TrainingStopped, match=r"^seed 0 stopped at step 1$"):
        training_runs.train_runs(config, folders, overrides=overrides, console=quiet, machine=Machine("cpu"))
    assert [folder.status() for _, folder in folders] == ["stopped", "done"]


@pytest.mark.parametrize(
    ("assignments", "quick"), [(["pretrain_epochs=0"], True), (["epochs=699"], True), ([], False)]
)
def test_a_run_with_fewer_epochs_than_its_preset_is_quick(assignments, quick):
    preset = find_preset("mnist-mmva").config
    assert training_runs.is_shortened(override(preset, assignments)[0]) is quick


def test_supervised_presets_refuse_unlabeled_rows(tmp_path, quiet, monkeypatch):
    monkeypatch.setitem(datasets.LOADERS, "mnist", datasets.load_digits)
    config, overrides = override(find_preset("mnist-mmva").config, ["labels=50"])
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(InputError, match="labeled rows alone"):
        training_runs.train_runs(config, [(0, folder)], overrides=overrides, console=quiet, machine=Machine("cpu"))
    assert not folder.path.exists()


@pytest.mark.slow
def test_killed_and_resumed_run_ends_with_the_weights_of_the_uninterrupted_one(tmp_path):
    """Really kill -9 a training process, twice, in the middle of training."""

    def start(folder, *more):
        command = [sys.executable, "-m", "mmdgm", "train", "digits-mmcva-50", "--run-dir", str(folder), *more]
        settings = ["epochs=25", "log_every=5", "checkpoint_seconds=0"]
        return subprocess.Popen(
            [*command, "--device", "cpu", *(word for s in settings for word in ("--set", s))],
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def rows(folder):
        with (folder / "metrics.csv").open() as file:
            return [row for row in csv.DictReader(file) if row.pop("seconds") and row.pop("images_per_second")]

    def kill_after(process, folder, steps):
        deadline = time.monotonic() + 120
        metrics = folder / "metrics.csv"
        while not metrics.exists() or len(metrics.read_text().splitlines()) < steps // 5 + 1:
            assert process.poll() is None, "ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert start(whole).wait() == 0
    kill_after(start(broken), broken, 20)
    assert not (broken / "model.safetensors").exists()
    assert read_json(broken / "result.json")["status"] == "running"
    kill_after(start(broken, "--resume"), broken, 90)
    assert start(broken, "--resume").wait() == 0

    one, other = load_file(whole / "model.safetensors"), load_file(broken / "model.safetensors")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert rows(whole) == rows(broken)
    results = [read_json(folder / "result.json") for folder in (whole, broken)]
    assert results[0]["error_percent"] == results[1]["error_percent"]
    assert results[0]["elbo"] == results[1]["elbo"]


def test_settings_that_cannot_run_leave_nothing_behind(tmp_path, quiet):
    with pytest.raises(InputError, match="single GPU only"):
        train(tmp_path / "run", "execution=captured", console=quiet)
    assert not (tmp_path / "run").exists()


def test_labels_are_propagated_before_training(tmp_path, quiet, monkeypatch):
    began = []
    fit = Trainer.fit
    monkeypatch.setattr(Trainer, "fit", lambda *words, **more: (began.append(words[1]), fit(*words, **more))[1])
    train(tmp_path / "run", "propagate=0.9", "trust_propagated=0.5", console=quiet)
    digits = datasets.load("digits")
    unlabeled = np.ones(len(digits.y_train), bool)
    unlabeled[labeled_draw(digits.y_train, 50, seed=0)] = False
    (store,) = began
    assert np.array_equal(store.y.numpy() < 0, unlabeled)
    guess, truth = store.guess.numpy()[unlabeled], digits.y_train[unlabeled]
    known = guess >= 0
    assert known.mean() == pytest.approx(0.9, abs=0.01)
    assert (guess[known] == truth[known]).mean() > 0.8  # 8×8 pixels are few for edges


def test_all_seeds_share_one_graph(tmp_path, quiet, monkeypatch):
    made, began = [], []
    graph, fit = training_runs.image_graph, Trainer.fit
    monkeypatch.setattr(training_runs, "image_graph", lambda *words: (made.append(words), graph(*words))[1])
    monkeypatch.setattr(Trainer, "fit", lambda *words, **more: (began.append(words[1]), fit(*words, **more))[1])
    config, overrides = override(DIGITS, ["epochs=1", "propagate=1.0", "trust_propagated=1.0"])
    folders = [(seed, RunFolder(tmp_path / str(seed))) for seed in (0, 1)]
    training_runs.train_runs(config, folders, overrides=overrides, console=quiet, machine=Machine("cpu"))
    digits = datasets.load("digits")
    ((one, reading, others, _),) = made
    assert len(began) == 2
    assert np.array_equal(one.x.numpy(), digits.x_train)  # in the order of the data set
    assert reading.scale == digits.scale
    assert list(others) == [""]  # there are no validation images
    assert np.array_equal(others[""], digits.x_test)
    for seed, store in enumerate(began):
        labeled = labeled_draw(digits.y_train, 50, seed=seed)
        assert set(np.flatnonzero(store.y >= 0)) == set(labeled)
        right = np.delete(store.guess.numpy() == digits.y_train, labeled)
        assert right.mean() > 0.8
    for _, folder in folders:  # test images are not in the graph
        assert 0 < json.loads(folder.result.read_text())["graph_error_percent"] < 25


def test_log_likelihood_is_above_the_bound_and_reported_by_its_name(trained):
    dataset = datasets.load("digits")
    X, y = channels_last(dataset.x_test), dataset.y_test
    found = evaluate(load(trained, device="cpu"), X, y, draws=5)
    assert found["elbo"] < found["log_likelihood"] < 0
    assert found["elbo_binarised"] < found["log_likelihood_binarised"] < 0


@pytest.mark.parametrize("names", [("b", "a", "d", "c", "j", "i", "h", "g", "f", "e"), None])
def test_classes_need_not_be_sorted_to_be_judged(trained, names):
    dataset, estimator = datasets.load("digits"), load(trained, device="cpu")
    if names:
        estimator.classes_ = np.array(names)
    y = estimator.classes_[dataset.y_test]
    found = evaluate(estimator, channels_last(dataset.x_test), y)
    assert found["error_percent"] == read_json(trained / "result.json")["error_percent"]
    assert 100 * (1 - estimator.score(channels_last(dataset.x_test), y)) == pytest.approx(found["error_percent"])
    with pytest.raises(InputError, match="zebra"):
        evaluate(estimator, channels_last(dataset.x_test[:1]), np.array(["zebra"]))


def test_rows_with_holes_are_judged_after_imputation(trained):
    dataset, estimator = datasets.load("digits"), load(trained, device="cpu")
    X = channels_last(dataset.x_test[:100]).astype(float)
    X[:, 2:5, 2:5] = np.nan
    found = evaluate(estimator, X, dataset.y_test[:100])
    filled = evaluate(estimator, estimator.impute(X, n_iter=20), dataset.y_test[:100])
    assert found == pytest.approx(filled, rel=1e-3)  # what is imputed goes through the codec and back
    assert found["error_percent"] < 70
