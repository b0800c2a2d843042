"""What the default settings do on images of several kinds, judged on held-out training images.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/image_sets.py --data-dir FOLDER [--data mnist svhn] [--out FILE]

(FOLDER/mnist, FOLDER/fashion, … hold the official files.) For each draw 10 labels per class (SVHN: 50), 5,000
unlabeled images, and 5,000 others that are predicted. All are training images: a default may be chosen here. The
methods are an SVM on the pixels of the labeled images, the graph of outlines alone (each image takes the class of
the nearest image in it), and `MMCVAClassifier` without and with the augmentation that it chooses.

A command does only what is missing in the file. A fit takes one to two minutes on one core.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from sklearn.svm import SVC

from mmdgm import MMCVAClassifier
from mmdgm.data import datasets
from mmdgm.data.datasets import channels_last
from mmdgm.data.splits import labeled_draw
from mmdgm.experiments.provenance import software
from mmdgm.files import read_json, write_json
from mmdgm.propagation.choose import of_points
from mmdgm.propagation.features import points_of
from mmdgm.propagation.graph import nearest_rows
from mmdgm.propagation.propagate import KAPPA, propagate

RESULTS = Path(__file__).parents[1] / "results" / "estimators" / "image-sets.json"
UNLABELED = HELD_OUT = 5000
Array = NDArray[Any]


class Task(NamedTuple):
    """Images `(rows, height, width[, channels])`; y is −1 for unlabeled rows."""

    x: Array
    y: Array
    x_held_out: Array
    y_held_out: Array
    seed: int


def draw(name: str, *, per_class: int = 10, dark_on_light: bool = False) -> Callable[[int, Path | None], Task]:
    """A draw of labeled, unlabeled and held-out training images."""

    def make(seed: int, data_dir: Path | None) -> Task:
        found = datasets.load(name, data_dir)
        labeled = labeled_draw(found.y_train, per_class * found.n_classes, seed=seed)
        others = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(len(found.y_train)), labeled))
        n = min(UNLABELED, len(others) // 2)
        hidden, held_out = others[:n], others[n : n + HELD_OUT]
        x = found.x_train.max() - found.x_train if dark_on_light else found.x_train
        y = np.concatenate([found.y_train[labeled], np.full(n, -1)])
        rows = np.concatenate([labeled, hidden])
        return Task(channels_last(x[rows]), y, channels_last(x[held_out]), found.y_train[held_out], seed)

    return make


SETS = {
    "mnist": draw("mnist"),
    "mnist, dark on light": draw("mnist", dark_on_light=True),
    "fashion": draw("fashion"),
    "svhn": draw("svhn", per_class=50),
    "norb": draw("norb"),
    "digits": draw("digits"),
}


def svm(task: Task) -> tuple[Array, Any]:
    known = task.y >= 0
    flat = [x.reshape(len(x), -1) / task.x.max() for x in (task.x[known], task.x_held_out)]
    return SVC(C=10.0).fit(flat[0], task.y[known]).predict(flat[1]), None


def graph(task: Task) -> tuple[Array, Any]:
    """The label of the nearest image in the graph; 0 if it has none."""
    both = torch.from_numpy(np.concatenate([task.x, task.x_held_out]).astype(np.float32) / task.x.max())
    both = both[:, None] if both.dim() == 3 else both.permute(0, 3, 1, 2)
    n = len(task.x)
    labels = propagate(of_points(both[:n]), task.y, kappa=KAPPA)
    points = points_of(both)
    nearest = nearest_rows(points[n:], 1, points[:n]).number[:, 0].numpy()
    return labels[nearest].clip(0), None


def estimator(**parameters: Any) -> Callable[[Task], tuple[Array, Any]]:
    def predict(task: Task) -> tuple[Array, Any]:
        fitted = MMCVAClassifier(random_state=task.seed, **parameters).fit(task.x, task.y)
        return fitted.predict(task.x_held_out), fitted.augmentation_

    return predict


METHODS: dict[str, Callable[[Task], tuple[Array, Any]]] = {
    "svm": svm,
    "graph": graph,
    "no augmentation": estimator(augmentation=None),
    "default": estimator(),
}


def measure(arguments: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Measure what the file lacks, draw by draw."""
    report = read_json(arguments.out) if arguments.out.exists() else {"cells": {}}
    cells: dict[str, Any] = report["cells"]
    for seed in range(10, 10 + arguments.draws):
        for name in arguments.data:
            task = SETS[name](seed, arguments.data_dir)
            for method in arguments.methods:
                key = f"{name}/{method}/{seed}"
                if key in cells:
                    continue
                began = time.monotonic()
                predicted, chosen = METHODS[method](task)
                cells[key] = {
                    "error_percent": round(float(100 * (predicted != task.y_held_out).mean()), 3),
                    "seconds": round(time.monotonic() - began, 1),
                    **({} if chosen is None else {"augmentation": chosen}),
                }
                console.print(key, cells[key], highlight=False)
                write_json(arguments.out, {**software(), "cells": cells})
    return cells


def markdown(cells: dict[str, Any]) -> str:
    """A table of the mean errors."""
    lines = ["| images | " + " | ".join(METHODS) + " |", "| --- " * (1 + len(METHODS)) + "|"]
    for name in SETS:
        errors = [
            [cell["error_percent"] for key, cell in cells.items() if key.startswith(f"{name}/{method}/")]
            for method in METHODS
        ]
        if all(errors):
            lines.append(f"| {name} | " + " | ".join(f"{np.mean(some):.2f}" for some in errors) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="the folder that holds mnist/, fashion/, svhn/ and norb/")
    parser.add_argument("--data", nargs="+", choices=SETS, default=list(SETS), metavar="NAME", help=", ".join(SETS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="NAME")
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    print(markdown(measure(arguments, Console())))


if __name__ == "__main__":
    main()
