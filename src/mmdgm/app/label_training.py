"""Training beside a labeling: `mmdgm fit` in a process of its own, in run folders 1, 2, … beside the labels.

Each run keeps the labels that it was started with as labels.csv. A run whose process has ended early, because it was
cancelled or the page was killed, has a checkpoint and can go on.
"""

import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from mmdgm.errors import InputError
from mmdgm.experiments.run_folder import RunFolder
from mmdgm.files import write_whole
from mmdgm.progress import read_metrics

LABELS = "labels.csv"  # in a run folder
ENDS = 10.0  # seconds for a cancelled training to save its checkpoint
PLACE = re.compile(r"step \d+/(\d+)")


class Training:
    """The newest run in the folder `runs`, and its process. `fit`: DATA and its options for `mmdgm fit`."""

    def __init__(self, runs: Path, fit: list[str]):
        self.runs, self._fit = runs, fit
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._listener: threading.Thread | None = None
        self._cancelled, self._said, self._total, self._limit = False, "", 0, 0.0

    @property
    def number(self) -> int:
        """The number of the newest run; 0: there is none."""
        numbers = [int(path.name) for path in self.runs.glob("*") if path.name.isdecimal() and path.is_dir()]
        return max(numbers, default=0)

    @property
    def folder(self) -> RunFolder:
        """The folder of the newest run."""
        return RunFolder(self.runs / str(self.number))

    def start(self, labels: bytes, *, minutes: float | None = None) -> None:
        """Train with the labels of a label file's content, in a new run folder."""
        with self._lock:
            self._refuse_two()
            run = self.runs / str(self.number + 1)
            write_whole(run / LABELS, labels)
            self._begin(run, minutes)

    def resume(self, *, minutes: float | None = None) -> None:
        """Go on with the newest run from its checkpoint, or begin it again if it has none."""
        with self._lock:
            self._refuse_two()
            if self.status()["state"] != "stopped":
                raise InputError("there is no training to go on with")
            self._begin(self.folder.path, minutes, resume=self.folder.config.exists())

    def cancel(self) -> None:
        """Let the training save a checkpoint and end."""
        with self._lock:
            if self._process is not None:
                self._cancelled = self._process.poll() is None
                _close(self._process.stdin)

    def close(self) -> None:
        """Cancel, and wait until the process has ended."""
        self.cancel()
        if self._process is not None:
            try:
                self._process.wait(ENDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def status(self) -> dict[str, Any]:
        """Return the state (none, running, ending, done, stopped or failed) and figures of the newest run."""
        number = self.number
        if not number:
            return {"state": "none", "number": 0}
        running = self._process is not None and self._process.poll() is None
        if not running and self._listener is not None:
            self._listener.join(1)  # its last line may be on the way
        folder, found = self.folder, {"number": number, "line": self._said}
        with suppress(InputError, IndexError, KeyError):
            last = read_metrics(folder.metrics)[-1]
            found |= {"step": last["step"], "seconds": last["seconds"], "steps": self._total, "limit": self._limit}
        if running:
            return {**found, "state": "ending" if self._cancelled else "running"}
        with suppress(InputError):
            if folder.is_done():
                return {**found, "state": "done"}
            if folder.status() == "stopped":
                return {**found, "state": "failed"}
        failed = self._process is not None and self._process.returncode and not self._cancelled
        return {**found, "state": "failed" if failed else "stopped"}

    def _refuse_two(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                raise InputError("a training is running; cancel it first, or wait")
            _close(self._process.stdin)

    def _begin(self, run: Path, minutes: float | None, *, resume: bool = False) -> None:
        command = [sys.executable, "-m", "mmdgm.cli.fit_process", "fit", *self._fit, "--no-estimate"]
        command += ["--labels", str(run / LABELS), "--run-dir", str(run), *(["--resume"] if resume else [])]
        self._cancelled, self._said, self._total = False, "starting", 0
        self._limit = 0.0 if minutes is None else max(1.0, 60 * minutes)  # seconds; 0: no limit
        command += ["--max-time", f"{self._limit:g}"] if self._limit else []
        try:
            self._process = subprocess.Popen(  # noqa: S603  (this Python, and paths of the user's own command line)
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=_environment()
            )
        except OSError as error:
            raise InputError(f"training cannot be started ({error.strerror})") from None
        self._listener = threading.Thread(target=self._listen, args=(self._process.stderr,), daemon=True)
        self._listener.start()

    def _listen(self, lines: IO[bytes]) -> None:
        """Keep the last line of the process, and the number of steps that it announces."""
        for line in lines:
            if text := line.decode(errors="replace").strip():
                self._said = text.removeprefix("mmdgm: ")
            if found := PLACE.search(text):
                self._total = int(found[1])
        _close(lines)


def _environment() -> dict[str, str]:
    """The environment of the training: one core stays free for the page, unless the user has set the number."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {"OMP_NUM_THREADS": str(max(1, cores - 1)), **os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "1000"}


def _close(file: IO[bytes] | None) -> None:
    if file is not None:
        with suppress(OSError):
            file.close()
