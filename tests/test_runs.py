"""What a run leaves behind, and what it refuses."""

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
from mmdgm.data.splits import labeled_draw
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.experiments import run_folder, training_runs
from mmdgm.experiments.presets import find_preset
from mmdgm.inference.sampling import sample_grid
from mmdgm.settings import override
from mmdgm.training.trainer import Trainer

DIGITS = find_preset("digits-mmcva-50").config


def train(path, *assignments, console, seed=0, resume=False):
    config, overrides = override(DIGITS, ["epochs=2", "log_every=5", *assignments])
    (result,) = training_runs.train_runs(
        config,
        [(seed, run_folder.RunFolder(path))],
        overrides=overrides,
        console=console,
        device="cpu",
        resume=resume,
    )
    return result


def test_result_says_what_was_run_and_what_came_out(trained):
    result = json.loads((trained / "result.json").read_text())
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
    run = run_folder.load_run(trained, device="cpu")
    dataset = datasets.load("digits")
    rows = run_folder.split_rows(dataset, run.config, run.seed)
    figures = run_folder.evaluate(run.model, dataset, rows)
    result = json.loads((trained / "result.json").read_text())
    assert figures == {name: pytest.approx(result[name], rel=1e-5) for name in figures}
    kinds = {"error_percent", "elbo", "elbo_binarised"}
    assert set(figures) == kinds | {f"validation_{kind}" for kind in kinds}


def test_validation_rows_are_the_same_for_every_seed_and_never_trained_on():
    config, _ = override(DIGITS, ["validation=100"])
    dataset = datasets.load("digits")
    first, second = (run_folder.split_rows(dataset, config, seed) for seed in (0, 1))
    assert np.array_equal(first.x_validation, second.x_validation)
    assert not np.array_equal(first.x, second.x)
    parts = [{image.tobytes() for image in x} for x in (first.x, first.x_unlabeled, first.x_validation)]
    everything = {image.tobytes() for image in dataset.x_train}
    assert [len(part) for part in parts] == [50, 1147, 100]  # no two digits are alike
    assert set.union(*parts) == everything
    assert len(everything) == 50 + 1147 + 100


def test_conditional_samples_have_a_row_per_class_and_a_code_per_column(trained):
    model = run_folder.load_run(trained, device="cpu").model
    grid = sample_grid(model, columns=4, rows=99, seed=1)
    assert grid["x"].shape == (10, 4, 1, 8, 8)
    assert (grid["z"] == grid["z"][:1]).all()
    assert not np.allclose(grid["z"][0, 0], grid["z"][0, 1])
    assert (grid["y"] == np.arange(10)[:, None]).all()
    again = sample_grid(model, columns=4, rows=99, seed=1)
    assert np.array_equal(grid["x"], again["x"])
    assert not np.array_equal(grid["x"], sample_grid(model, columns=4, rows=99, seed=2)["x"])


def test_a_folder_with_a_run_is_not_written_over(tmp_path, quiet):
    first = train(tmp_path, console=quiet)
    content = (tmp_path / "result.json").read_bytes()
    with pytest.raises(InputError, match="already holds a run; go on with it by --resume"):
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
        return run_folder.split_rows(*words)

    with monkeypatch.context() as train_elsewhere:
        train_elsewhere.setattr(training_runs, "split_rows", other_run_first)
        with pytest.raises(InputError, match="already holds a run"):
            train(tmp_path / "run", console=quiet)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["overrides"]["hat_weight"] == 0


def test_a_stopped_run_says_so_and_is_no_model(tmp_path, quiet, monkeypatch):
    monkeypatch.setattr("mmdgm.models.losses.hinge", lambda scores, y, margin: scores.sum(1) * float("nan"))
    with pytest.raises(TrainingStopped, match="became infinite or no number"):
        train(tmp_path, console=quiet)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["status"] == "stopped"
    assert "no number" in result["reason"]
    with pytest.raises(InputError, match=r"training stopped at step 5: .* train again in another folder"):
        run_folder.load_run(tmp_path)


def test_a_stopped_seed_does_not_take_the_others_with_it(tmp_path, quiet, monkeypatch):
    fit = training_runs.Trainer.fit

    def fail_once(self, batches, **more):
        monkeypatch.setattr(training_runs.Trainer, "fit", fit)
        raise TrainingStopped("stopped at step 1")

    monkeypatch.setattr(training_runs.Trainer, "fit", fail_once)
    config, overrides = override(DIGITS, ["epochs=1"])
    folders = [(seed, run_folder.RunFolder(tmp_path / str(seed))) for seed in (0, 1)]
    with pytest.raises(TrainingStopped, match=r"^seed 0 stopped at step 1$"):
        training_runs.train_runs(config, folders, overrides=overrides, console=quiet, device="cpu")
    assert [folder.status() for _, folder in folders] == ["stopped", "done"]


@pytest.mark.parametrize(
    ("assignments", "quick"), [(["pretrain_epochs=0"], True), (["epochs=699"], True), ([], False)]
)
def test_a_run_with_fewer_epochs_than_its_preset_is_quick(assignments, quick):
    preset = find_preset("mnist-mmva").config
    assert training_runs.is_shortened(override(preset, assignments)[0]) is quick


def test_weights_of_another_model_are_refused(trained, tmp_path):
    config = json.loads((trained / "config.json").read_text())
    config["config"]["model"]["z"] = 5
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes((trained / "model.safetensors").read_bytes())
    with pytest.raises(InputError, match="do not fit"):
        run_folder.load_run(tmp_path)


def test_supervised_presets_refuse_unlabeled_rows(tmp_path, quiet, monkeypatch):
    monkeypatch.setitem(datasets.LOADERS, "mnist", datasets.load_digits)
    config, overrides = override(find_preset("mnist-mmva").config, ["labels=50"])
    folder = run_folder.RunFolder(tmp_path / "run")
    with pytest.raises(InputError, match="labeled rows alone"):
        training_runs.train_runs(config, [(0, folder)], overrides=overrides, console=quiet, device="cpu")
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
    assert json.loads((broken / "result.json").read_text())["status"] == "running"
    kill_after(start(broken, "--resume"), broken, 90)
    assert start(broken, "--resume").wait() == 0

    one, other = load_file(whole / "model.safetensors"), load_file(broken / "model.safetensors")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert rows(whole) == rows(broken)
    results = [json.loads((folder / "result.json").read_text()) for folder in (whole, broken)]
    assert results[0]["error_percent"] == results[1]["error_percent"]
    assert results[0]["elbo"] == results[1]["elbo"]


def test_settings_that_cannot_run_leave_nothing_behind(tmp_path, quiet):
    with pytest.raises(InputError, match="single GPU only"):
        train(tmp_path / "run", "execution=captured", console=quiet)
    assert not (tmp_path / "run").exists()


def test_labels_are_spread_before_training(tmp_path, quiet, monkeypatch):
    began = []
    fit = Trainer.fit
    monkeypatch.setattr(Trainer, "fit", lambda *words, **more: (began.append(words[1]), fit(*words, **more))[1])
    train(tmp_path / "run", "spread=0.9", "first_guesses=0.5", console=quiet)
    digits = datasets.load("digits")
    rows = run_folder.split_rows(digits, DIGITS, 0)
    truth = np.setdiff1d(np.arange(len(digits.y_train)), labeled_draw(digits.y_train, 50, seed=0))
    guess = began[0].store.first_guess.numpy()
    known = guess >= 0
    assert len(guess) == len(rows.x_unlabeled)
    assert known.mean() == pytest.approx(0.9, abs=0.01)
    assert (guess[known] == digits.y_train[truth][known]).mean() > 0.8  # 8×8 pixels are few for edges


def test_all_seeds_share_one_graph(tmp_path, quiet, monkeypatch):
    made, began = [], []
    graph, fit = training_runs.handwriting_graph, Trainer.fit
    monkeypatch.setattr(training_runs, "handwriting_graph", lambda x: (made.append(x), graph(x))[1])
    monkeypatch.setattr(Trainer, "fit", lambda *words, **more: (began.append(words[1]), fit(*words, **more))[1])
    config, overrides = override(DIGITS, ["epochs=1", "spread=1.0", "first_guesses=1.0"])
    folders = [(seed, run_folder.RunFolder(tmp_path / str(seed))) for seed in (0, 1)]
    training_runs.train_runs(config, folders, overrides=overrides, console=quiet, device="cpu")
    digits = datasets.load("digits")
    (images,) = made
    assert len(began) == 2
    assert np.array_equal(images.numpy() * digits.scale, digits.x_train)  # in the order of the data set
    for seed, batches in enumerate(began):
        truth = np.delete(digits.y_train, labeled_draw(digits.y_train, 50, seed=seed))
        assert (batches.store.first_guess.numpy() == truth).mean() > 0.8


def test_log_likelihood_is_above_the_bound_and_reported_by_its_name(trained):
    run = run_folder.load_run(trained, device="cpu")
    dataset = datasets.load("digits")
    rows = run_folder.split_rows(dataset, run.config, run.seed)
    figures = run_folder.evaluate(run.model, dataset, rows, draws=5)
    assert figures["elbo"] < figures["log_likelihood"] < 0
    assert figures["elbo_binarised"] < figures["log_likelihood_binarised"] < 0
