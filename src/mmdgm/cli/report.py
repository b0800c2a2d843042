"""The command `mmdgm report`."""

from pathlib import Path
from typing import Annotated

import typer

from mmdgm.cli.common import DataDir, Device, Json, report_files, warnings_as_lines
from mmdgm.errors import InputError
from mmdgm.experiments.reports import read_run, rows_of
from mmdgm.files import write_whole
from mmdgm.report.run_report import run_report


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="The folder of a finished run, or of several runs.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Labeled rows to show runs on, as for `mmdgm fit`. Default: a preset's test rows, or training rows."
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Of a table: the column with the labels. Default: as in training.")
    ] = None,
    to: Annotated[Path | None, typer.Option("--out", help="The HTML file. Default: RUN/report.html.")] = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Write a page to look at: errors, curves, generated rows, imputation, the least sure rows, all settings.

    The page is one file, which loads nothing from elsewhere.

    Example: `mmdgm report runs/species --data new.csv`
    """
    if len(runs) > 1:
        raise InputError("one run")
    path = runs[0]
    run = read_run(path, device=device)
    file = to or path / "report.html"
    if file.is_dir() or file.suffix.lower() != ".html":
        raise InputError(f"--out {file}: give a file name that ends in .html")
    with warnings_as_lines():
        page = run_report(run, rows_of(run, path, data=data, target=target, data_dir=data_dir))
    write_whole(file, page)
    report_files([file], as_json)
