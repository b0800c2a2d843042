"""The command `mmdgm predict`."""

import os
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from mmdgm.cli.common import (
    Device,
    Json,
    Method,
    Rounds,
    Run,
    Scale,
    Seed,
    out,
    report_files,
    say,
    target_of,
    warnings_as_lines,
)
from mmdgm.data.input_rows import ARRAYS, InputRows, read_rows
from mmdgm.data.table_files import csv_bytes, table_format
from mmdgm.errors import InputError, printable
from mmdgm.experiments.run_folder import load
from mmdgm.files import write_whole


def predict(
    run: Run,
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT",
            help="An npz file with an array x, image files, or a folder of them; or a table: CSV, TSV or Parquet.",
        ),
    ],
    method: Method = "auto",
    rounds: Rounds = 20,
    scale: Scale = None,
    seed: Seed = 0,
    to: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="The CSV file. Default: INPUT-predictions.csv next to INPUT (of a folder: beside it, not in it); "
            "for image files predictions.csv in the current folder.",
        ),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Classify your own images or rows; write a CSV file with prediction and scores, and print a count per class.

    INPUT is as for `mmdgm impute`. Missing values (NaN) are imputed first. Rows count from 0. Image files should
    look like the training data (light on black for digits). Any size and mode is converted; transparent becomes
    black. In a table, the columns of the training data are found by their names.

    Example: `mmdgm predict runs/demo/seed-0 scans/ --out digits.csv`
    """
    estimator = load(run, device=device)
    file = csv_file(inputs, to)
    rows = read_rows(estimator.codec_, inputs, scale=scale, target=target_of(run))
    say(rows.notes)
    with warnings_as_lines():
        scores = estimator.class_scores(rows.x, n_iter=rounds, method=method, random_state=seed)
    names = [str(name) for name in estimator.classes_.tolist()]
    predictions = scores.argmax(1)
    write_whole(file, csv_content(rows, scores, names))
    counts = {name: int((predictions == k).sum()) for k, name in enumerate(names)}
    report_files(
        [file],
        as_json,
        rows=len(predictions),
        imputed_values=int(rows.missing.sum()),
        skipped=rows.skipped,
        predictions_per_class=counts,
    )
    if not as_json:
        table = Table("class", "rows", box=None)
        for name, count in [*counts.items(), *([("skipped", rows.skipped)] if rows.skipped else [])]:
            table.add_row(escape(printable(name)), f"{count:,}")
        out.print(table)


def csv_file(inputs: list[Path], to: Path | None) -> Path:
    """Return the path of the CSV file, which is never an input."""
    first = inputs[0] if inputs[0].name.strip(".") else inputs[0].resolve()  # . and .. get their real names
    if to is not None:
        file = to
    elif first.is_dir():
        file = first.parent / f"{first.name}-predictions.csv"
    elif first.suffix.lower() in ARRAYS or table_format(first):
        file = first.with_name(f"{first.stem}-predictions.csv")
    else:
        file = Path("predictions.csv")
    if os.path.realpath(file) in [os.path.realpath(path) for path in inputs]:  # `resolve` fails at a link to itself
        raise InputError(f"--out {file}: would write over an input; give another name")
    if file.suffix.lower() != ".csv" or file.is_dir():
        raise InputError(f"--out {file}: give a file name that ends in .csv")
    return file


def csv_content(rows: InputRows, scores: NDArray[Any], classes: list[str]) -> bytes:
    """Return the CSV file: one line per row, scores with all digits."""
    missing = np.asarray(rows.missing).reshape(len(rows.x), -1).sum(1)
    lines = [
        [name, classes[line.argmax()], str(count), *map(str, line.tolist())]
        for name, count, line in zip(rows.names, missing, scores, strict=True)
    ]
    return csv_bytes(["input", "prediction", "missing", *(f"score_{name}" for name in classes)], lines)
