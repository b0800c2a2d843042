"""`mmdgm export`: other programs get what `predict` gives from raw rows, or no file."""

import csv
import dataclasses
import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

import mmdgm as library
from mmdgm import MMVAClassifier
from mmdgm.data import datasets
from mmdgm.devices import Machine
from mmdgm.estimators.onnx_file import onnx_content
from mmdgm.experiments import run_folder, training_runs
from mmdgm.experiments.presets import find_preset
from mmdgm.settings import override

DIGITS = datasets.load("digits")
SHORT = ["pretrain_epochs=0", "epochs=2", "hidden=32,16", "z=4"]


@pytest.fixture(scope="module", name="mlp")
def make_mlp(tmp_path_factory, quiet):
    """A short digits run of MMVA."""
    path = tmp_path_factory.mktemp("run") / "mlp"
    config, overrides = override(find_preset("mnist-mmva").config, SHORT)
    config = dataclasses.replace(config, data=dataclasses.replace(config.data, dataset="digits"))
    training_runs.train_runs(
        config, [(0, run_folder.RunFolder(path))], overrides=overrides, console=quiet, machine=Machine("cpu")
    )
    return path


@pytest.fixture(name="folder")
def choose(request, trained, mlp):
    return {"mlp": mlp, "conv": trained}[request.param]


def session_of(file):
    return onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])


def agree(answer, estimator, X):
    label, scores = answer
    expected = estimator.class_scores(X)
    np.testing.assert_allclose(scores, expected, atol=2e-5 * np.abs(expected).max())
    np.testing.assert_array_equal(label, estimator.predict(X))


def properties(file):
    return {entry.key: entry.value for entry in onnx.load(file).metadata_props}


@pytest.mark.parametrize("folder", ["mlp", "conv"], indirect=True)
def test_a_preset_takes_the_images_of_its_data_set(mmdgm, folder, tmp_path):
    file = tmp_path / "new" / "digits.onnx"
    code, out, err = mmdgm("export", folder, "--onnx", "--out", file, "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert answer["files"] == [str(file)]
    assert 0 <= answer["difference"] <= 1e-5
    assert [path.name for path in file.parent.iterdir()] == ["digits.onnx"]
    assert properties(file) == answer["metadata"]

    run, session = library.load(folder, device="cpu"), session_of(file)
    (x,) = session.get_inputs()
    assert (x.name, x.type, x.shape) == ("x", "tensor(uint8)", ["rows", 8, 8])
    assert [(v.name, v.shape) for v in session.get_outputs()] == [("label", ["rows"]), ("scores", ["rows", 10])]
    for rows in (1, 3, 200):
        images = DIGITS.x_test[:rows, 0]
        agree(session.run(None, {"x": images}), run, images)
    assert {entry.domain: entry.version for entry in onnx.load(file).opset_import}[""] == answer["opset"]


def test_a_table_of_ones_own_with_empty_cells(mmdgm, own, tmp_path):
    file = tmp_path / "a.onnx"
    code, out, err = mmdgm("export", own / "rows", "--onnx", "--out", file)
    assert (code, err) == (0, "")
    assert "scores differ from the run's by at most" in out
    assert properties(file)["input"] in out
    with (own / "table.csv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    numbers = {name: [float(row[name] or "nan") for row in rows] for name in ("width", "height")}
    inputs = {name: np.array(column, np.float32)[:, None] for name, column in numbers.items()}
    inputs["colour"] = np.array([[row["colour"]] for row in rows])
    label, scores = session_of(file).run(["label", "scores"], inputs)

    assert mmdgm("predict", own / "rows", own / "table.csv", "--out", tmp_path / "p.csv")[0] == 0
    with (tmp_path / "p.csv").open(newline="", encoding="utf-8") as lines:
        predicted = list(csv.DictReader(lines))
    assert sum(int(row["missing"]) for row in predicted) == 14
    assert label.tolist() == [row["prediction"] for row in predicted]
    for k, name in enumerate(json.loads(properties(file)["class_names"])):
        np.testing.assert_allclose(scores[:, k], [float(row[f"score_{name}"]) for row in predicted], atol=1e-5)


def test_columns_of_an_npz_file(mmdgm, own, tmp_path):
    assert mmdgm("export", own / "columns", "--onnx", "--out", tmp_path / "a.onnx")[0] == 0
    with np.load(own / "columns.npz") as data:
        X = data["x"].astype(np.float32)
    X[::3, 1] = np.nan
    agree(session_of(tmp_path / "a.onnx").run(None, {"x": X}), library.load(own / "columns", device="cpu"), X)


def test_the_default_place_is_the_run(mmdgm, tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = MMVAClassifier(hidden=(8,), max_epochs=2, random_state=0, device="cpu").fit(X, X[:, 0] > 0)
    model.save(tmp_path / "run")
    assert mmdgm("export", tmp_path / "run", "--onnx")[0] == 0
    assert (tmp_path / "run" / "classifier.onnx").read_bytes() == onnx_content(model)


@pytest.mark.parametrize("package", ["onnx", "onnxruntime", "onnxscript"])
def test_a_missing_package_is_named(mmdgm, trained, tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    code, out, err = mmdgm("export", trained, "--onnx", "--out", tmp_path / "a.onnx")
    assert (code, out) == (2, "")
    assert err == "mmdgm: export needs onnx and onnxruntime: pip install 'mmdgm[export]'\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["TRAINED"], "give --onnx"),
        (["TRAINED", "--onnx", "--out", "a.pt"], "ends in .onnx"),
        (["TRAINED", "--onnx", "--out", "folder.onnx"], "ends in .onnx"),
        (["nowhere", "--onnx"], "nowhere holds no run"),
    ],
)
def test_mistakes(refused, trained, tmp_path, words, said):
    (tmp_path / "folder.onnx").mkdir()
    assert said in refused("export", *(word.replace("TRAINED", str(trained)) for word in words), watched=[trained])
