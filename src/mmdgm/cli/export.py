"""The command `mmdgm export`."""

from pathlib import Path
from typing import Annotated

import typer

from mmdgm.cli.common import Json, Run, out, report_files
from mmdgm.errors import InputError
from mmdgm.estimators.onnx_file import export_onnx, metadata_of
from mmdgm.estimators.onnx_parts import OPSET
from mmdgm.experiments.run_folder import load


def export(
    run: Run,
    onnx: Annotated[bool, typer.Option("--onnx", help="The format: ONNX, for onnxruntime and others.")] = False,
    to: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.onnx", help="Default: classifier.onnx in RUN.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a run's classifier as a file that other programs can run, and check it against the run.

    The inputs are raw: x holds images as in training, or a table's columns if all are numbers; otherwise each column
    is an input under its name, `(rows, 1)`. Missing values are filled in the file. The outputs are label, the
    predicted classes, and scores `(rows, classes)`. The file is compared with the run on rows with holes, and is only
    written if both agree.

    Example: `mmdgm export runs/demo/seed-0 --onnx --out digits.onnx`
    """
    if not onnx:
        raise InputError("which format? give --onnx")
    file = to or run / "classifier.onnx"
    if file.suffix.lower() != ".onnx" or file.is_dir():
        raise InputError(f"--out {file}: give a file name that ends in .onnx")
    estimator = load(run, device="cpu")
    difference, metadata = export_onnx(estimator, file), metadata_of(estimator)
    report_files([file], as_json, opset=OPSET[""], difference=difference, metadata=metadata)
    if not as_json:
        line = f"scores differ from the run's by at most {difference:.1e} of the largest"
        out.print(f"{metadata['input']}\n{line}", markup=False, highlight=False, soft_wrap=True)
