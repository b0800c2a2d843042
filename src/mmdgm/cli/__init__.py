"""The command `mmdgm`. Results go to standard output, progress to standard error; exit code 2 means bad input."""

import sys
from typing import Annotated, NoReturn

import typer

import mmdgm
from mmdgm.cli.common import MARKUP, err
from mmdgm.cli.lazy import LazyCommands, add_commands
from mmdgm.errors import InputError, TrainingStopped

INTERRUPTED = 130

app = typer.Typer(cls=LazyCommands, add_completion=False, rich_markup_mode=MARKUP)
add_commands(app)


def _version(wanted: bool) -> None:
    if wanted:
        print(mmdgm.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Max-margin deep generative models: classify with few labels, impute, and generate, with one model."""


def main() -> None:
    """Run the command line. A known error prints one line instead of a traceback."""
    try:
        code = app(sys.argv[1:] or ["--help"], prog_name="mmdgm", standalone_mode=False)
    except InputError as error:
        _fail(error, 2)
    except TrainingStopped as error:
        _fail(error, 1)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if not hasattr(error, "format_message"):  # what Typer raises for a wrong option or argument
            raise
        _fail(f"{error.format_message()} (see --help)", 2)
    if code == INTERRUPTED:
        _fail("interrupted", INTERRUPTED)
    sys.exit(code or 0)


def _fail(message: object, code: int) -> NoReturn:
    ranks = sys.modules.get("mmdgm.distributed")  # no import here: it takes seconds, or was just interrupted
    if ranks is None or ranks.is_first():
        err.print(f"mmdgm: {message}", style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)
