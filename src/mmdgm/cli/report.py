"""The command `mmdgm report`."""

from pathlib import Path
from typing import Annotated

import typer

from mmdgm.cli.common import DataDir, Device, Json, report_files, warnings_as_lines
from mmdgm.errors import InputError
from mmdgm.experiments.paper.page import holds_results, paper_report
from mmdgm.experiments.reports import read_run, read_runs, rows_of
from mmdgm.files import write_whole
from mmdgm.report.comparison import comparison
from mmdgm.report.run_report import run_report


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN…", help="The folder of a finished run, or several of them.")
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
    to: Annotated[
        Path | None,
        typer.Option("--out", help="The HTML file. Default: RUN/report.html; of several runs, comparison.html."),
    ] = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Write a page to look at: errors, curves, generated rows, imputation, the least sure rows, all settings.

    Several runs are compared side by side. Of a folder that `mmdgm reproduce` wrote, the page shows the paper's tables
    and figures beside ours. The page is one file, which loads nothing from elsewhere. Nothing is trained.

    Example: `mmdgm report runs/species --data new.csv`
    """
    file = to or (runs[0] / "report.html" if len(runs) == 1 else Path("comparison.html"))
    if file.is_dir() or file.suffix.lower() != ".html":
        raise InputError(f"--out {file}: give a file name that ends in .html")
    if data is not None and (len(runs) > 1 or holds_results(runs[0])):
        raise InputError(f"--data {data}: is for the report of one run")
    with warnings_as_lines():
        if len(runs) > 1:
            page = comparison(read_runs(runs, device=device))
        elif holds_results(runs[0]):
            page = paper_report(runs[0])
        else:
            run = read_run(runs[0], device=device)
            page = run_report(run, rows_of(run, runs[0], data=data, target=target, data_dir=data_dir))
    write_whole(file, page)
    report_files([file], as_json)
