"""The command `mmdgm reproduce`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from mmdgm.cli.common import DataDir, Device, Json, err, out, path, print_json, report_files
from mmdgm.devices import pick_device
from mmdgm.errors import InputError
from mmdgm.experiments.paper import conditional_figures, figures, s3vm_grid, svhn_figures
from mmdgm.experiments.paper.conditional_figures import make_conditional_figures
from mmdgm.experiments.paper.runner import Reproduction
from mmdgm.experiments.paper.sheets import Sheet
from mmdgm.experiments.paper.tables import TABLES

FIGURES: dict[str, Callable[[Reproduction], list[Path]]] = {
    figures.FIGURES: figures.make_figures,
    **{
        what.name: partial(make_conditional_figures, what)
        for what in (conditional_figures.MNIST, conditional_figures.NORB)
    },
    conditional_figures.SVHN.name: svhn_figures.make_svhn_figures,
    s3vm_grid.NAME: s3vm_grid.make_s3vm_grid,
}
WHAT = (*TABLES, *FIGURES)


def reproduce(
    what: Annotated[str, typer.Argument(metavar="WHAT", help=", ".join(WHAT) + ".")],
    seeds: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Runs of each model [default: the table's own number; with --quick, 1]."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Shortened runs, marked so; minutes on a CPU instead of hours.")
    ] = False,
    to: Annotated[
        Path | None,
        typer.Option("--out", parser=path, help="Where runs, results and tables go. Default: runs/reproduce[-quick]."),
    ] = None,
    data_dir: DataDir = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Train the models of one of the paper's tables, and show our figures beside the paper's.

    Each cell is a preset, with one run and one result.json per seed. Results that exist in OUT are not made again:
    an interrupted command continues when it is repeated, and tables share runs. A run that was stopped, for example
    at a trivial solution, is named below its table and not counted.

    Example: `mmdgm reproduce table1 --quick`
    """
    if what not in WHAT:
        raise InputError(f"there is no {what!r} to reproduce; there are {', '.join(WHAT)}")
    pick_device(device)
    work = Reproduction(
        out=to or Path("runs") / ("reproduce-quick" if quick else "reproduce"),
        seeds=seeds,
        quick=quick,
        console=err,
        data_dir=data_dir,
        device=device,
    )
    if what in FIGURES:
        report_files(FIGURES[what](work), as_json)
        return
    sheets, files = work.make(TABLES[what])
    if as_json:
        print_json([{"title": s.title, "rows": [s.header, *s.rows], "notes": s.notes} for s in sheets])
        return
    for sheet in sheets:
        print_sheet(sheet)
    report_files(files, as_json)


def print_sheet(sheet: Sheet) -> None:
    """Print a table in the terminal."""
    table = Table(*map(escape, sheet.header), title=escape(sheet.title), title_justify="left", box=None)
    for row in sheet.rows:
        table.add_row(*map(escape, row))
    out.print(table)
    for note in sheet.notes:
        out.print(note, markup=False, highlight=False, soft_wrap=True)
    out.print()
