"""`mmdgm reproduce`: small runs of all tables and figures, made once, and tables from result files."""

import dataclasses
import io
import json
from functools import partial

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from mmdgm.data import datasets
from mmdgm.data.datasets import Dataset
from mmdgm.experiments import training_runs
from mmdgm.experiments.configs import config_to_json
from mmdgm.experiments.paper import conditional_figures, runner, svhn_figures
from mmdgm.experiments.paper import printed as paper
from mmdgm.experiments.paper.runner import QUICK, Reproduction
from mmdgm.experiments.paper.sheets import BASELINES
from mmdgm.experiments.paper.tables import TABLES
from mmdgm.experiments.presets import find_preset
from mmdgm.files import read_json, write_json
from mmdgm.inference import posterior
from mmdgm.training import feature_svm


@pytest.fixture(name="small_mnist")
def make_small_mnist(monkeypatch, request):
    """Digits of 8×8 enlarged to 28×28, under MNIST's name; as many training images as a test's parameter says."""
    digits = datasets.load("digits")
    rows = getattr(request, "param", 300)

    def enlarged(x):
        return np.pad(x.repeat(3, axis=2).repeat(3, axis=3), ((0, 0), (0, 0), (2, 2), (2, 2))) * 15

    small = Dataset(
        name="mnist",
        x_train=enlarged(digits.x_train[:rows]),
        y_train=digits.y_train[:rows],
        x_test=enlarged(digits.x_test[:200]),
        y_test=digits.y_test[:200],
        n_classes=10,
        scale=256.0,
    )
    monkeypatch.setattr(datasets, "load", lambda *_, **__: small)
    for name, changes in QUICK.items():
        few_steps = {"batch": 20, "epochs": 1} if "unlabeled_batch" in changes else {"epochs": 2}
        monkeypatch.setitem(QUICK, name, changes | few_steps)
    monkeypatch.setattr(runner, "QUICK_ROWS", 20)
    monkeypatch.setattr(posterior, "STARTS", 1)
    monkeypatch.setattr(feature_svm, "fit_linear_svm", partial(feature_svm.fit_linear_svm, steps=100))
    whole = [(table, dict(table)) for table in (paper.TABLE_4, paper.TABLE_5)]
    for table, rows in whole:
        for pattern in rows.keys() - {"Rand-Drop 0.8", "Rect 12"}:
            del table[pattern]
    yield
    for table, rows in whole:  # in their order, too
        table.clear()
        table.update(rows)


@pytest.mark.usefixtures("small_mnist")
def test_quick_tables_and_figures(mmdgm, tmp_path):
    out = ("--quick", "--out", tmp_path, "--device", "cpu")
    code, printed, _ = mmdgm("reproduce", "table1", *out)
    assert code == 0
    assert "Conv-MMVA (quick)" in printed
    assert ": Conv-MMVA, Conv-VA+Pegasos, MMVA, VA+Pegasos." in printed
    result = read_json(tmp_path / "runs" / "mnist-va" / "seed-0" / "result.json")
    assert result["quick"]
    assert result["overrides"] == {"epochs": 2}
    assert f"| VA+Pegasos (quick) | {result['error_percent']:.2f} | 1.04 | 1 |" in (tmp_path / "table1.md").read_text()

    trained = (tmp_path / "runs" / "mnist-va" / "seed-0" / "model.safetensors").stat().st_mtime_ns
    code, printed, err = mmdgm("reproduce", "table4", *out, "--json")
    assert code == 0, err
    drawn, means, origins = json.loads(printed)
    assert [row[:2] for row in origins["rows"][1:]] == [[cell, "0"] for cell in (*paper.TABLE_4_PRESETS, *BASELINES)]
    assert len(drawn["rows"]) == len(means["rows"]) == 3
    assert means["rows"][0][-2:] == ["10 nearest", "one Gaussian"]
    assert " 200 training images" in means["notes"][0]
    assert all(0 < float(cell) < 1 for row in means["rows"][1:] for cell in row[1:])
    assert (tmp_path / "runs" / "mnist-va" / "seed-0" / "model.safetensors").stat().st_mtime_ns == trained

    assert mmdgm("reproduce", "table5", *out)[0] == 0
    result = read_json(tmp_path / "missing" / "mnist-cnn" / "seed-0" / "result.json")
    assert set(result["missing"]["Rect 12"]) == {"noise"}
    run = read_json(tmp_path / "runs" / "mnist-cnn" / "seed-0" / "result.json")
    assert run.items() >= result["trained"].items()
    assert "missing" not in run
    measured = {path.parts[-3] for path in (tmp_path / "missing").glob("*/seed-0/result.json")}
    assert measured == {*TABLES["table4"].presets, *TABLES["table5"].presets, *BASELINES}

    code, printed, _ = mmdgm("reproduce", "figures-mnist", *out, "--json")
    assert code == 0
    files = json.loads(printed)["files"]
    assert len(files) == 7
    accuracy = json.loads((tmp_path / "figures-mnist" / "tsne.json").read_text())["accuracy"]
    assert set(accuracy) == {"VA", "MMVA"}
    assert all(0 < value <= 1 for kinds in accuracy.values() for value in kinds.values())


@pytest.mark.parametrize("small_mnist", [1437], indirect=True)  # enough for 1,000 labels
@pytest.mark.usefixtures("small_mnist")
def test_quick_tables_and_figures_of_few_labels(mmdgm, tmp_path):
    out = ("--quick", "--out", tmp_path, "--device", "cpu")
    code, printed, err = mmdgm("reproduce", "label-curve", *out)
    assert code == 0, err
    assert "100 (quick)" in printed
    assert (tmp_path / "label-curve.png").exists()
    assert str(tmp_path / "label-curve.png") in printed.replace("\n", "")
    for name in ("table6", "ablations"):
        code, printed, err = mmdgm("reproduce", name, *out, "--json")
        assert code == 0, err
        for sheet in json.loads(printed):
            header, *rows = sheet["rows"]
            if "seeds" in header:
                assert {row[header.index("seeds")] for row in rows} == {"1"}  # every cell has a run

    code, printed, err = mmdgm("reproduce", "figures-ssl-mnist", *out, "--json")
    assert code == 0, err
    assert len(json.loads(printed)["files"]) == 3
    numbers = json.loads((tmp_path / "figures-ssl-mnist" / "samples.json").read_text())
    assert numbers["samples"] == 500
    assert numbers["models"].keys() == set(conditional_figures.MNIST.presets)
    assert all(0 <= value <= 100 for figures in numbers["models"].values() for value in figures.values())


@pytest.fixture(name="small_svhn")
def make_small_svhn(monkeypatch):
    """Some digits of 8×8 enlarged to 32×32, in colour, under SVHN's name."""
    digits = datasets.load("digits")

    def enlarged(x):
        return np.pad(x.repeat(4, axis=2).repeat(4, axis=3).repeat(3, axis=1) * 15, ((0, 0),) * 4)

    small = Dataset(
        name="svhn",
        x_train=enlarged(digits.x_train[:60]),
        y_train=digits.y_train[:60],
        x_test=enlarged(digits.x_test[:6]),
        y_test=digits.y_test[:6],
        n_classes=10,
        scale=256.0,
    )
    monkeypatch.setattr(datasets, "load", lambda *_, **__: small)
    monkeypatch.setattr(feature_svm, "fit_linear_svm", partial(feature_svm.fit_linear_svm, steps=100))
    monkeypatch.setattr(posterior, "STARTS", 1)
    monkeypatch.setattr(svhn_figures, "SIDE", 3)
    monkeypatch.setattr(training_runs, "save_figures", lambda *_: None)
    no_models = dataclasses.replace(conditional_figures.SVHN, presets=())
    monkeypatch.setattr(svhn_figures, "SVHN", no_models)  # they want 1,000 labels


@pytest.mark.usefixtures("small_svhn")
def test_quick_table_and_figures_of_svhn(mmdgm, tmp_path):
    out = ("--quick", "--out", tmp_path, "--device", "cpu", "--data-dir", tmp_path / "data")
    code, printed, err = mmdgm("reproduce", "table2", *out, "--json")
    assert code == 0, err
    (_, *rows), _ = [sheet["rows"] for sheet in json.loads(printed)]
    assert [row[4] for row in rows] == ["1"] * 5 + ["–"] * 5
    assert all(row[0].endswith("(quick)") for row in rows[:5])
    assert [row[3] == "–" for row in rows[:5]] == [False, False, False, True, False]  # the CNN has no bound

    code, printed, err = mmdgm("reproduce", "figures-svhn", *out, "--json")
    assert code == 0, err
    folder = tmp_path / "figures-svhn"
    names = {"samples-lcn.png", "imputations-lcn.png", "contrast-normalised.json", "samples.json"}
    assert {path.name for path in folder.iterdir()} == names
    found = json.loads((folder / "contrast-normalised.json").read_text())["models"]
    assert set(found) == set(svhn_figures.MODELS)
    for figures in found.values():
        assert 0 < figures["reconstruction_mse"] < 10
        assert set(figures["imputation_mse"]) == {"draw", "posterior"}
    with Image.open(folder / "imputations-lcn.png") as picture:
        assert picture.size == (6 * 66 + 2, 5 * 66 + 2)


@pytest.mark.usefixtures("small_mnist")
def test_what_was_made_with_other_settings_is_refused(mmdgm, tmp_path):
    where = ("--out", tmp_path, "--device", "cpu")
    config = config_to_json(find_preset("mnist-va").config)
    config["training"]["epochs"] = 7
    config["training"]["checkpoint_seconds"] = 5.0  # of no consequence
    result = {"status": "done", "seed": 1, "config": config, "error_percent": 1.0, "steps": 9}
    for name in ("table1", "table4"):
        file = tmp_path / TABLES[name].folder / "mnist-va" / "seed-1" / "result.json"
        write_json(file, result if name == "table1" else {"trained": result})
        code, _, err = mmdgm("reproduce", name, *where)
        assert code == 2
        assert "epochs=7, not 1000" in " ".join(err.split())
        file.unlink()
    assert mmdgm("reproduce", "figures-mnist", "--quick", *where)[0] == 0
    for what in ("table1", "figures-mnist"):
        code, _, err = mmdgm("reproduce", what, *where)
        assert code == 2
        assert "epochs=2, not 1000" in " ".join(err.split())


@pytest.mark.usefixtures("small_mnist")
def test_a_table_goes_without_a_run_that_was_stopped_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setitem(QUICK, "mnist-mmva", {"pretrain_epochs": 0, "epochs": 1, "learning_rate": 1e30})
    table = dataclasses.replace(TABLES["table1"], presets=("mnist-va", "mnist-mmva"))
    console = Console(file=io.StringIO())
    work = Reproduction(out=tmp_path, seeds=1, quick=True, console=console, device="cpu")
    (sheet, _), _ = work.make(table)
    counts = {row[0]: row[3] for row in sheet.rows}
    assert (counts["VA+Pegasos (quick)"], counts["MMVA"]) == ("1", "0")
    (note,) = [note for note in sheet.notes if "not counted" in note]
    assert note.startswith("mnist-mmva seed 0 ")
    assert "mnist-mmva: seed 0 stopped" in console.file.getvalue()
    said = console.file.tell()
    assert work.make(table)[0][0] == sheet
    other = dataclasses.replace(table, name="another")
    assert work.make(other)[0][0] == sheet
    assert console.file.tell() == said  # it is not tried again


def test_a_table_shows_the_seeds_that_it_says_of_runs_that_others_share(tmp_path):
    config = config_to_json(find_preset("mnist-mmcva-100").config)
    about = {"status": "done", "config": config, "error_percent": 1.0}
    for seed in (0, 1, 2, 3, 5):
        write_json(tmp_path / "runs" / "mnist-mmcva-100" / f"seed-{seed}" / "result.json", about | {"seed": seed})
    found = {
        name: [run["seed"] for run in runner.read_results(tmp_path, TABLES[name])["mnist-mmcva-100"]]
        for name in ("label-curve", "ablations")
    }
    assert found == {"label-curve": [0, 1, 2], "ablations": [0, 1, 2, 3, 5]}
    no_number = dataclasses.replace(TABLES["label-curve"], seeds={}, presets=("mnist-mmcva-100",))
    assert len(runner.read_results(tmp_path, no_number)["mnist-mmcva-100"]) == 5

    work = Reproduction(out=tmp_path, seeds=4, quick=False, console=Console(file=io.StringIO()))
    (sheet, origins), _ = work.make(dataclasses.replace(no_number, draw=None))
    assert sheet.rows[0] == ["100", "1.00 ± 0.00", "4"]
    assert origins.rows == [["mnist-mmcva-100", "0–3", "unknown"]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["label-curve.md", "runs"]


def test_what_is_unknown_is_refused(mmdgm, tmp_path):
    code, _, err = mmdgm("reproduce", "table9", "--out", tmp_path)
    assert code == 2
    assert "table1, table2, table3, table4, table5, table6, table7, figures-mnist" in " ".join(err.split())
    assert not list(tmp_path.iterdir())
