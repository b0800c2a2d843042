"""Progress of training: a live display, and metrics.csv."""

import csv
import io
import logging
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from mmdgm.errors import InputError
from mmdgm.files import read_whole, write_bytes, write_whole

logger = logging.getLogger("mmdgm")


@dataclass(frozen=True, kw_only=True)
class Record:
    """One log line: the position in training, and the means of the objective's terms since the last line."""

    stage: str
    step: int  # steps done, over all stages
    total_steps: int
    epoch: float  # epochs done, over all stages
    total_epochs: int
    learning_rate: float
    metrics: dict[str, float]
    images_per_second: float
    seconds: float  # of training, including the parts before a resume

    def row(self) -> dict[str, Any]:
        """Return the record as a row of metrics.csv."""
        return {
            "stage": self.stage,
            "step": self.step,
            "epoch": round(self.epoch, 4),
            "learning_rate": self.learning_rate,
            **self.metrics,
            "images_per_second": round(self.images_per_second, 1),
            "seconds": round(self.seconds, 3),
        }


class _TwoLines(Progress):
    """A progress bar with the objective's terms below it."""

    terms = ""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield Text(f"  {self.terms}", no_wrap=True, overflow="ellipsis", style="dim")


class Display:
    """A live bar with rate and remaining time on a terminal; elsewhere, a line from time to time."""

    def __init__(self, title: str, console: Console, *, seconds_between_lines: float = 20.0):
        self.title, self.console, self.seconds_between_lines = title, console, seconds_between_lines
        self._last_line = time.monotonic()
        self._bar: _TwoLines | None = None
        if console.is_terminal:
            whole = Column(no_wrap=True)
            self._bar = _TwoLines(
                TextColumn("{task.description}", table_column=whole),
                BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4)),
                TextColumn("{task.fields[place]}", table_column=whole),
                TimeRemainingColumn(table_column=whole),
                console=console,
                expand=True,
            )
            self._task = self._bar.add_task(title, total=None, place="")

    def __enter__(self) -> "Display":
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def __call__(self, record: Record) -> None:
        terms = "  ".join(f"{name} {value:.4g}" for name, value in record.metrics.items())
        epoch, rate = f"{record.epoch:.0f}/{record.total_epochs}", f"{record.images_per_second:,.0f} img/s"
        if self._bar:
            self._bar.terms = f"{rate}  {terms}"
            self._bar.update(
                self._task,
                description=f"{self.title} {record.stage}",
                total=record.total_steps,
                completed=record.step,
                place=f"epoch {epoch} step {record.step}/{record.total_steps}",
            )
        elif time.monotonic() - self._last_line >= self.seconds_between_lines or record.step == record.total_steps:
            self._last_line = time.monotonic()
            left = (record.total_steps - record.step) * record.seconds / record.step
            self.console.print(
                f"{self.title} {record.stage}  epoch {epoch}  step {record.step}/{record.total_steps}  "
                f"{rate}  {left:.0f} s left  {terms}",
                highlight=False,
                soft_wrap=True,
            )


class MetricsFile:
    """The file metrics.csv, with one row per record. A resumed run deletes the rows after the checkpoint's step.

    Training does not depend on it: if the file cannot be written, the rows stay in `rows` and are written with a later
    one, and what cannot be read of an earlier part is left out.
    """

    def __init__(self, path: Path, *, keep_steps: int = 0):
        self.path = path
        self.rows: list[dict[str, Any]] = []
        if keep_steps:
            self.rows = [row for row in _good_rows(path) if row["step"] <= keep_steps]
        write_metrics(path, self.rows)
        self._written = True

    def __call__(self, record: Record) -> None:
        self.rows.append(record.row())
        try:
            if self._written and self.path.exists():
                text = _csv(self.rows[-1:], header=len(self.rows) == 1)
                write_bytes(self.path, text.encode(), os.O_APPEND)
            else:
                write_metrics(self.path, self.rows)
            self._written = True
        except (InputError, OSError) as error:
            if self._written:
                logger.warning("mmdgm: %s cannot be written (%s); training goes on", self.path, error)
            self._written = False


def _good_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a metrics.csv, without the damaged ones if there are any."""
    try:
        rows = read_metrics(path)
        if all("step" in row for row in rows):
            return rows
    except InputError:
        pass
    rows = []
    header, *lines = path.read_bytes().splitlines(keepends=True) if path.is_file() else [b""]
    for line in lines:
        with suppress(InputError):
            rows += [row for row in parse_metrics(header + line, path) if "step" in row]
    logger.warning("mmdgm: %s is damaged; going on with %d of its %d rows", path, len(rows), len(lines))
    return rows


def write_metrics(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the rows of a metrics.csv."""
    write_whole(path, metrics_bytes(rows))


def metrics_bytes(rows: list[dict[str, Any]]) -> bytes:
    """Return the content of a metrics.csv."""
    return _csv(rows, header=True).encode() if rows else b""


def _csv(rows: list[dict[str, Any]], *, header: bool) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=rows[0].keys(), lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a metrics.csv, with parsed numbers and without a half-written last line."""
    return parse_metrics(read_whole(path), path) if path.exists() else []


def parse_metrics(content: bytes, path: Path) -> list[dict[str, Any]]:
    """Return the rows in the content of a metrics.csv; `path` is for messages."""
    whole, _, _ = content.rpartition(b"\n")
    try:
        return [
            {key: value if key == "stage" else _number(value) for key, value in row.items()}
            for row in csv.DictReader(io.StringIO(whole.decode()), strict=True)
        ]
    except (ValueError, TypeError, OverflowError, csv.Error):
        raise InputError(f"{path}: is damaged") from None


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() and "." not in text and "e" not in text else value
