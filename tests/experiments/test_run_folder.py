"""A run folder holds an estimator: presets' runs and runs of own data come back by `mmdgm.load`."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

import mmdgm
from mmdgm import MMCVAClassifier, MMVAClassifier
from mmdgm.data import datasets
from mmdgm.data.codecs import ImageCodec
from mmdgm.data.datasets import Dataset, channels_last
from mmdgm.data.labeled_files import read_data
from mmdgm.devices import Machine
from mmdgm.errors import InputError
from mmdgm.experiments import rows as experiment_rows
from mmdgm.experiments.fit_runs import FitOptions, fit_run
from mmdgm.experiments.presets import find_preset
from mmdgm.experiments.run_folder import RunFolder, load
from mmdgm.experiments.training_runs import train_runs
from mmdgm.files import read_json
from mmdgm.progress import read_metrics
from mmdgm.settings import override

FILES = {
    "config.json",
    "metrics.csv",
    "model.safetensors",
    "report.html",
    "result.json",
    "figures/curves.png",
    "figures/imputations.png",
    "figures/samples.png",
}


@pytest.fixture(scope="module")
def trained_mmva(tmp_path_factory, quiet):
    """The folder of a short run of the MLP model, on digits."""
    config, overrides = override(
        find_preset("mnist-mmva").config,
        ["epochs=40", "pretrain_epochs=1", "batch=100", "hidden=64,32", "z=8", "log_every=20"],
    )
    config = dataclasses.replace(config, data=dataclasses.replace(config.data, dataset="digits"))
    path = tmp_path_factory.mktemp("mmva") / "run"
    train_runs(config, [(0, RunFolder(path))], overrides=overrides, console=quiet, machine=Machine("cpu"))
    return path


@pytest.fixture(params=["trained", "trained_mmva"])
def run(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def images():
    return channels_last(datasets.load("digits").x_test)


def result_of(folder):
    return read_json(folder / "result.json")


def files(folder):
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return {name for name in names if not name.startswith((".", "checkpoints/", "tensorboard/"))}


def test_a_preset_s_run_is_an_estimator_with_the_error_of_its_result(run, images):
    model, y = mmdgm.load(run, device="cpu"), datasets.load("digits").y_test
    assert type(model) is (MMVAClassifier if "mmva" in result_of(run)["preset"] else MMCVAClassifier)
    assert images.shape == (500, 8, 8)
    assert model.classes_.tolist() == list(range(10))
    for X in (images, images.astype(np.float64), images.astype(np.int64)):
        wrong = model.predict(X) != y
        assert 100 * wrong.mean() == result_of(run)["error_percent"]
        assert model.score(X, y) == 1 - wrong.mean()


def test_a_preset_s_run_says_how_it_was_trained(run):
    model, result = mmdgm.load(run, device="cpu"), result_of(run)
    assert isinstance(model.codec_, ImageCodec)
    assert (model.codec_.low, model.codec_.high, model.codec_.size) == (0, 16, (8, 8))
    assert (model.random_state, model.max_epochs) == (result["seed"], result["config"]["training"]["epochs"])
    for name in ("margin", "z", "dropout", "learning_rate"):
        known = {**result["config"]["model"], **result["config"]["training"]}
        assert getattr(model, name) == known[name]
    assert model.n_iter_ == model.n_iter_planned_ == result["epochs"]
    assert model.history_ == read_metrics(run / "metrics.csv")
    assert model.history_[-1]["step"] == result["steps"]
    train = datasets.load("digits").x_train / 16
    np.testing.assert_allclose(model.fill_, train.mean(axis=0), atol=0.02)


def test_a_preset_s_run_imputes_samples_scores_and_embeds(run, images):
    model = mmdgm.load(run, device="cpu")
    X = images[:20].astype(np.float64)
    X[:, 3:6, 3:6] = np.nan
    filled = model.impute(X, n_iter=5)
    assert filled.shape == X.shape
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    assert ((filled >= 0) & (filled <= 16)).all()
    by_mean = np.broadcast_to(datasets.load("digits").x_train[:, 0].mean(0), X.shape)
    holes = np.isnan(X)
    posterior = model.impute(X, method="posterior")
    assert np.square(posterior - images[:20])[holes].mean() < np.square(by_mean - images[:20])[holes].mean()
    scores = model.class_scores(X)
    assert scores.shape == (20, 10)
    np.testing.assert_array_equal(model.predict(X), scores.argmax(axis=1))
    sampled, codes = model.sample(7, random_state=0, return_codes=True)
    assert (sampled.shape, codes.shape) == ((7, 8, 8), (7, model.z))
    assert ((sampled >= 0) & (sampled <= 16)).all()
    assert model.transform(images[:3]).shape == (3, model.z)
    bound = model.score_samples(images)
    assert bound.mean() == pytest.approx(result_of(run)["elbo"], abs=1)
    noise = np.random.default_rng(0).integers(0, 17, (50, 8, 8))
    assert model.score_samples(noise).mean() < bound.mean() - 20
    rebuilt = model.reconstruct(images)
    assert ((rebuilt >= 0) & (rebuilt <= 16)).all()
    assert np.abs(rebuilt - images).mean() < np.abs(rebuilt - images[::-1]).mean()


def test_a_preset_s_run_is_saved_and_loaded_again(run, images, tmp_path):
    model = mmdgm.load(run, device="cpu")
    model.save(tmp_path / "saved")
    assert files(tmp_path / "saved") == {"config.json", "metrics.csv", "model.safetensors"}
    again = mmdgm.load(tmp_path / "saved", device="cpu")
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.class_scores(images), model.class_scores(images))
    np.testing.assert_array_equal(again.score_samples(images[:9]), model.score_samples(images[:9]))
    np.testing.assert_array_equal(again.sample(4, random_state=3), model.sample(4, random_state=3))
    assert (again.codec_, again.config_, again.history_) == (model.codec_, model.config_, model.history_)
    with pytest.raises(InputError, match="no run"):
        RunFolder(tmp_path / "saved").about()


def test_own_data_and_presets_leave_the_same_files(trained, trained_mmva, tmp_path, images, quiet):
    y = datasets.load("digits").y_test
    np.savez(tmp_path / "own.npz", x=images[:100], y=np.where(np.arange(100) < 50, y[:100], -1))
    data = read_data(tmp_path / "own.npz")
    fit_run(data, RunFolder(tmp_path / "run"), FitOptions(epochs=1, device="cpu"), console=quiet)
    assert files(tmp_path / "run") == files(trained) == files(trained_mmva) == FILES
    own, preset = (read_json(folder / "config.json") for folder in (tmp_path / "run", trained))
    assert own.keys() == preset.keys()
    assert (own["estimator"], own["parameters"].keys()) == (preset["estimator"], preset["parameters"].keys())
    assert own["run"].keys() - preset["run"].keys() == {"data", "options"}
    assert {"status", "seed", "device", "versions", "git_commit", "epochs", "seconds"} <= (
        result_of(tmp_path / "run").keys() & result_of(trained).keys()
    )


def test_classes_by_their_names(tmp_path, quiet, monkeypatch):
    digits = datasets.load("digits")
    names = ("nil", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")  # not sorted
    named = Dataset(**{**vars(digits), "class_names": names})
    monkeypatch.setattr(experiment_rows.datasets, "load", lambda *_, **__: named)
    config, overrides = override(find_preset("digits-mmcva-50").config, ["epochs=10"])
    (result,) = train_runs(
        config, [(0, RunFolder(tmp_path))], overrides=overrides, console=quiet, machine=Machine("cpu")
    )
    model = mmdgm.load(tmp_path, device="cpu")
    assert model.classes_.tolist() == list(names)
    truth = np.array(names)[digits.y_test]
    X = channels_last(digits.x_test)
    assert 100 * (model.predict(X) != truth).mean() == result["error_percent"] < 80
    sampled = [model.sample(3, y=name, random_state=0) for name in names]
    model.classes_ = np.arange(10)
    for number, images in enumerate(sampled):
        np.testing.assert_array_equal(images, model.sample(3, y=number, random_state=0))


def test_what_is_no_finished_run_is_refused(trained, tmp_path):
    with pytest.raises(InputError, match="no run"):
        load(tmp_path)
    with pytest.raises(InputError, match="no run"):
        load(tmp_path / "absent")
    for seed in (0, 1):
        shutil.copytree(trained, tmp_path / "several" / f"seed-{seed}")
    with pytest.raises(InputError, match="seed-0"):
        load(tmp_path / "several")
    (tmp_path / "several" / "seed-0" / "model.safetensors").unlink()
    with pytest.raises(InputError, match="--resume"):
        load(tmp_path / "several" / "seed-0")


def test_weights_of_another_model_are_refused(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    config = read_json(trained / "config.json")
    config["model"]["z"] = 5
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"model\.safetensors"):
        load(tmp_path / "run")
