"""`mmdgm export`."""

import json
from pathlib import Path
from typing import Annotated

import typer
from torch import nn

from mmdgm.cli.common import Json, Run, out, report_files
from mmdgm.data.codecs import ImageCodec, TableCodec
from mmdgm.errors import InputError
from mmdgm.estimators.onnx_file import OPSET, export_onnx, metadata_of
from mmdgm.experiments import own_runs, run_folder
from mmdgm.networks.stacks import Shape

INPUTS = {
    TableCodec: "the codec's columns in their order. number: v = (x - centre) / scale, beyond 3 and -3 "
    "sign(v) * (3 + log(|v| - 2)); binary: 0 or 1, and category: one 0 or 1 for each, in the order of values",
    ImageCodec: "(x - low) / (high - low), low and high by the codec",
}


def export(
    run: Run,
    onnx: Annotated[bool, typer.Option("--onnx", help="The format: ONNX, for onnxruntime and others.")] = False,
    to: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.onnx", help="Default: classifier.onnx in RUN.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a run's classifier as a file that other programs can run, and check its scores.

    Input x, float32 (rows, channels, height, width), as the network sees it: values divided by the scale that
    stands in the file's metadata, with the class names. Output scores, (rows, classes). A run of own data has its
    codec there instead; of a table, a column of categories becomes one value for each of them, 1 for the row's own
    and 0 for the others, in the order of the column's `values`.

    Example: `mmdgm export runs/demo/seed-0 --onnx --out digits.onnx`
    """
    if not onnx:
        raise InputError("which format? give --onnx")
    file = to or run / "classifier.onnx"
    if file.suffix.lower() != ".onnx" or file.is_dir():
        raise InputError(f"--out {file}: give a file name that ends in .onnx")
    own = own_runs.load_own(run, device="cpu")
    model, shape, metadata = _of_preset(run) if own is None else _of_own_data(own)
    difference = export_onnx(model, shape, file, metadata)
    report_files([file], as_json, opset=OPSET, difference=difference, metadata=metadata)
    if not as_json:
        line = f"scores differ from PyTorch's by at most {difference:.1e} of the largest"
        out.print(f"input x: {metadata['input']}\n{line}", markup=False, highlight=False, soft_wrap=True)


def _of_preset(run: Path) -> tuple[nn.Module, Shape, dict[str, str]]:
    trained = run_folder.load_classifier(run, device="cpu")
    return trained.model, trained.shape, metadata_of(trained)


def _of_own_data(run: own_runs.OwnRun) -> tuple[nn.Module, Shape, dict[str, str]]:
    estimator = run.estimator
    metadata = {
        "estimator": type(estimator).__name__,
        "class_names": json.dumps([str(label) for label in estimator.classes_]),
        "codec": json.dumps(estimator.codec_.to_json()),
        "input": INPUTS[type(estimator.codec_)],
    }
    return estimator.model_, estimator.codec_.shape, metadata
