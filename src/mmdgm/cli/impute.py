"""The command `mmdgm impute`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from mmdgm.cli.common import (
    Device,
    Json,
    Method,
    Rounds,
    Run,
    Scale,
    Seed,
    picture_and_arrays,
    report_files,
    say,
    target_of,
    warnings_as_lines,
    with_ending,
)
from mmdgm.data.arrays import missing_entries
from mmdgm.data.codecs import ImageCodec, TableCodec
from mmdgm.data.input_rows import ARRAYS, read_rows
from mmdgm.data.npz import save_arrays
from mmdgm.data.table_files import csv_bytes, filled_rows, table_format
from mmdgm.errors import InputError
from mmdgm.experiments.run_folder import load
from mmdgm.files import write_whole
from mmdgm.report import plots
from mmdgm.report.figures import before_after


def impute(
    run: Run,
    data: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT",
            help="npz file with an array x in which NaN is missing; or a table (CSV, TSV, Parquet) with empty cells.",
        ),
    ],
    method: Method = "auto",
    rounds: Rounds = 100,
    scale: Scale = None,
    seed: Seed = 0,
    to: Annotated[
        Path | None, typer.Option("--out", help="Files OUT.png and OUT.npz, or OUT.csv. Default: INPUT-imputed.")
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Fill missing values; write an npz file with x and missing, and for images a picture of before and after.

    INPUT has the form of the training data. Observed values do not change. Images are (rows, H, W[, channels]), with
    the channels first, or flat. For a table, the result is a CSV file with the empty cells filled (labels stay).

    Example: `mmdgm impute runs/demo/seed-0 holes.npz --out filled`
    """
    if data.is_dir() or not (data.suffix.lower() in ARRAYS or table_format(data)):
        raise InputError(f"{data}: give an npz file in which NaN is missing, or a table with empty cells")
    estimator = load(run, device=device)
    codec = estimator.codec_
    rows = read_rows(codec, [data], scale=scale, target=target_of(run))
    say(rows.notes)
    place = to or data.with_name(f"{data.stem}-imputed")
    png, file = picture_and_arrays(place) if rows.sheet is None else (place, with_ending(place, ".csv"))
    if os.path.realpath(file) == os.path.realpath(data):
        raise InputError(f"--out {to}: would write over the input; give another name")
    missing = rows.missing
    if not missing.any():
        say([f"{data}: nothing is missing"])
    with warnings_as_lines():
        filled = estimator.impute(rows.x, n_iter=rounds, method=method, random_state=seed)
    if rows.sheet is not None and isinstance(codec, TableCodec):
        write_whole(file, csv_bytes(rows.sheet.header, filled_rows(rows.sheet, codec.names, filled, missing)))
    else:
        save_arrays(file, {"x": rows.restored(filled), "missing": missing_entries(rows.original)})
    files = [file]
    if isinstance(codec, ImageCodec):
        plots.save_grid(png, before_after(codec.unit(rows.x), codec.unit(filled)))
        files = [png, file]
    report_files(files, as_json, filled_values=int(missing.sum()))
