"""Waiting times of the page Label: until the server has kept an answer, and until all rows are guessed anew.

`python -m benchmarks.labeling [images|table] [ROWS]`. Default: 10,000 images of 24×24 pixels. Rows are digits of
scikit-learn with noise; the table has 30 of their pixels as columns. Every answer is for the row that is asked.
"""

import csv
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits

from mmdgm.app.label_session import LabelSession
from mmdgm.data.labeled_files import read_data


class Waits(NamedTuple):
    """Seconds: until questions are chosen, until each answer is kept, and until its guesses are there."""

    start: float
    kept: list[float]
    guessed: list[float]


def write(folder: Path, kind: str, rows: int) -> tuple[Path, Any]:
    """Write noisy digits as a file of this kind; return it with their classes."""
    digits, rng = load_digits(), np.random.default_rng(0)
    chosen = rng.integers(0, len(digits.target), rows)
    if kind == "table":
        path = folder / "digits.csv"
        values = digits.data[chosen][:, 2:32] + rng.normal(0, 0.5, (rows, 30))
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([[f"c{j}" for j in range(30)], *values.round(3).tolist()])
    else:
        path = folder / "digits.npz"
        images = np.kron(digits.images[chosen], np.ones((1, 3, 3))) + rng.normal(0, 1, (rows, 24, 24))
        np.savez(path, x=(images * 15).clip(0, 255).astype(np.uint8))
    return path, digits.target[chosen].astype(str)


def measure(kind: str, rows: int, answers: int) -> Waits:
    """Label so many of the rows that are asked, each after the guesses from the last answer."""
    with tempfile.TemporaryDirectory() as name:
        path, truth = write(Path(name), kind, rows)
        data = read_data(path, any_labels=True)
        began = time.perf_counter()
        session = LabelSession(data, Path(name) / "labels.csv", [])
        try:
            session.guessing.wait(0, timeout=600)
            waits = Waits(time.perf_counter() - began, [], [])
            for number in range(answers):
                (question,) = session.questions("benchmark", 1)
                began, label = time.perf_counter(), truth[question["row"]]
                session.add("benchmark", [{"id": str(number), "do": "label", "label": label, **question}])
                session.questions("benchmark", 60)
                session.state()
                waits.kept.append(time.perf_counter() - began)
                session.guessing.wait(session.store.version)
                waits.guessed.append(time.perf_counter() - began)
            return waits
        finally:
            session.close()


def main() -> None:
    kind, rows = (sys.argv[1:] + ["images", "10000"][len(sys.argv) - 1 :])[:2]
    waits = measure(kind, int(rows), 60)
    print(f"{int(rows):,} rows ({kind}): questions after {waits.start:.1f} s")
    print(f"an answer is kept: median {1000 * median(waits.kept):.0f} ms, longest {1000 * max(waits.kept):.0f} ms")
    print(f"all rows are guessed: median {median(waits.guessed):.2f} s, longest {max(waits.guessed):.2f} s")


if __name__ == "__main__":
    main()
