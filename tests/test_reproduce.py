"""The paper's tables: other imputers against their literal forms, layout from result files, small runs."""

import json
from functools import partial

import numpy as np
import pytest
from sklearn.covariance import LedoitWolf
from sklearn.impute import KNNImputer

from mmdgm import datasets, frozen, posterior
from mmdgm.corruption import rand_drop, rect
from mmdgm.datasets import Dataset
from mmdgm.persistence import write_json
from mmdgm.presets import config_to_json, find_preset
from mmdgm.reproduce import paper, runner
from mmdgm.reproduce.baselines import IMPUTERS, NearestImages, OneGaussian
from mmdgm.reproduce.patterns import mask_of
from mmdgm.reproduce.runner import QUICK
from mmdgm.reproduce.tables import BASELINES, TABLES, preset_of, spread

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


@pytest.fixture(name="small_mnist")
def make_small_mnist(monkeypatch):
    """Digits of 8×8 enlarged to 28×28, under MNIST's name."""
    digits = datasets.load("digits")

    def enlarged(x):
        return np.pad(x.repeat(3, axis=2).repeat(3, axis=3), ((0, 0), (0, 0), (2, 2), (2, 2))) * 15

    small = Dataset(
        name="mnist",
        x_train=enlarged(digits.x_train[:300]),
        y_train=digits.y_train[:300],
        x_test=enlarged(digits.x_test[:200]),
        y_test=digits.y_test[:200],
        n_classes=10,
        scale=256.0,
    )
    monkeypatch.setattr(datasets, "load", lambda *_, **__: small)
    for name, changes in QUICK.items():
        monkeypatch.setitem(QUICK, name, {**changes, "epochs": 2})
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


def test_what_is_unknown_is_refused(mmdgm, tmp_path):
    code, _, err = mmdgm("reproduce", "table9", "--out", tmp_path)
    assert code == 2
    assert "there are table1, table3, table4, table5, figures-mnist" in " ".join(err.split())
    assert not list(tmp_path.iterdir())
