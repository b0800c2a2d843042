"""ONNX files are compared with the estimator before they are written, and name the classes."""

import numpy as np
import onnx
import pytest

from mmdgm import MMVAClassifier
from mmdgm.errors import InputError
from mmdgm.estimators import onnx_file


@pytest.fixture(scope="module", name="small")
def fit_small():
    """A classifier of two columns, and its file's content."""
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = MMVAClassifier(hidden=(8,), max_epochs=2, random_state=0, device="cpu").fit(X, X[:, 0] > 0)
    return model, onnx_file.onnx_content(model)


@pytest.mark.parametrize("difference", [2e-4, float("nan"), float("inf")])
def test_a_file_with_other_answers_is_not_written(small, tmp_path, monkeypatch, difference):
    monkeypatch.setattr(onnx_file, "onnx_content", lambda *_: small[1])
    monkeypatch.setattr(onnx_file, "largest_difference", lambda *_: difference)
    file = tmp_path / "a.onnx"
    with pytest.raises(InputError, match="not written"):
        onnx_file.export_onnx(small[0], file)
    assert not list(tmp_path.iterdir())
    file.write_bytes(b"older")
    with pytest.raises(InputError, match="not written"):
        onnx_file.export_onnx(small[0], file)
    assert file.read_bytes() == b"older"


def test_the_check_sees_other_weights_fills_and_classes(small):
    model, content = small
    assert onnx_file.largest_difference(model, content) < 1e-5
    proto = onnx.load_from_string(content)
    changed = 0
    for weights in proto.graph.initializer:
        before, values = weights.SerializeToString(), onnx.numpy_helper.to_array(weights)
        if values.dtype.kind != "b" and values.dtype != np.float64:
            continue
        other = ~values if values.dtype.kind == "b" else values + 0.1
        weights.CopyFrom(onnx.numpy_helper.from_array(other, weights.name))
        if weights.name.endswith(("classes", "mean", "centre")):
            changed += 1
            assert onnx_file.largest_difference(model, proto.SerializeToString()) > 1e-3, weights.name
        weights.ParseFromString(before)
    assert changed == 3


@pytest.mark.parametrize(
    ("classes", "kind", "values"),
    [
        (np.array([-3, 7], np.int8), np.int64, [-3, 7]),
        (np.array([3, 7], object), np.int64, [3, 7]),
        (np.array([0.5, 2.0], np.float32), np.float64, [0.5, 2.0]),
        (np.array([False, True]), bool, [False, True]),
        (np.array(["ja", "süß"]), object, ["ja", "süß"]),
        (np.array(["ja", "süß"], object), object, ["ja", "süß"]),
        (np.array([b"a", b"b"]), object, ["a", "b"]),
    ],
)
def test_classes_keep_their_values(classes, kind, values):
    named = onnx_file.class_values(classes)
    assert (named.dtype, named.tolist()) == (kind, values)
