"""`mmdgm export`: other programs get the scores that PyTorch gives, or no file."""

import dataclasses
import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

import mmdgm as library
from mmdgm import MMCVAClassifier
from mmdgm.cli import export as command
from mmdgm.data import datasets
from mmdgm.data.contrast import local_contrast
from mmdgm.devices import Machine
from mmdgm.errors import InputError
from mmdgm.estimators import onnx_file
from mmdgm.experiments import run_folder, training_runs
from mmdgm.experiments.presets import find_preset
from mmdgm.files import read_json
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


def score(file, x):
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return session.run(["scores"], {"x": x})[0]


def properties(file):
    return {entry.key: entry.value for entry in onnx.load(file).metadata_props}


@pytest.mark.parametrize("folder", ["mlp", "conv"], indirect=True)
def test_onnxruntime_scores_like_pytorch(mmdgm, folder, tmp_path):
    file = tmp_path / "new" / "digits.onnx"
    code, out, err = mmdgm("export", folder, "--onnx", "--out", file, "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert answer["files"] == [str(file)]
    assert 0 <= answer["difference"] <= 1e-5
    assert [path.name for path in file.parent.iterdir()] == ["digits.onnx"]

    run = library.load(folder, device="cpu")
    for rows in (1, 3, 17):
        x = (DIGITS.x_test[:rows] / 16).astype(np.float32)
        expected = run.model_.scores(torch.from_numpy(x)).numpy()
        assert expected.shape == (rows, 10)
        np.testing.assert_allclose(score(file, x), expected, atol=1e-5 * np.abs(expected).max())

    assert properties(file) == answer["metadata"]
    assert set(properties(file)) == {"estimator", "class_names", "codec", "input"}
    assert properties(file)["estimator"] == type(run).__name__
    assert json.loads(properties(file)["class_names"]) == [str(k) for k in range(10)]
    codec = json.loads(properties(file)["codec"])
    assert codec == run.codec_.to_json() | {"size": [8, 8]}
    raw = DIGITS.x_test[:5].astype(np.float32)  # by nothing but what the file says
    x = (raw - codec["low"]) / (codec["high"] - codec["low"])
    np.testing.assert_allclose(score(file, x), run.class_scores(DIGITS.x_test[:5, 0]), atol=1e-4)
    proto = onnx.load(file)
    (x,), (scores,) = proto.graph.input, proto.graph.output
    assert (x.name, scores.name) == ("x", "scores")
    assert x.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert [d.dim_param or d.dim_value for d in x.type.tensor_type.shape.dim] == ["rows", 1, 8, 8]
    assert [d.dim_param or d.dim_value for d in scores.type.tensor_type.shape.dim] == ["rows", 10]
    assert {entry.domain: entry.version for entry in proto.opset_import} == {"": answer["opset"]}
    assert b"File " not in file.read_bytes()  # no stack traces


def test_what_the_network_sees_is_said(mmdgm, trained, tmp_path, monkeypatch):
    run = library.load(trained, device="cpu")
    run.codec_ = dataclasses.replace(run.codec_, normalised=True)
    run.classes_ = np.array(list("ABCDEFGHIß"))
    monkeypatch.setattr(command, "load", lambda *_, **__: run)
    code, out, err = mmdgm("export", trained, "--onnx", "--out", tmp_path / "a.onnx")
    assert (code, err) == (0, "")
    assert "differ from PyTorch's by at most" in out
    metadata = properties(tmp_path / "a.onnx")
    assert json.loads(metadata["codec"])["normalised"]
    assert metadata["input"] in out
    assert "mmdgm.data.contrast.local_contrast" in metadata["input"]
    assert json.loads(metadata["class_names"]) == list("ABCDEFGHIß")
    x = local_contrast(DIGITS.x_test[:5] / np.float32(16))
    np.testing.assert_allclose(score(tmp_path / "a.onnx", x), run.class_scores(DIGITS.x_test[:5, 0]), atol=1e-4)


class Linear(nn.Module):
    """Something that is no model of this library, and drops out in training."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(3, 2)

    def scores(self, x):
        return nn.functional.dropout(self.last(x), 0.5, self.training)


def test_any_module_with_scores_can_be_written(tmp_path):
    model = Linear().train()
    assert onnx_file.export_onnx(model, (3,), tmp_path / "a.onnx", {"made": "by hand"}) <= 1e-5
    assert model.training
    assert properties(tmp_path / "a.onnx") == {"made": "by hand"}
    x = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    expected = model.last(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(score(tmp_path / "a.onnx", x), expected, atol=1e-6)


@pytest.mark.parametrize("difference", [2e-4, float("nan")])
def test_a_file_with_other_scores_is_not_written(tmp_path, monkeypatch, difference):
    monkeypatch.setattr(onnx_file, "_difference", lambda *_: difference)
    file = tmp_path / "a.onnx"
    with pytest.raises(InputError, match="not written"):
        onnx_file.export_onnx(Linear(), (3,), file, {})
    assert not list(tmp_path.iterdir())
    file.write_bytes(b"older")
    with pytest.raises(InputError, match="not written"):
        onnx_file.export_onnx(Linear(), (3,), file, {})
    assert file.read_bytes() == b"older"


def test_the_check_sees_other_weights():
    content = onnx_file._onnx(onnx_file._Scores(Linear()).eval(), (3,), {})
    assert onnx_file._difference(onnx_file._Scores(Linear()).eval(), (3,), content) > 0.01


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


def test_a_run_of_own_data_is_exported_too(mmdgm, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    model = MMCVAClassifier(hidden=(8,), max_epochs=2, random_state=0, device="cpu").fit(X, y)
    model.save(tmp_path / "run")
    code, _, err = mmdgm("export", tmp_path / "run", "--onnx", "--json")
    assert code == 0, err
    session = onnxruntime.InferenceSession(tmp_path / "run" / "classifier.onnx")
    scores = session.run(None, {"x": model.codec_.encode(X)})[0]
    np.testing.assert_allclose(scores[:, 1] - scores[:, 0], model.decision_function(X), atol=1e-4)


def seen(column, cells):
    """A CSV file's column as the network sees it, by nothing but what the file's metadata say."""
    if column["kind"] == "category":
        return [[float(cell == value) for cell in cells] for value in column["values"]]
    numbers = np.array(cells, float)
    if column["kind"] == "binary":
        low, high = column["values"]
        return [(numbers - low) / (high - low)]
    scaled = (numbers - column["centre"]) / column["scale"]
    with np.errstate(invalid="ignore"):
        return [np.where(abs(scaled) > 3, np.sign(scaled) * (3 + np.log(abs(scaled) - 2)), scaled)]


def test_the_file_of_a_table_says_how_its_columns_become_the_input(mmdgm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    numbers = np.where(np.arange(60) == 7, 40.0, rng.normal(size=60))  # one far off
    rows = [
        (f"{numbers[i]:.3f}", rng.choice(["red", "blue", "grün"]), str(rng.choice([2, 5])), i % 2) for i in range(60)
    ]
    lines = ["größe,colour,doors,kind", *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    for words in (
        ("fit", "t.csv", "--target", "kind", "--run-dir", "run", "--epochs", 2, "--device", "cpu"),
        ("predict", "run", "t.csv"),
        ("export", "run", "--onnx"),
    ):
        code, _, err = mmdgm(*words)
        assert code == 0, err
    columns = json.loads(properties("run/classifier.onnx")["codec"])["columns"]
    assert [column["name"] for column in columns] == ["größe", "colour", "doors"]
    assert columns == read_json(tmp_path / "run" / "config.json")["codec"]["columns"]
    assert columns[1]["values"] == ["blue", "grün", "red"]
    parts = [part for i, column in enumerate(columns) for part in seen(column, [row[i] for row in rows])]
    x = np.stack(parts, axis=1).astype(np.float32)[:, :, None, None]
    predicted = np.genfromtxt("t-predictions.csv", delimiter=",", skip_header=1)[:, 3:]
    scores = score("run/classifier.onnx", x)
    np.testing.assert_allclose(scores[:, 1] - scores[:, 0], predicted[:, 1] - predicted[:, 0], atol=1e-4)
