"""The command `mmdgm`. Results go to standard output, progress to standard error; exit code 2 means bad input.

A signal that ends a process (Ctrl-C, SIGTERM, SIGHUP) raises Ended; the exit code is 128 + its number.
"""

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NoReturn

import typer

import mmdgm
from mmdgm.cli.common import MARKUP, err
from mmdgm.cli.lazy import LazyCommands, add_commands
from mmdgm.errors import InputError, TrainingStopped, printable

INTERRUPTED = 128 + signal.SIGINT


class Ended(KeyboardInterrupt):
    """A signal ends the process.

    It is a class of its own because Python remembers a plain KeyboardInterrupt that passed through `exec` of a string
    (dataclasses run one): at exit, the process would then kill itself by SIGINT, whatever its exit code is.
    """


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
    for stream in (sys.stdout, sys.stderr):  # a file name need not be UTF-8
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with ending_signals() as came:
        try:
            code = app(sys.argv[1:] or ["--help"], prog_name="mmdgm", standalone_mode=False)
        except InputError as error:
            _fail(error, 2)
        except TrainingStopped as error:
            _fail(error, 1)
        except (KeyboardInterrupt, typer.Abort):
            code = INTERRUPTED
        except BrokenPipeError:  # the reader of our output has left
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except OSError as error:
            if error.errno is None:
                raise
            place = error.filename if error.filename is not None else "a file"
            _fail(f"{os.fsdecode(place) if isinstance(place, bytes) else place}: {error.strerror}", 2)
        except Exception as error:
            if not hasattr(error, "format_message"):  # what Typer raises for a wrong option or argument
                raise
            _fail(f"{error.format_message()} (see --help)", 2)
        if code == INTERRUPTED and came and came[0] != signal.SIGINT:
            _fail(f"ended by {signal.Signals(came[0]).name}", 128 + came[0])
        if code == INTERRUPTED:
            _fail("interrupted", INTERRUPTED)
    sys.exit(code or 0)


@contextmanager
def ending_signals() -> Iterator[list[int]]:
    """Raise Ended at Ctrl-C, SIGTERM and SIGHUP, and collect their numbers; ignored signals stay ignored."""
    came: list[int] = []

    def interrupt(number: int, _: object) -> None:
        came.append(number)
        raise Ended

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    before = {number: signal.getsignal(number) for number in numbers}
    mine = [number for number, own in before.items() if own in (signal.SIG_DFL, signal.default_int_handler)]
    for number in mine:
        signal.signal(number, interrupt)
    try:
        yield came
    finally:
        for number in mine:
            signal.signal(number, before[number])


def _fail(message: object, code: int) -> NoReturn:
    ranks = sys.modules.get("mmdgm.distributed")  # no import here: it takes seconds, or was just interrupted
    if ranks is None or ranks.is_first():
        err.print(f"mmdgm: {printable(message)}", style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)
