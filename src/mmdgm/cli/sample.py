"""The command `mmdgm sample`."""

from pathlib import Path
from typing import Annotated

import typer

from mmdgm.cli.common import Device, Json, Run, Seed, picture_and_arrays, report_files, target_of, with_ending
from mmdgm.data.codecs import ImageCodec, TableCodec
from mmdgm.data.npz import save_arrays
from mmdgm.data.table_files import cell_text, csv_bytes
from mmdgm.experiments.run_folder import load
from mmdgm.files import write_whole
from mmdgm.report import plots
from mmdgm.report.figures import as_pictures, sample_grid


def sample(
    run: Run,
    columns: Annotated[int, typer.Option(min=1, help="Samples in a row of the grid.")] = 10,
    rows: Annotated[int, typer.Option(min=1, help="Rows; a conditional model always has one per class.")] = 10,
    seed: Seed = 0,
    to: Annotated[
        Path | None, typer.Option("--out", help="Files OUT.png and OUT.npz, or OUT.csv. Default: in RUN/samples.")
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Generate rows like the training data: an npz file with x, z and, if conditional, y; for images also a PNG grid.

    A conditional model gives one row per class and one style (code z) per column. A model of a table with named
    columns gives a CSV file.

    Example: `mmdgm sample runs/demo/seed-0 --columns 8 --seed 1`
    """
    estimator = load(run, device=device)
    grid = sample_grid(estimator, columns=columns, rows=rows, seed=seed)
    place, codec = to or run / "samples", estimator.codec_
    if isinstance(codec, TableCodec) and not all(name.isdigit() for name in codec.names):
        file = with_ending(place, ".csv")
        table = grid["x"].reshape(-1, len(codec.names))
        labels = [[str(label)] for label in grid["y"].ravel().tolist()] if "y" in grid else [[]] * len(table)
        cells = [[*map(cell_text, row), *label] for row, label in zip(table, labels, strict=True)]
        write_whole(file, csv_bytes([*codec.names, *([target_of(run)] if "y" in grid else [])], cells))
        report_files([file], as_json)
        return
    png, npz = picture_and_arrays(place)
    files = [npz]
    if isinstance(codec, ImageCodec):
        plots.save_grid(png, as_pictures(codec, grid["x"]))
        files = [png, npz]
    save_arrays(npz, grid)
    report_files(files, as_json)
