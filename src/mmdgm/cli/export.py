"""The command `mmdgm export`."""

from pathlib import Path
from typing import Annotated

import typer

from mmdgm.cli.common import Json, Run, out, report_files
from mmdgm.errors import InputError
from mmdgm.estimators.onnx_file import OPSET, export_onnx, metadata_of
from mmdgm.experiments.run_folder import load


def export(
    run: Run,
    onnx: Annotated[bool, typer.Option("--onnx", help="The format: ONNX, for onnxruntime and others.")] = False,
    to: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.onnx", help="Default: classifier.onnx in RUN.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a run's classifier as a file that other programs can run, and check its scores.

    The input x holds network inputs, float32 (rows, channels, height, width). The output scores is (rows, classes).
    The file's metadata holds the codec, which says how raw values become inputs, and the class names.

    Example: `mmdgm export runs/demo/seed-0 --onnx --out digits.onnx`
    """
    if not onnx:
        raise InputError("which format? give --onnx")
    file = to or run / "classifier.onnx"
    if file.suffix.lower() != ".onnx" or file.is_dir():
        raise InputError(f"--out {file}: give a file name that ends in .onnx")
    estimator = load(run, device="cpu")
    metadata = metadata_of(estimator)
    difference = export_onnx(estimator.model_, estimator.codec_.shape, file, metadata)
    report_files([file], as_json, opset=OPSET, difference=difference, metadata=metadata)
    if not as_json:
        line = f"scores differ from PyTorch's by at most {difference:.1e} of the largest"
        out.print(f"input x: {metadata['input']}\n{line}", markup=False, highlight=False, soft_wrap=True)
