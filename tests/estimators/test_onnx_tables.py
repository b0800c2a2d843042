"""Tables in ONNX: raw columns with holes give what `predict` gives."""

import json

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch

from mmdgm import MMCVAClassifier, MMVAClassifier
from mmdgm.data.tables import Column, Table
from mmdgm.errors import InputError
from mmdgm.estimators import onnx_file, onnx_tables
from mmdgm.estimators.onnx_parts import IR_VERSION, OPSET, joined, tensor_info
from mmdgm.models.filler import ShrunkGaussian

SHORT = {"max_epochs": 4, "random_state": 0, "device": "cpu"}


def session_of(content):
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])


def run_parts(parts, inputs, outputs, values):
    graph = joined(parts, inputs, outputs)
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in OPSET.items()]
    proto = onnx.helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)
    onnx.checker.check_model(proto, full_check=True)
    return session_of(proto.SerializeToString()).run(None, values)[0]


def raw(frame):
    """A data frame as users of onnxruntime pass it: columns (rows, 1), empty text for a missing category."""
    return {
        name: frame[[name]].to_numpy(np.float32)
        if frame[name].dtype.kind in "fb"
        else frame[[name]].fillna("").to_numpy(str)
        for name in frame
    }


def close(scores, expected):
    np.testing.assert_allclose(scores, expected, atol=2e-5 * np.abs(expected).max())


def mixed_table(n, seed):
    """Numbers, one of them large, one with outliers, two doors, two columns of text; a fifth of the cells empty."""
    rng = np.random.default_rng(seed)
    colour = rng.choice(["red", "blue", "deep, grün"], n)
    frame = pd.DataFrame(
        {
            "größe": 1e5 + 30 * rng.normal(size=n) + 40 * (colour == "red"),
            "label": colour,  # as an output is named
            "doors": rng.choice([2.0, 5.0], n),
            "relu": rng.choice(["a", "b"], n),  # as the exporter names a tensor
            "tail": rng.standard_t(1.5, n),
        }
    )
    y = np.where((colour == "red") ^ (rng.random(n) < 0.05), "ja", "nein, süß")
    numbers = frame.columns[[0, 2, 4]]
    frame[numbers] = frame[numbers].astype(np.float32).astype(np.float64)
    return frame.mask(rng.random(frame.shape) < 0.2), y


@pytest.fixture(scope="module", name="mixed")
def fit_mixed():
    X, y = mixed_table(300, 0)
    model = MMCVAClassifier(**SHORT).fit(X, y)
    return model, onnx_file.onnx_content(model)


def test_a_mixed_table_with_holes(mixed):
    model, content = mixed
    session = session_of(content)
    inputs = {value.name: (value.type, value.shape) for value in session.get_inputs()}
    number, text = (("tensor(float)", ["rows", 1]), ("tensor(string)", ["rows", 1]))
    assert inputs == {"größe": number, "label": text, "doors": number, "relu": text, "tail": number}
    outputs = [(value.name, value.type, value.shape) for value in session.get_outputs()]
    assert outputs == [("label_", "tensor(string)", ["rows"]), ("scores", "tensor(float)", ["rows", 2])]
    X, y = mixed_table(250, 1)
    X.loc[::9, "label"] = "never seen"
    X.loc[3] = None  # nothing is known
    X.loc[5, "tail"] = -500.0
    label, scores = session.run(None, raw(X))
    np.testing.assert_array_equal(label, model.predict(X))
    close(scores, model.class_scores(X))
    assert set(label) == {"ja", "nein, süß"}
    assert (label == y).mean() > 0.7
    unknown, empty = X.assign(label="nowhere"), X.assign(label=pd.Series([None] * len(X), dtype=object))
    np.testing.assert_array_equal(session.run(None, raw(unknown))[1], session.run(None, raw(empty))[1])
    for i in (0, 3, 7):  # a single row
        alone = session.run(None, raw(X[i : i + 1]))
        close(alone[1], scores[i : i + 1])
        assert alone[0].tolist() == [label[i]]


def test_the_file_says_what_it_takes(mixed):
    proto = onnx.load_from_string(mixed[1])
    metadata = {entry.key: entry.value for entry in proto.metadata_props}
    assert metadata == onnx_file.metadata_of(mixed[0])
    assert json.loads(metadata["class_names"]) == ["ja", "nein, süß"]
    assert json.loads(metadata["columns"]) == ["größe", "label", "doors", "relu", "tail"]
    assert {entry.domain: entry.version for entry in proto.opset_import} == OPSET
    assert b"File " not in mixed[1]  # no stack traces


@pytest.mark.parametrize("correlated", [False, True])
def test_a_wide_table_of_numbers(correlated):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 120))
    if correlated:  # 40 columns are almost copies
        X[:, 80:] = X[:, :40] + 0.01 * rng.normal(size=(500, 40))
    y = np.array([-3, 7])[(X[:, 0] > 0).astype(int)]
    X = np.where(rng.random(X.shape) < 0.3, np.nan, X * 7 + 100).astype(np.float32)
    model = MMVAClassifier(unlabeled=None, **SHORT).fit(X, y)
    session = session_of(onnx_file.onnx_content(model))
    assert [(v.name, v.type, v.shape) for v in session.get_inputs()] == [("x", "tensor(float)", ["rows", 120])]
    assert [v.name for v in session.get_outputs()] == ["label", "scores"]
    for rows in (X, X[:1], np.nan_to_num(X[:3], nan=99.0)):
        label, scores = session.run(None, {"x": rows})
        assert label.dtype == np.int64
        np.testing.assert_array_equal(label, model.predict(rows))
        close(scores, model.class_scores(rows))


def test_a_table_that_is_too_wide_for_a_gaussian():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 260)).astype(np.float32)
    y = rng.integers(3, size=60)
    X[rng.random(X.shape) < 0.2] = np.nan
    model = MMCVAClassifier(hidden=(16,), **SHORT).fit(X, y)
    assert model.filler_.gaussian is None
    label, scores = session_of(onnx_file.onnx_content(model)).run(None, {"x": X})
    np.testing.assert_array_equal(label, model.predict(X))
    close(scores, model.class_scores(X))


def test_columns_of_text_alone():
    rng = np.random.default_rng(0)
    X = rng.choice(["a", "b", "c"], size=(80, 2)).astype(object)
    y = np.where(X[:, 0] == "a", True, False)
    model = MMCVAClassifier(**SHORT).fit(X, y)
    session = session_of(onnx_file.onnx_content(model))
    new = np.array([["a", "b"], ["", "c"], ["d", ""]], dtype=object)
    label, scores = session.run(None, {str(i): new[:, [i]] for i in range(2)})
    assert label.dtype == bool
    np.testing.assert_array_equal(label, model.predict(new))
    close(scores, model.class_scores(new))


@pytest.mark.parametrize("smallest", [1.0, 1e-2, 1e-4])
def test_conjugate_gradients_agree_with_the_exact_solution(smallest):
    d, rows = 110, 60
    rng = np.random.default_rng(0)
    basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
    gaussian, scale = ShrunkGaussian(d), torch.linspace(0.5, 3, d)
    gaussian.mean = torch.linspace(-2, 2, d)
    gaussian.covariance = torch.from_numpy((basis * np.geomspace(smallest, 5, d)) @ basis.T).float()
    x = rng.multivariate_normal(gaussian.mean.numpy(), gaussian.covariance.double().numpy(), size=rows)
    x = (x * scale.numpy()).astype(np.float32)
    hole = rng.random((rows, d)) < rng.random((rows, 1))
    hole[:3] = [[False] * d, [True] * d, [False] * (d - 1) + [True]]
    encoded = np.where(hole, np.nan, x)
    inputs, outputs = ([tensor_info(name, np.float32, "rows", d)] for name in ("encoded", "expected"))
    answer = run_parts([onnx_tables.gaussian_part(gaussian, scale)], inputs, outputs, {"encoded": encoded})

    mean = gaussian.mean.double().numpy() * scale.numpy()
    covariance = gaussian.covariance.double().numpy() * np.outer(scale, scale)
    covariance += onnx_tables.RIDGE * np.diag(scale.double().numpy() ** 2)
    for row in range(1, rows):
        m, o = hole[row], ~hole[row]
        exact = mean[m] + covariance[np.ix_(m, o)] @ np.linalg.solve(covariance[np.ix_(o, o)], x[row, o] - mean[o])
        np.testing.assert_allclose(answer[row, m], exact, atol=1e-4)


def test_encoded_columns_are_those_of_the_codec():
    columns = (
        Column(name="a", kind="category", values=("", "x", b"z", 3)),
        Column(name="b", kind="number", centre=1e6, scale=2.0),
        Column(name="c", kind="binary", values=(-1.0, 4.0)),
    )
    inputs = [tensor_info(f"column{i}", kind, "rows", 1) for i, kind in enumerate((object, np.float32, np.float32))]
    outputs = [tensor_info("encoded", np.float32, "rows", 6)]
    texts = np.array([["x"], ["3"], ["z"], ["y"], [""]], dtype=object)
    b = np.array([[1e6 + 3], [1e6 - 300], [np.nan], [1e6 + 6], [1e6 + 6.5]], np.float32)
    c = np.array([[4], [-1], [np.nan], [1], [4]], np.float32)
    values = {"column0": texts, "column1": b, "column2": c}
    encoded = run_parts(onnx_tables.encoding_parts(columns), inputs, outputs, values)
    objects = np.array(["x", 3, b"z", "y", ""], dtype=object)
    expected = Table(columns=columns).encode([objects, b[:, 0].astype(float), c[:, 0].astype(float)])
    np.testing.assert_allclose(encoded, expected, atol=1e-6)


def test_columns_that_cannot_be_told_apart_are_refused():
    same = Column(name="code", kind="category", values=(3, "3"))
    with pytest.raises(InputError, match="column code has different values of the same text"):
        onnx_tables.category_texts(same)
    X, y = mixed_table(60, 0)
    model = MMCVAClassifier(**SHORT).fit(X, y)
    model.codec_ = model.codec_.named(["a", "b", "a", "c", "d"])
    with pytest.raises(InputError, match="a name of its own"):
        onnx_file.onnx_content(model)
