"""Signals to real processes: the exit code, and the same weights after `--resume`; no half-written answer."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.faults import SURVIVED
from benchmarks.faults.models import own_data
from tests.faults import heeded

FAULT = "signal"
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}
TRAININGS = {
    "fit": ("fit", "own.npz", "--epochs", "200", "--no-estimate", "--device", "cpu"),
    "train": ("train", "digits-mmcva-50", "--device", "cpu", "--set", "epochs=10", "--set", "log_every=5"),
}
SECONDS = 600  # on a busy machine


def attacks(folder: Path, share: float) -> Iterator[tuple[str, str]]:
    own_data(folder)
    with heeded():
        yield from _commands(folder)


def _commands(folder: Path) -> Iterator[tuple[str, str]]:
    for name, words in TRAININGS.items():
        command = [sys.executable, "-m", "mmdgm", *words, "--run-dir"]
        subprocess.run([*command, "whole"], cwd=folder, check=True, capture_output=True)
        expected = (folder / "whole" / "model.safetensors").read_bytes()
        for number, code in CODES.items():
            outcome = _signalled([*command, "run"], folder, number, code, folder / "run" / "metrics.csv")
            again = subprocess.run([*command, "run", "--resume"], cwd=folder, capture_output=True, check=False)
            weights = folder / "run" / "model.safetensors"
            if outcome == SURVIVED and (again.returncode or weights.read_bytes() != expected):
                outcome = f"--resume ended with {again.returncode}, or other weights"
            yield f"{number.name}: {name}", outcome
            shutil.rmtree(folder / "run")
        if name == "fit":
            shutil.copytree(folder / "whole", folder / "model")
        shutil.rmtree(folder / "whole")
    command = [sys.executable, "-m", "mmdgm", "predict", "model", "own.npz", "--out", "p.csv", "--method", "posterior"]
    for number, code in CODES.items():
        outcome = _signalled(command, folder, number, code, None)
        yield f"{number.name}: predict", "half a file" if (folder / "p.csv").exists() else outcome


def _signalled(command: list[str], folder: Path, number: signal.Signals, code: int, sign: Path | None) -> str:
    """Start a command, send it a signal as soon as a file is there (None: after its imports); return the outcome."""
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as child:
        began = time.monotonic()
        if sign is None:
            time.sleep(1.5)
        while sign is not None and not (sign.exists() and sign.stat().st_size) and child.poll() is None:
            if time.monotonic() - began > SECONDS:
                break
            time.sleep(0.01)
        child.send_signal(number)
        err = child.communicate(timeout=SECONDS)[1]
    if child.returncode == 0:
        return "the command was done before the signal came"
    if child.returncode not in (code, -number):  # before Python runs our code, the system's own end
        return f"exit code {child.returncode}"
    return SURVIVED if "Traceback" not in err else "a traceback"
