"""`mmdgm export`."""

import json
from pathlib import Path
from typing import Annotated

import typer
from torch import nn

from mmdgm import own_runs, runs
from mmdgm.cli.common import Json, Run, out, report_files
from mmdgm.errors import InputError
from mmdgm.export import OPSET, export_onnx, metadata_of
from mmdgm.networks import Shape


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
    stands in the file's metadata, with the class names. Output scores, (rows, classes).

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
    trained = runs.load_classifier(run, device="cpu")
    return trained.model, trained.shape, metadata_of(trained)


def _of_own_data(run: own_runs.OwnRun) -> tuple[nn.Module, Shape, dict[str, str]]:
    estimator = run.estimator
    metadata = {
        "estimator": type(estimator).__name__,
        "class_names": json.dumps([str(label) for label in estimator.classes_]),
        "codec": json.dumps(estimator.codec_.to_json()),
        "input": "values as the codec says: columns centred and scaled, images between low and high as 0 to 1",
    }
    return estimator.model_, estimator.codec_.shape, metadata
