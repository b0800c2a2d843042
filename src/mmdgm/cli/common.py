"""What the commands share: consoles, options, ways to answer."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

# tables in a pipe or a file need not fit a window
out, err = Console(width=None if sys.stdout.isatty() else 160), Console(stderr=True)
LARGEST_SEED = 2**32 - 1
MARKUP: Literal["markdown"] = "markdown"  # of the commands' docstrings

Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Where the data sets lie. Default: $MMDGM_DATA, or mmdgm in the user's cache folder."),
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of the random draws.")]


def print_json(value: Any) -> None:
    """Answer a program."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def number(value: float | None) -> str:
    """A figure in a table."""
    return "–" if value is None else f"{value:.2f}"


def report_files(files: list[Path], as_json: bool, **more: Any) -> None:
    """Name the files that were written, one a line."""
    if as_json:
        print_json({"files": [str(file) for file in files], **more})
        return
    for file in files:
        out.print(str(file), markup=False, highlight=False, soft_wrap=True)
