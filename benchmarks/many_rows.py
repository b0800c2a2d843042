"""Time and memory of fit, predict, impute and suggest_labels on tables of many rows.

    python -m benchmarks.many_rows --rows 100000 1000000

A table has 20 columns of numbers, a fifth of its values are missing, and 1,000 rows are labeled. Each measurement runs
in a process of its own, whose largest resident memory counts; it includes the table and the libraries, which the task
"nothing" measures alone. `fit` passes over all rows once (`max_epochs=1`).
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import mmdgm
from mmdgm import MMCVAClassifier, suggest_labels

COLUMNS, CLASSES, LABELED, MISSING = 20, 5, 1000, 0.2


def table(rows: int) -> tuple[Any, Any]:
    """Return rows of a mixture of correlated columns, with holes, and labels, −1 for most."""
    draw = np.random.default_rng(0)
    y = draw.integers(CLASSES, size=rows)
    factors = draw.standard_normal((rows, 4)) + 2 * draw.standard_normal((CLASSES, 4))[y]
    X = factors @ draw.standard_normal((4, COLUMNS)) + 0.3 * draw.standard_normal((rows, COLUMNS))
    X[draw.random(X.shape) < MISSING] = np.nan
    return X, np.where(np.arange(rows) < LABELED, y, -1)


def fit(X: Any, y: Any, folder: Path) -> None:
    MMCVAClassifier(max_epochs=1, random_state=0, device="cpu").fit(X, y).save(folder)


TASKS: dict[str, Callable[[Any, Any, Path], Any]] = {
    "nothing": lambda X, y, folder: None,
    "fit": fit,
    "predict": lambda X, y, folder: mmdgm.load(folder, device="cpu").predict(X),
    "impute": lambda X, y, folder: mmdgm.load(folder, device="cpu").impute(X),
    "suggest_labels": lambda X, y, folder: suggest_labels(X, 20, random_state=0),
}


def measured(task: str, rows: int, folder: Path) -> tuple[float, float]:
    """Return the seconds of a task, and the largest memory of this process in GB."""
    torch.set_num_threads(1)
    X, y = table(rows)
    began = time.monotonic()
    TASKS[task](X, y, folder)
    seconds = time.monotonic() - began
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_rows", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    options = parser.parse_args()
    print(f"{'rows':>10}  {'task':15} {'seconds':>8} {'GB':>6}")
    for rows in options.rows:
        with tempfile.TemporaryDirectory() as folder:
            for task in options.tasks:
                with multiprocessing.get_context("spawn").Pool(1) as process:
                    seconds, gigabytes = process.apply(measured, (task, rows, Path(folder)))
                print(f"{rows:10,}  {task:15} {seconds:8.1f} {gigabytes:6.2f}", flush=True)


if __name__ == "__main__":
    main()
