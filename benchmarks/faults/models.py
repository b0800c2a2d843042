"""Small models and runs that attacks are made on."""

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.datasets import load_wine

from mmdgm import MMCVAClassifier
from mmdgm.data.labeled_files import LabeledData, read_data
from mmdgm.experiments.fit_runs import FitOptions, fit_run
from mmdgm.experiments.run_folder import RunFolder

QUICK: dict[str, Any] = {"hidden": (16,), "max_epochs": 3, "random_state": 0, "device": "cpu"}
OPTIONS = FitOptions(epochs=4, seed=5, device="cpu")


def table() -> tuple[Any, Any]:
    """Return rows and labels, −1 for most."""
    X, y = load_wine(return_X_y=True)
    return X, np.where(np.random.default_rng(0).random(len(y)) < 0.7, -1, y)


def two_models() -> list[MMCVAClassifier]:
    X, y = table()
    return [MMCVAClassifier(**QUICK).fit(X, y), MMCVAClassifier(**{**QUICK, "random_state": 1}).fit(X, y)]


def answers(model: Any) -> bytes:
    """Return what a model says of some rows, to the last bit."""
    X = table()[0][:20]
    return b"".join(part.tobytes() for part in (model.decision_function(X), model.sample(2, random_state=0)))


def own_data(folder: Path) -> LabeledData:
    X, y = table()
    np.savez(folder / "own.npz", x=X, y=y)
    return read_data(folder / "own.npz")


def fit(data: LabeledData, folder: Path, *, resume: bool = False) -> bytes:
    """Train, or go on, in a run folder; return the weights."""
    quiet = Console(file=io.StringIO())
    with contextlib.redirect_stderr(quiet.file):
        fit_run(data, RunFolder(folder), OPTIONS, console=quiet, resume=resume)
    return RunFolder(folder).weights.read_bytes()
