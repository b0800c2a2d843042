"""MNIST with 100 labels and 10,000 unlabeled images: mmdgm's estimator beside scikit-learn's.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/mnist_few_labels.py --data-dir FOLDER [--only svm] [--out FILE]

(FOLDER/mnist holds the four official files.) For each seed 10 labels per class, and unlabeled rows drawn from the
rest of the training set; tested on the 10,000 test rows. The baselines take about 15 seconds a seed on one core;
C and the number of neighbours were compared on the test rows, in their favour. LabelSpreading may warn of a
division: no label reaches a few of the test rows (at most 35 of 10,000), which it then calls 0.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC

import mmdgm
from mmdgm.cli.train import parse_seeds
from mmdgm.data import datasets
from mmdgm.data.datasets import Dataset
from mmdgm.data.splits import labeled_draw
from mmdgm.experiments.provenance import versions

LABELS = 100


class Task(NamedTuple):
    """Images as bytes (rows, 28, 28); `y` is -1 where the label is hidden."""

    x: NDArray[np.uint8]
    y: NDArray[np.int64]
    x_test: NDArray[np.uint8]
    y_test: NDArray[np.int64]
    seed: int


class Fitted(NamedTuple):
    predict: Callable[[NDArray[np.uint8]], NDArray[np.int64]]
    seconds: float


def make_task(dataset: Dataset, *, unlabeled: int, seed: int) -> Task:
    labeled = labeled_draw(dataset.y_train, LABELS, seed=seed)
    rest = np.setdiff1d(np.arange(len(dataset.y_train)), labeled)
    hidden = np.random.default_rng(seed).choice(rest, unlabeled, replace=False)
    x = dataset.x_train[np.concatenate([labeled, hidden]), 0]
    y = np.concatenate([dataset.y_train[labeled], np.full(unlabeled, -1)])
    return Task(x, y, dataset.x_test[:, 0], dataset.y_test, seed)


def columns(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    return images.reshape(len(images), -1).astype(np.float32) / 255


def on_columns(estimator: Any, task: Task, *, labels_alone: bool = False) -> Fitted:
    rows = task.y >= 0 if labels_alone else slice(None)
    x, y = columns(task.x[rows]), task.y[rows]
    started = time.monotonic()
    estimator.fit(x, y)
    return Fitted(lambda images: estimator.predict(columns(images)), time.monotonic() - started)


def on_images(estimator: Any, task: Task) -> Fitted:
    started = time.monotonic()
    estimator.fit(task.x, task.y)
    return Fitted(estimator.predict, time.monotonic() - started)


METHODS: dict[str, Callable[[Task], Fitted]] = {
    "svm": lambda task: on_columns(SVC(C=10.0), task, labels_alone=True),
    "label-spreading": lambda task: on_columns(LabelSpreading(kernel="knn", n_neighbors=10, max_iter=1000), task),
    "mmdgm-images": lambda task: on_images(mmdgm.MMCVAClassifier(random_state=task.seed), task),
    "mmdgm-columns": lambda task: on_columns(mmdgm.MMCVAClassifier(random_state=task.seed), task),
}


class Figures(NamedTuple):
    error_percent: float
    seconds: float


def measure(method: str, task: Task) -> Figures:
    fitted = METHODS[method](task)
    return Figures(float(100 * np.mean(fitted.predict(task.x_test) != task.y_test)), fitted.seconds)


def tabulate(results: dict[str, list[Figures]], seeds: list[int], *, unlabeled: int) -> Table:
    title = f"MNIST, {LABELS} labels, {unlabeled:,} unlabeled"
    table = Table("test error %", *(f"seed {seed}" for seed in seeds), "mean", "seconds of fit", title=title)
    for method, figures in results.items():
        errors = [f.error_percent for f in figures]
        cells = [f"{error:.2f}" for error in (*errors, np.mean(errors))]
        style = "bold" if method.startswith("mmdgm") else None
        table.add_row(method, *cells, f"{np.mean([f.seconds for f in figures]):.2f}", style=style)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="the folder that holds mnist/")
    parser.add_argument("--seeds", type=parse_seeds, default=[0, 1, 2], help="as in 0-2 or 0,3 (default 0-2)")
    parser.add_argument("--unlabeled", type=int, default=10_000, help="unlabeled rows (default 10000)")
    parser.add_argument("--only", nargs="+", choices=METHODS, metavar="NAME", help=", ".join(METHODS))
    parser.add_argument("--out", type=Path, help="write the figures of every seed to this JSON file")
    arguments = parser.parse_args()
    console = Console()
    dataset = datasets.load("mnist", arguments.data_dir)
    results: dict[str, list[Figures]] = {method: [] for method in arguments.only or METHODS}
    for seed in arguments.seeds:
        task = make_task(dataset, unlabeled=arguments.unlabeled, seed=seed)
        for method in results:
            with console.status(f"seed {seed}: {method}"):
                results[method].append(measure(method, task))
    console.print(tabulate(results, arguments.seeds, unlabeled=arguments.unlabeled))
    if arguments.out:
        report = {
            "labels": LABELS,
            "unlabeled": arguments.unlabeled,
            "seeds": arguments.seeds,
            "versions": versions(),
            "results": {method: [f._asdict() for f in figures] for method, figures in results.items()},
        }
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
