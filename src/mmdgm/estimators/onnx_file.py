"""Export of classifiers as ONNX files, which take raw rows and run without PyTorch and without this library."""

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mmdgm.data.codecs import ImageCodec, TableCodec
from mmdgm.errors import InputError
from mmdgm.estimators.classifier_base import GenerativeClassifier
from mmdgm.estimators.onnx_images import ROUNDS, common_noise, image_parts, takes_nan
from mmdgm.estimators.onnx_parts import IR_VERSION, OPSET, ROWS, Graph, joined, packages, rename, tensor_info, written
from mmdgm.estimators.onnx_tables import table_parts
from mmdgm.files import write_whole
from mmdgm.inference.imputation import in_rounds

TOLERANCE = 1e-4  # relative to the largest score
BATCHES = (1, 2, 5, 64)  # batch sizes of the check
HOLES = 0.3  # fraction of values that are missing in the rows of the check

DECIDE = """
decide (float[rows, k] scores) => (int64[rows] label)
{
  number = ArgMax <axis = 1, keepdims = 0> (scores)
  label = Gather <axis = 0> (classes, number)
}
"""


def export_onnx(estimator: GenerativeClassifier, path: Path) -> float:
    """Write a fitted classifier as an ONNX file; return how much its scores differ from the estimator's.

    The inputs are raw rows: see `table_parts` and `image_parts`. The outputs are `label` `(rows,)`, the classes
    themselves, and `scores` `(rows, K)`. If a column of the table has the name of an output, the output gets an
    underscore.

    The difference is the largest one on random rows with holes, relative to the largest score. If it exceeds
    `TOLERANCE`, or a label differs, the file is not written.
    """
    check_is_fitted(estimator)
    content = onnx_content(estimator)
    difference = largest_difference(estimator, content)
    if not difference <= TOLERANCE:  # also true for NaN
        raise InputError(
            f"{path}: not written, since scores in onnxruntime differ from PyTorch's by {difference:.1e} of the "
            f"largest, more than {TOLERANCE:.0e}; try other versions of onnx and onnxruntime"
        )
    write_whole(path, content)
    return difference


def onnx_content(estimator: GenerativeClassifier) -> bytes:
    """Return the bytes of the ONNX file of a fitted classifier."""
    onnx, _ = packages()
    codec, model = estimator.codec_, copy.deepcopy(estimator.model_).cpu().eval()
    if isinstance(codec, ImageCodec):
        inputs, parts = image_parts(codec, model, torch.from_numpy(estimator.fill_))
    else:
        assert estimator.filler_ is not None
        inputs, parts = table_parts(codec, model, estimator.filler_)
    classes = class_values(estimator.classes_)
    outputs = [tensor_info("label", classes.dtype, ROWS), tensor_info("scores", np.float32, ROWS, len(classes))]
    graph = joined([*parts, written(DECIDE, {"classes": classes})], list(inputs.values()), outputs)
    _make_public(graph, list(inputs))
    imports = [onnx.helper.make_opsetid(domain, version) for domain, version in OPSET.items()]
    proto = onnx.helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION, producer_name="mmdgm")
    onnx.helper.set_model_props(proto, metadata_of(estimator))
    onnx.checker.check_model(proto, full_check=True)
    content: bytes = proto.SerializeToString()
    return content


def class_values(classes: NDArray[Any]) -> NDArray[Any]:
    """Return the classes as values of a type that ONNX has: int64, double, bool, or text."""
    classes = np.array(classes.tolist())  # an array of objects may hold numbers
    if classes.dtype.kind in "iu":
        return classes.astype(np.int64)
    if classes.dtype.kind in "fb":
        return classes.astype(np.float64 if classes.dtype.kind == "f" else bool)
    texts = [value.decode() if isinstance(value, bytes) else str(value) for value in classes.tolist()]
    return np.array(texts, dtype=object)


def _make_public(graph: Graph, names: list[str]) -> None:
    """Give the inputs their public names, and names to all other tensors that no input has."""
    public = {value.name: name for value, name in zip(graph.input, names, strict=True)}
    for value in graph.output:
        name = value.name
        while name in names:
            name += "_"
        public[value.name] = name
    rename(graph, lambda name: public.get(name, f"mmdgm/{name}" if name else ""))


def metadata_of(estimator: GenerativeClassifier) -> dict[str, str]:
    """Return what the file says of itself."""
    codec = estimator.codec_
    if isinstance(codec, TableCodec):
        one = all(codec.numeric)
        words = "x: the columns, in the order of `columns`" if one else "each column under its name, (rows, 1)"
        words += "; NaN is a missing number" + ("" if one else ", an empty or unknown text a missing category")
        more = {"columns": json.dumps(codec.names, ensure_ascii=False)}
    else:
        words, more = f"x: {codec.fitted_on} with values as in training", {}
        words += "; NaN is a missing pixel" if takes_holes(estimator) else "; no pixel may be missing"
    names = [str(name) for name in class_values(estimator.classes_).tolist()]
    return {
        "estimator": type(estimator).__name__,
        "class_names": json.dumps(names, ensure_ascii=False),
        "input": words,
        **more,
    }


def largest_difference(estimator: GenerativeClassifier, content: bytes) -> float:
    """Return the difference that `export_onnx` describes, infinity if a label differs."""
    _, onnxruntime = packages()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    classes, differences, sizes = class_values(estimator.classes_), [], []
    for rows in BATCHES:
        X = example_rows(estimator, rows)
        label, scores = session.run(None, feeds(estimator, X))
        expected = expected_scores(estimator, X)
        if not np.array_equal(label, classes[scores.argmax(axis=1)]):
            return np.inf
        differences.append(np.abs(scores - expected).max())
        sizes.append(np.abs(expected).max())
    return float(np.max(differences) / max(np.max(sizes), np.finfo(np.float32).tiny))


def example_rows(estimator: GenerativeClassifier, rows: int) -> NDArray[Any]:
    """Return raw rows with holes, if the file accepts them: of a table the model's samples, or images of noise."""
    codec, rng = estimator.codec_, np.random.default_rng(rows)
    if isinstance(codec, TableCodec):
        X = np.array(estimator.sample(rows, random_state=rows), float if all(codec.numeric) else object)
        hidden = rng.random(X.shape) < HOLES
        for i in np.flatnonzero(codec.numeric):
            X[:, i] = np.where(hidden[:, i], np.nan, X[:, i].astype(np.float32))
        for i in np.flatnonzero(~np.array(codec.numeric)):
            X[hidden[:, i], i] = None
        return X
    low, high = (codec.low, codec.high) if codec.darkest is None else (codec.darkest, codec.brightest or 0.0)
    images: NDArray[Any] = rng.uniform(low, high, size=(rows, *codec.size)).astype(np.float32)
    if codec.of_bytes:
        return images.round().astype(np.uint8)
    if takes_holes(estimator):
        images[1::2][rng.random(images[1::2].shape) < HOLES] = np.nan
    return images


def takes_holes(estimator: GenerativeClassifier) -> bool:
    """Whether missing pixels are filled in the file."""
    codec = estimator.codec_
    return isinstance(codec, ImageCodec) and takes_nan(codec) and estimator.model_.generates


def feeds(estimator: GenerativeClassifier, X: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return rows as the inputs of the file."""
    codec = estimator.codec_
    if not isinstance(codec, TableCodec) or all(codec.numeric):
        return {"x": X.astype(np.float32) if isinstance(codec, TableCodec) else X}
    cells = np.where(X == None, "", X)  # noqa: E711 - elementwise
    return {
        name: column[:, None].astype(np.float32 if number else str)
        for name, column, number in zip(codec.names, cells.T, codec.numeric, strict=True)
    }


def expected_scores(estimator: GenerativeClassifier, X: NDArray[Any]) -> NDArray[Any]:
    """Return the estimator's scores of rows; missing pixels are filled with the noise of the file."""
    codec = estimator.codec_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # images of noise may seem to be on another scale
        x = estimator.inputs(X)
        if isinstance(codec, TableCodec) or not np.isnan(x).any():
            return estimator.class_scores(X)
    model = copy.deepcopy(estimator.model_).cpu().eval()
    noise = torch.from_numpy(common_noise(model.encoder.z)).expand(len(x), -1, -1)
    hole = np.isnan(x)
    begin = np.where(hole, estimator.fill_, x)
    with torch.no_grad():
        filled = in_rounds(model, ROUNDS, mean=True)(torch.from_numpy(begin), torch.from_numpy(hole), noise)
        scores: NDArray[Any] = model.scores(filled).numpy()
    return scores
