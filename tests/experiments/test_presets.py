"""The presets: which there are, that their configs survive `--set`, and that they train."""

import dataclasses
import functools
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from mmdgm.data import datasets
from mmdgm.data.datasets import Dataset, channels_last, load
from mmdgm.devices import Machine
from mmdgm.errors import InputError
from mmdgm.estimators import MMCVAClassifier, MMVAClassifier
from mmdgm.experiments import training_runs
from mmdgm.experiments.paper.tables import TABLES
from mmdgm.experiments.presets import PRESETS, find_preset
from mmdgm.experiments.run_folder import RunFolder
from mmdgm.experiments.run_folder import load as load_run
from mmdgm.inference.imputation import impute
from mmdgm.report import figures
from mmdgm.settings import override, settings_of
from mmdgm.training import feature_svm

NAMES = [preset.name for preset in PRESETS]
every_preset = pytest.mark.parametrize("preset", PRESETS, ids=NAMES)


def setting_names(config):
    """The keys of all settings, found without `settings_of`."""
    names = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            names += setting_names(value)
        elif "help" in field.metadata:
            names.append(field.name)
    return names


def test_every_name_is_there_once():
    assert len(set(NAMES)) == len(NAMES)


def test_tables_and_committed_results_name_presets():
    named = {preset for table in TABLES.values() for preset in table.presets}
    assert named <= set(NAMES)
    committed = {folder.name for folder in (Path(__file__).parents[2] / "results" / "runs").iterdir()}
    assert committed <= set(NAMES)


@every_preset
def test_a_preset_is_found_by_its_name(preset):
    assert find_preset(preset.name) is preset


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("mnist-vae", "mnist-va"), ("digits", "digits-mmcva-50"), ("mnist-mmcva-10", "mnist-mmcva-100")],
)
def test_an_unknown_preset_names_the_nearest(name, nearest):
    with pytest.raises(InputError) as caught:
        find_preset(name)
    assert f" {nearest}?" in str(caught.value)


def test_a_name_unlike_any_lists_all():
    with pytest.raises(InputError) as caught:
        find_preset("zzz")
    assert ", ".join(NAMES) in str(caught.value)


@every_preset
def test_setting_keys_are_unique_and_all_reachable(preset):
    names = setting_names(preset.config)
    assert len(set(names)) == len(names)
    assert list(settings_of(preset.config)) == names


@every_preset
def test_every_default_is_a_value_that_set_takes(preset):
    for key, setting in settings_of(preset.config).items():
        value = setting.value
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        assert override(preset.config, [f"{key}={text}"]) == (preset.config, {key: value})
        assert setting.help


@every_preset
def test_labels_and_batches_fit_together(preset):
    data, training = preset.config.data, preset.config.training
    if data.labels is not None:
        assert data.labels % 10 == 0
        assert training.batch <= data.labels
    assert hasattr(training, "unlabeled_batch") == (data.labels is not None and data.unlabeled)


def test_the_c_of_table_3_changes_the_margin_and_what_is_relative_to_it():
    configs = {C: find_preset(f"mnist-conv-mmva-C{C}").config for C in (1, 10, 100, 1000, 10_000)}
    for C, config in configs.items():
        assert config.model.C == C
        assert config.training.weight_decay == pytest.approx(C / 60_000)
        assert dataclasses.replace(config.model, C=1.0) == configs[1].model


def few_rounds(monkeypatch):
    """Impute by two rounds, which is enough for pictures that nobody looks at."""
    monkeypatch.setattr(figures, "impute", lambda *words, **more: impute(*words, **{**more, "rounds": 2}))


SLICES = {"digits": ((1, 8, 8), 10), "svhn": ((3, 32, 32), 10), "norb": ((1, 32, 32), 5)}


def small_slice(name, data_dir=None, *, extra=False):
    """Rows of the data set where its files are there, else noise of its shape."""
    try:
        whole = load(name, extra=extra)
        x, y, shape, n_classes = whole.x_train, whole.y_train, whole.shape, whole.n_classes
    except InputError:
        shape, n_classes = SLICES.get(name, ((1, 28, 28), 10))
        rng = np.random.default_rng(0)
        x, y = rng.integers(0, 16, (600, *shape), np.uint8), np.arange(600) % n_classes
    rows = np.concatenate([np.flatnonzero(y == k)[: 60 // n_classes] for k in range(n_classes)])
    x, y = x[rows], y[rows].astype(np.int64)
    return Dataset(name=name, x_train=x, y_train=y, x_test=x, y_test=y, n_classes=n_classes, scale=16.0)


@every_preset
def test_every_preset_trains(preset, monkeypatch, tmp_path, quiet):
    monkeypatch.setattr(datasets, "load", small_slice)
    few_rounds(monkeypatch)
    monkeypatch.setattr(feature_svm, "fit_linear_svm", functools.partial(feature_svm.fit_linear_svm, steps=50))
    data = preset.config.data
    rows = 60 if data.labels is None else 40 if data.unlabeled else 20
    changes = {"epochs": 20 // (rows // 10), "batch": 10, "log_every": 10, "execution": "plain"}
    known = settings_of(preset.config)
    for key, value in {
        "labels": 20,
        "unlabeled_batch": 10,
        "pretrain_epochs": 1,
        "classifier_epochs": 1,
        "bound_epochs": 1,
        "bound_batch": 10,
    }.items():
        if key in known and not (key == "labels" and data.labels is None):
            changes[key] = value
    config, overrides = override(preset.config, [f"{key}={value}" for key, value in changes.items()])
    stages = config.training.stages()
    (result,) = training_runs.train_runs(
        config,
        [(0, RunFolder(tmp_path / "run"))],
        overrides=overrides,
        console=quiet,
        data_dir=tmp_path,
        machine=Machine("cpu"),
    )
    assert result["status"] == "done"
    assert result["steps"] == sum(stage.epochs for stage in stages) * (rows // 10) >= 18
    assert 0 <= result["error_percent"] <= 100
    estimator = load_run(tmp_path / "run", device="cpu")
    pictures = {path.name for path in (tmp_path / "run" / "figures").iterdir()}
    assert type(estimator) is (MMCVAClassifier if re.search("mmcva|m2", preset.name) else MMVAClassifier)
    assert (estimator.codec_.low, estimator.codec_.high) == (0, 16)  # of the files, whatever the networks see
    data_set = small_slice(data.dataset)
    wrong = estimator.predict(channels_last(data_set.x_test)) != data_set.classes[data_set.y_test]
    assert 100 * wrong.mean() == pytest.approx(result["error_percent"], abs=2)  # batches round in their ways
    with_bound = getattr(preset.config.model, "generative_weight", 1) > 0
    assert estimator.model_.generates == with_bound
    if with_bound:
        assert np.isfinite(result["elbo"])
        assert pictures == {"curves.png", "imputations.png", "samples.png"}
    else:
        assert result["elbo"] is None
        assert pictures == {"curves.png"}


@pytest.mark.parametrize("assignment", ["hidden=0", "hidden=500,-5", "z=0", "dropout=1", "epochs=0"])
def test_networks_that_cannot_be_built_are_refused(assignment):
    with pytest.raises(InputError, match=f"^{assignment}: not allowed"):
        override(find_preset("mnist-va").config, [assignment])


def test_a_run_on_normalised_images_is_used_as_it_was_trained(monkeypatch, tmp_path, quiet, mmdgm):
    monkeypatch.setattr(datasets, "load", small_slice)
    few_rounds(monkeypatch)
    monkeypatch.setattr(feature_svm, "fit_linear_svm", functools.partial(feature_svm.fit_linear_svm, steps=50))
    monkeypatch.setenv("MMDGM_DATA", str(tmp_path / "data"))
    config, overrides = override(find_preset("svhn-conv-va").config, ["epochs=1", "batch=20"])
    run = tmp_path / "run"
    (result,) = training_runs.train_runs(
        config, [(0, RunFolder(run))], overrides=overrides, console=quiet, machine=Machine("cpu")
    )
    found = json.loads(mmdgm("evaluate", run, "--json", "--device", "cpu")[1])
    assert found == {name: pytest.approx(result[name], rel=1e-4) for name in found}
    whole = small_slice("svhn")
    np.savez(tmp_path / "x.npz", x=whole.x_test)
    assert mmdgm("predict", run, tmp_path / "x.npz", "--device", "cpu")[0] == 0
    lines = (tmp_path / "x-predictions.csv").read_text().splitlines()[1:]
    wrong = [int(line.split(",")[1]) != y for line, y in zip(lines, whole.y_test, strict=True)]
    assert 100 * np.mean(wrong) == pytest.approx(result["error_percent"])
    holed = whole.x_test.astype(float)
    holed[0, 0, 0, 0] = np.nan
    np.savez(tmp_path / "holed.npz", x=holed)
    code, _, said = mmdgm("impute", run, tmp_path / "holed.npz", "--device", "cpu")
    assert (code, "whole images" in said) == (2, True)
    assert mmdgm("sample", run, "--device", "cpu")[0] == 0


def test_va_with_pegasos_learns_its_classifier_afterwards_each_seed_for_itself(tmp_path, quiet, monkeypatch):
    monkeypatch.setattr(feature_svm, "fit_linear_svm", functools.partial(feature_svm.fit_linear_svm, steps=500))
    few_rounds(monkeypatch)
    config, overrides = override(find_preset("mnist-va").config, ["epochs=5", "batch=100", "hidden=64,32", "z=8"])
    config = dataclasses.replace(config, data=dataclasses.replace(config.data, dataset="digits"))
    common = {"overrides": overrides, "console": quiet, "machine": Machine("cpu")}
    both = training_runs.train_runs(config, [(s, RunFolder(tmp_path / f"both-{s}")) for s in (0, 1)], **common)
    (alone,) = training_runs.train_runs(config, [(1, RunFolder(tmp_path / "alone"))], **common)
    assert both[1]["error_percent"] == alone["error_percent"]
    assert max(result["error_percent"] for result in both) < 20
    weights = [load_run(tmp_path / name, device="cpu").model_.classifier.weight for name in ("both-1", "alone")]
    torch.testing.assert_close(*weights)
    assert weights[0].abs().max() > 0.1  # it starts from N(0, .01²)
