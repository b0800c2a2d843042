"""The commands `mmdgm data list`, `download` and `check`."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.table import Table

from mmdgm.cli.common import MARKUP, DataDir, Json, err, out, print_json, report_files
from mmdgm.data import datasets
from mmdgm.data.datasets.files import by
from mmdgm.data.datasets.sources import SOURCES, sources_of
from mmdgm.errors import InputError

data = typer.Typer(help="See, fetch and check the data sets.", add_completion=False, rich_markup_mode=MARKUP)

Names = Annotated[list[str], typer.Argument(metavar="NAME", help="Data sets; `mmdgm data list` shows all.")]
Extra = Annotated[bool, typer.Option("--extra", help="With svhn's 531,131 extra training rows.")]


@data.command("list")
def list_(data_dir: DataDir = None, as_json: Json = False) -> None:
    """Show the data sets, and which of them are on this machine.

    Example: `mmdgm data list`
    """
    folder = data_dir or datasets.default_data_dir()
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "what": about.title,
            "train": about.train,
            "test": about.test,
            "shape": about.shape,
            "classes": about.classes,
            "download_bytes": sum(source.length for source in SOURCES[name]),
            "folder": str(folder / name) if SOURCES[name] else None,
            "there": datasets.is_there(name, folder),
        }
        for name, about in datasets.ABOUT.items()
    ]
    if as_json:
        print_json(rows)
        return
    table = Table("name", "what it is", "train", "test", "image", "classes", "download", "where", "there", box=None)
    for row in rows:
        cells = {
            **row,
            "train": f"{row['train']:,}",
            "test": f"{row['test']:,}",
            "shape": by(row["shape"]),
            "download_bytes": f"{row['download_bytes'] / 1e6:.0f} MB" if row["download_bytes"] else "–",
            "there": "yes" if row["there"] else "no",
            "folder": escape(row["folder"] or "–"),
        }
        table.add_row(*(str(cell) for cell in cells.values()))
    out.print(table)


@data.command()
def download(names: Names, extra: Extra = False, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Fetch the official files of data sets, and verify them. Data sets that can already be read are not fetched.

    Example: `mmdgm data download mnist svhn --data-dir data`
    """
    _check_extra(names, extra)
    for name in names:
        sources_of(name)  # stop at a wrong name before any download
    files: list[Path] = []
    for name in names:
        wanted = {"extra": extra and name == "svhn"}
        try:
            datasets.load(name, data_dir, **wanted)
            err.print(f"{name} is there", highlight=False)
        except InputError:
            files += datasets.download(name, data_dir, **wanted, console=err)
    report_files(files, as_json)


@data.command()
def check(names: Names, extra: Extra = False, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Read data sets, verify them, and count the rows of each class.

    Example: `mmdgm data check mnist svhn norb`
    """
    _check_extra(names, extra)
    reports: dict[str, Any] = {}
    for name in names:
        try:
            reports[name] = report(datasets.load(name, data_dir, extra=extra and name == "svhn"))
        except InputError as error:
            reports[name] = {"error": str(error)}
    errors = [entry["error"] for entry in reports.values() if "error" in entry]
    if as_json:
        print_json(reports)
    elif len(errors) < len(reports):
        table = Table("name", "part", "rows", "image", "values", "rows of each class", box=None)
        for name, entry in reports.items():
            for part in ("train", "test") if "error" not in entry else ():
                lowest, highest = entry[part]["values"]
                table.add_row(
                    name,
                    part,
                    f"{entry[part]['rows']:,}",
                    by(entry["shape"]),
                    f"{lowest}–{highest}",
                    " ".join(map(str, entry[part]["per_class"])),
                )
        out.print(table)
    for line in errors:
        err.print(f"mmdgm: {line}", style="red", markup=False, highlight=False, soft_wrap=True)
    if errors:
        raise typer.Exit(2)


def report(dataset: datasets.Dataset) -> dict[str, Any]:
    """Return the contents of a data set as plain values. A class without rows in a part raises InputError."""
    entry: dict[str, Any] = {"shape": dataset.shape, "class_names": dataset.class_names}
    for part, x, y in (("train", dataset.x_train, dataset.y_train), ("test", dataset.x_test, dataset.y_test)):
        per_class = np.bincount(y, minlength=dataset.n_classes).tolist()
        if 0 in per_class:
            raise InputError(f"{dataset.name}: no {part} row has the class {per_class.index(0)}; fetch it again")
        entry[part] = {"rows": len(x), "values": [int(x.min()), int(x.max())], "per_class": per_class}
    return entry


def _check_extra(names: list[str], extra: bool) -> None:
    if extra and "svhn" not in names:
        raise InputError("--extra is for svhn alone")
