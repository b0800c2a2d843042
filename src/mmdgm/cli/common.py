"""Shared parts of the commands: consoles, options, output."""

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from mmdgm.errors import InputError, printable

# a table in a pipe or a file need not fit into a window
out, err = Console(width=None if sys.stdout.isatty() else 160), Console(stderr=True)
LARGEST_SEED = 2**32 - 1
MARKUP: Literal["markdown"] = "markdown"  # format of the commands' docstrings


def path(text: str) -> Path:
    """Return a path. An empty one is a mistake, such as an unset variable of the shell: Python takes it for `.`."""
    if not text:
        raise typer.BadParameter("the path is empty")
    return Path(text)


Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", parser=path, help="The folder of a finished run.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        parser=path, help="Where the data sets lie. Default: $MMDGM_DATA, or mmdgm in the user's cache folder."
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of the random draws.")]
Method = Annotated[
    str,
    typer.Option(
        help="How missing values are imputed. auto: for tables their mean given the observed values, for images "
        "rounds; rounds: the mean over late rounds of the iterative inference; draw: its last round, a sample; "
        "posterior: the posterior mean, for images the best guess, in the most time."
    ),
]
Rounds = Annotated[int, typer.Option(min=1, help="Rounds of the iterative inference.")]
Labels = Annotated[
    Path | None,
    typer.Option(help="A CSV file of labels, as `mmdgm suggest` writes it. Its labels replace those in DATA."),
]
Scale = Annotated[
    float | None,
    typer.Option(help="What an npz file's values are divided by to lie in [0, 1]. Default: as in the training data."),
]


def print_json(value: Any) -> None:
    """Print a value as JSON for programs."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def number(value: float | None) -> str:
    """Return a figure as text for a table."""
    return "–" if value is None else f"{value:.2f}"


def report_files(files: list[Path], as_json: bool, **more: Any) -> None:
    """Print the names of the written files, one per line."""
    if as_json:
        print_json({"files": [str(file) for file in files], **more})
        return
    for file in files:
        out.print(printable(file), markup=False, highlight=False, soft_wrap=True)


def say(lines: list[str]) -> None:
    """Print notes for the user on standard error."""
    for line in lines:
        err.print(printable(line), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print the warnings of estimators as plain lines."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        warnings.showwarning = lambda message, *_, **__: say(str(message).splitlines())
        yield


def target_of(run: Path) -> str:
    """Return the name of a run's label column."""
    from mmdgm.files import read_json

    about = read_json(run / "config.json").get("run") or {}
    return str((about.get("data") or {}).get("target") or "label")


def with_ending(out: Path, ending: str) -> Path:
    """Return OUT with an ending, which is added if it is missing."""
    file = out if out.suffix.lower() == ending else out.parent / f"{out.name}{ending}"
    if file.is_dir() or out.is_dir():
        raise InputError(f"--out {out}: give a file name")
    return file


def picture_and_arrays(out: Path) -> tuple[Path, Path]:
    """Return OUT.png and OUT.npz; OUT may already have one of these endings."""
    stem = out.stem if out.suffix in (".png", ".npz") else out.name
    if not stem or out.is_dir():
        raise InputError(f"--out {out}: give a file name, without ending")
    return out.with_name(f"{stem}.png"), out.with_name(f"{stem}.npz")
