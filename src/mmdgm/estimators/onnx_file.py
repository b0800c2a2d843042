"""Export of classifiers as ONNX files, which run without PyTorch and without this library."""

import copy
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mmdgm.data.codecs import ImageCodec, TableCodec
from mmdgm.errors import InputError
from mmdgm.files import write_whole

OPSET = 18
TOLERANCE = 1e-4  # relative to the largest score
BATCHES = (1, 2, 5, 64)  # batch sizes of the check
INPUTS = {
    TableCodec: "the codec's columns in their order. number: v = (x - centre) / scale, beyond 3 and -3 "
    "sign(v) * (3 + log(|v| - 2)); binary: 0 or 1, and category: one 0 or 1 for each, in the order of values",
    ImageCodec: "(x - low) / (high - low), low and high by the codec",
}


class _Scores(nn.Module):
    """A module whose `forward` is `model.scores`, as the exporter needs it."""

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.model.scores(x)
        return scores


def export_onnx(model: nn.Module, shape: tuple[int, ...], path: Path, metadata: Mapping[str, str]) -> float:
    """Write `model.scores`, in evaluation mode, as an ONNX file; return how much its scores differ.

    Input `x`: network inputs, float32 `(rows, *shape)`, any number of rows. Output `scores`: `(rows, K)`. `metadata`
    goes into the file's metadata_props. The difference is the largest one between onnxruntime and PyTorch on random
    rows, relative to the largest score. If it exceeds `TOLERANCE`, the file is not written.
    """
    classifier = _Scores(copy.deepcopy(model).cpu()).eval()
    content = _onnx(classifier, shape, metadata)
    difference = _difference(classifier, shape, content)
    if not difference <= TOLERANCE:  # also true for NaN
        raise InputError(
            f"{path}: not written, since scores in onnxruntime differ from PyTorch's by {difference:.1e} of the "
            f"largest, more than {TOLERANCE:.0e}; try other versions of onnx and onnxruntime"
        )
    write_whole(path, content)
    return difference


def metadata_of(estimator: Any) -> dict[str, str]:
    """Return the information that is needed to use the file without this library."""
    codec = estimator.codec_
    words = INPUTS[type(codec)]
    if isinstance(codec, ImageCodec) and codec.normalised:
        words += "; then mmdgm.data.contrast.local_contrast of images (rows, channels, height, width)"
    return {
        "estimator": type(estimator).__name__,
        "class_names": json.dumps([str(label) for label in estimator.classes_], ensure_ascii=False),
        "codec": json.dumps(codec.to_json(), ensure_ascii=False),
        "input": words,
    }


def _onnx(classifier: nn.Module, shape: tuple[int, ...], metadata: Mapping[str, str]) -> bytes:
    onnx, _ = _packages()
    with _quiet():
        program = torch.onnx.export(
            classifier,
            (torch.zeros(2, *shape),),  # the exporter would take a single row for a constant
            dynamo=True,
            input_names=["x"],
            output_names=["scores"],
            dynamic_shapes={"x": {0: torch.export.Dim("rows")}},
            opset_version=OPSET,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    graph = proto.graph
    # delete the exporter's notes: they include stack traces with paths of this machine
    for noted in (graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer):
        del noted.metadata_props[:]
    onnx.helper.set_model_props(proto, dict(metadata))
    onnx.checker.check_model(proto, full_check=True)
    content: bytes = proto.SerializeToString()
    return content


def _difference(classifier: nn.Module, shape: tuple[int, ...], content: bytes) -> float:
    _, onnxruntime = _packages()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    random = torch.Generator().manual_seed(0)
    differences, sizes = [], []
    for rows in BATCHES:
        x = torch.rand(rows, *shape, generator=random)
        (scores,) = session.run(["scores"], {"x": x.numpy()})
        with torch.no_grad():
            expected = classifier(x)
        differences.append((torch.from_numpy(scores) - expected).abs().max())
        sizes.append(expected.abs().max())
    tiny = torch.finfo(torch.float32).tiny
    return float(torch.stack(differences).max() / torch.stack(sizes).max().clamp(min=tiny))


def _packages() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401 - torch's exporter needs it
    except ImportError:
        raise InputError("export needs onnx and onnxruntime: pip install 'mmdgm[export]'") from None
    return onnx, onnxruntime


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the exporter's warnings, which concern torch's own code and packages that are not needed here."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
