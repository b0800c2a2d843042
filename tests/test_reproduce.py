"""The paper's tables: other imputers against their literal forms, layout from result files, small runs."""

import dataclasses
import io
import json
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from sklearn.covariance import LedoitWolf
from sklearn.impute import KNNImputer

from mmdgm.data import datasets
from mmdgm.data.datasets import Dataset
from mmdgm.data.masks import rand_drop, rect
from mmdgm.experiments.configs import config_to_json
from mmdgm.experiments.paper import conditional_figures, few_labels, runner
from mmdgm.experiments.paper import printed as paper
from mmdgm.experiments.paper.baselines import IMPUTERS, NearestImages, OneGaussian
from mmdgm.experiments.paper.patterns import mask_of
from mmdgm.experiments.paper.runner import QUICK, Reproduction
from mmdgm.experiments.paper.sheets import BASELINES, spread
from mmdgm.experiments.paper.supervised import preset_of
from mmdgm.experiments.paper.tables import TABLES
from mmdgm.experiments.presets import find_preset
from mmdgm.files import write_json
from mmdgm.inference import frozen, posterior
from mmdgm.inference.evaluation import error_percent

RNG = np.random.default_rng(0)
TRAIN = RNG.random((50, 1, 4, 4), dtype=np.float32)
TEST = RNG.random((8, 1, 4, 4), dtype=np.float32)
HOLES = {"rect": rect(TEST.shape, 2, 2), "random": rand_drop(TEST.shape, 0.4, seed=0)}


@pytest.mark.parametrize("missing", HOLES.values(), ids=HOLES)
def test_nearest_images_are_those_of_scikit_learn(missing):
    filled = NearestImages(TRAIN, k=3)(np.where(missing, np.nan, TEST), missing)
    imputer = KNNImputer(n_neighbors=3).fit(TRAIN.reshape(50, -1))
    expected = imputer.transform(np.where(missing, np.nan, TEST).reshape(8, -1))
    np.testing.assert_allclose(filled.reshape(8, -1), expected, rtol=1e-5)


@pytest.mark.parametrize("missing", HOLES.values(), ids=HOLES)
def test_one_gaussian_is_the_conditional_mean(missing):
    filled = OneGaussian(TRAIN)(np.where(missing, np.nan, TEST), missing).reshape(8, -1)
    fitted = LedoitWolf().fit(TRAIN.reshape(50, -1).astype(float))
    mean, covariance = fitted.location_, fitted.covariance_
    for row, x, hole in zip(filled, TEST.reshape(8, -1), missing.reshape(8, -1), strict=True):
        weights = np.linalg.solve(covariance[np.ix_(~hole, ~hole)], x[~hole] - mean[~hole])
        expected = mean[hole] + covariance[np.ix_(hole, ~hole)] @ weights
        np.testing.assert_allclose(row[hole], expected.clip(0, 1), rtol=1e-5)
        np.testing.assert_array_equal(row[~hole], x[~hole])


def test_patterns_go_by_their_names():
    assert mask_of("Rect 12", (3, 1, 28, 28)).sum() == 3 * 144
    drop = mask_of("Rand-Drop 0.8", (100, 1, 28, 28))
    assert drop.mean() == pytest.approx(0.8, abs=0.01)
    assert np.array_equal(drop, mask_of("Rand-Drop 0.8", (100, 1, 28, 28)))


def test_the_paper_s_figures_are_those_that_presets_are_listed_with():
    for name, error in paper.TABLE_1.items():
        assert find_preset(name).paper.startswith(f"{error:.2f} %")
    for C, (error, bound) in paper.TABLE_3.items():
        assert find_preset(preset_of(C)).paper == f"{error:.2f} %, bound {bound:.2f}".replace("-", "−")


def test_a_row_of_each_table_is_the_paper_s():
    assert list(paper.TABLE_4["Rect 12"].values()) == [0.1450, 0.1342, 0.1299, 0.1090]
    assert list(paper.TABLE_4["Rand-Drop 0.2"].values()) == [0.0109, 0.0110, 0.0111, 0.0147]
    assert list(paper.TABLE_5["Rect 12"].values()) == [47.2, 18.3, 15.9]
    assert paper.TABLE_1_QUOTED["DSN (Lee et al. 2015)"] == 0.39


def test_other_imputers_go_by_one_name():
    assert IMPUTERS.keys() == BASELINES.keys()


def test_spread():
    assert spread([], 2) == "–"
    assert spread([-93.174], 2) == "−93.17"
    assert spread([1.0, 2.0], 2) == "1.50 ± 0.71"  # n − 1


def test_table_3_stands_beside_the_paper_s():
    runs = [{"error_percent": 1.7, "elbo": -95.5, "quick": False}, {"error_percent": 1.9, "elbo": -95.9}]
    (sheet,) = TABLES["table3"].lay_out({"mnist-conv-mmva-C1": runs})
    assert sheet.rows[1] == ["1", "1.80 ± 0.14", "1.86", "−95.70 ± 0.28", "−95.86", "2"]
    assert sheet.rows[2] == ["10", "–", "0.88", "–", "−95.90", "0"]
    assert "| 1 | 1.80 ± 0.14 | 1.86 | −95.70 ± 0.28 | −95.86 | 2 |" in sheet.markdown()


def few_label_runs(*found, preset="mnist-mmcva-100"):
    about = {"steps": 9996, "seconds": 20.0, "images_per_second": 3e5, "device": "a GPU"}
    return {preset: [{"error_percent": error, "seed": seed, **about} for seed, error in enumerate(found)]}


def test_table_6_stands_beside_the_paper_s_and_says_what_a_seed_takes():
    errors, costs = TABLES["table6"].lay_out(few_label_runs(1.0, 1.2))
    assert ["Conv-MMCVA", "1.24 ± 0.54", "0.54 ± 0.04", "0.31", "the paper"] in errors.rows
    assert ["Conv-MMCVA", "1.10 ± 0.14", "–", "–", "ours"] in errors.rows
    assert costs.rows[0] == ["mnist-mmcva-100", "2", "9,996", "20", "300,000", "a GPU"]
    assert costs.rows[1] == ["mnist-mmcva-1000", "0", "–", "–", "–", "–"]
    assert len(errors.rows) == 9 + 1 + 3


def test_ablations_stand_beside_the_paper_s_and_the_full_model_on_the_same_seeds():
    runs = few_label_runs(1.0, 2.0) | few_label_runs(6.0, preset="mnist-mmcva-100-no-hat")
    (sheet,) = TABLES["ablations"].lay_out(runs)
    assert sheet.rows[0] == ["Conv-MMCVA, α_U = 0.3", "1.50 ± 0.71", "1.50 ± 0.71", "1.24", "2"]
    assert ["no hat loss", "6.00", "1.00", "6.4", "1"] in sheet.rows
    assert [row[3] for row in sheet.rows] == ["1.24", "–", "6.4", "2.1", "0.2 more", "–", "–", "–", "–"]


def test_ablations_change_what_they_say():
    full = find_preset("mnist-mmcva-100").config
    changed = {
        "mnist-mmcva-100-hat3": {"hat_weight": 3.0},
        "mnist-mmcva-100-no-hat": {"hat_weight": 0.0},
        "mnist-mmcva-100-classifier": {"generative_weight": 0.0, "straight_through": 0.0},
        "mnist-mmcva-100-no-balance": {"balance_weight": 0.0},
        "mnist-mmcva-100-no-straight-through": {"straight_through": 0.0},
    }
    for preset, settings in changed.items():
        config = find_preset(preset).config
        assert (config.data, config.training) == (full.data, full.training)
        assert config.model == dataclasses.replace(full.model, **settings)
    assert few_labels.ABLATIONS.keys() >= changed.keys()


def test_the_label_curve_changes_the_number_of_labels_alone(tmp_path):
    full = find_preset("mnist-mmcva-100").config
    for n, preset in few_labels.CURVE.items():
        config = find_preset(preset).config
        assert config.data == dataclasses.replace(full.data, labels=n)
        assert (config.model, config.training) == (full.model, full.training)
    runs = few_label_runs(1.5, 2.5) | few_label_runs(0.75, preset="mnist-mmcva-800")
    (sheet,) = TABLES["label-curve"].lay_out(runs)
    assert sheet.rows[0] == ["100", "2.00 ± 0.71", "2"]
    assert sheet.rows[3] == ["800", "0.75", "1"]
    TABLES["label-curve"].draw(tmp_path / "curve.png", runs)
    with Image.open(tmp_path / "curve.png") as picture:
        assert picture.size == (780, 520)


def test_samples_are_as_many_of_each_class():
    torch.manual_seed(0)
    model = find_preset("digits-mmcva-50").config.model.build((1, 8, 8), n_classes=3, n_rows=50).eval()
    x, y = conditional_figures.class_samples(model, 4)
    assert x.shape == (12, 1, 8, 8)
    assert y.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert len(np.unique(x.reshape(12, -1), axis=0)) == 12
    again, _ = conditional_figures.class_samples(model, 4)
    np.testing.assert_array_equal(x, again)


def test_a_classifier_learns_from_samples_alone():
    digits = datasets.load("digits")
    x = (digits.x_train[:600] / digits.scale).astype(np.float32)
    training = dataclasses.replace(conditional_figures.TRAINING, epochs=15, batch=50)
    model = conditional_figures.learn_from_samples(
        x, digits.y_train[:600].astype(np.int64), training, device="cpu"
    )
    assert error_percent(model, digits.x_test, digits.y_test, scale=digits.scale) < 15


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
    monkeypatch.setattr(frozen, "fit_linear_svm", partial(frozen.fit_linear_svm, steps=100))
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
    assert "Quick, that is shortened runs: Conv-MMVA, Conv-VA+Pegasos, MMVA, VA+Pegasos." in printed
    result = json.loads((tmp_path / "table1" / "mnist-va" / "seed-0" / "result.json").read_text())
    assert result["quick"]
    assert result["overrides"] == {"epochs": 2}
    assert (
        f"| VA+Pegasos (quick) | {result['error_percent']:.2f} | 1.04 | 1 |"
        in (tmp_path / "table1.md").read_text()
    )

    trained = (tmp_path / "runs" / "mnist-va" / "seed-0" / "model.safetensors").stat().st_mtime_ns
    code, printed, err = mmdgm("reproduce", "table4", *out, "--json")
    assert code == 0, err
    drawn, means = json.loads(printed)
    assert len(drawn["rows"]) == len(means["rows"]) == 3
    assert means["rows"][0][-2:] == ["10 nearest", "one Gaussian"]
    assert means["notes"] == ["The other imputers know 200 training images."]
    assert all(0 < float(cell) < 1 for row in means["rows"][1:] for cell in row[1:])
    assert (tmp_path / "runs" / "mnist-va" / "seed-0" / "model.safetensors").stat().st_mtime_ns == trained

    assert mmdgm("reproduce", "table5", *out)[0] == 0
    result = json.loads((tmp_path / "table4-5" / "mnist-cnn" / "seed-0" / "result.json").read_text())
    assert set(result["missing"]["Rect 12"]) == {"noise"}
    assert result["trained"]["steps"] > 0

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
    assert numbers["models"].keys() == set(conditional_figures.PRESETS)
    assert all(0 <= value <= 100 for figures in numbers["models"].values() for value in figures.values())


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
        assert "made with epochs=7, not 1000; choose another --out" in " ".join(err.split())
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
    (sheet,), _ = work.make(table)
    counts = {row[0]: row[3] for row in sheet.rows}
    assert (counts["VA+Pegasos (quick)"], counts["MMVA"]) == ("1", "0")
    (note,) = [note for note in sheet.notes if "not counted" in note]
    assert note.startswith("mnist-mmva seed 0 was stopped and is not counted: stopped at its end: elbo")
    assert "mnist-mmva: seed 0 stopped at its end: elbo" in console.file.getvalue()
    said = console.file.tell()
    assert work.make(table)[0] == [sheet]
    other = dataclasses.replace(table, folder="another", name="another")
    assert work.make(other)[0] == [sheet]
    assert console.file.tell() == said  # it is not tried again


def test_what_is_unknown_is_refused(mmdgm, tmp_path):
    code, _, err = mmdgm("reproduce", "table9", "--out", tmp_path)
    assert code == 2
    assert "there are table1, table3, table4, table5, table6, ablations, label-curve, figures-mnist" in " ".join(
        err.split()
    )
    assert not list(tmp_path.iterdir())
