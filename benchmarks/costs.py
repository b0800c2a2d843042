"""Expected cost of the estimators' errors, with and without `cost_matrix`, on held-out rows.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/costs.py [--tasks diabetes] [--models MMVAClassifier] [--out FILE]

A draw trains on half of the rows, of digits on 100, and counts the mean cost on the others. Costs are divided by
their mean over all errors before they are given to `cost_matrix`. `class_weight` gives each class the mean cost of its
errors instead. A command does only what is missing in the file.
"""

import argparse
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.model_selection import train_test_split

from mmdgm import MMCVAClassifier, MMVAClassifier
from mmdgm.experiments.provenance import software
from mmdgm.files import read_json, write_json

RESULTS = Path(__file__).parents[1] / "results" / "estimators" / "costs.json"
MODELS = {"MMVAClassifier": MMVAClassifier, "MMCVAClassifier": MMCVAClassifier}
METHODS = ("default", "cost_matrix", "class_weight")


class Task(NamedTuple):
    """A data set and the cost of each error."""

    x: NDArray[Any]
    y: NDArray[Any]
    cost: NDArray[np.float64]  # (K, K)
    train: float = 0.5  # rows to train on: their share or their number


def distances(n_classes: int) -> NDArray[np.float64]:
    """|i − j|, `(K, K)`."""
    numbers = np.arange(n_classes)
    return np.abs(numbers[:, None] - numbers).astype(float)


def diabetes() -> Task:
    """The progress of the disease in five groups of equal size."""
    x, target = load_diabetes(return_X_y=True)
    return Task(x, np.digitize(target, np.quantile(target, [0.2, 0.4, 0.6, 0.8])), distances(5))


def tumours() -> Task:
    """Breast cancer, where a missed malignant tumour (class 0) costs 10."""
    return Task(*load_breast_cancer(return_X_y=True), np.array([[0.0, 10.0], [1.0, 0.0]]))


def amounts() -> Task:
    """Digits of 8×8 pixels, where an error costs the difference of the two numbers; 100 labels."""
    return Task(*load_digits(return_X_y=True), distances(10), train=100)


TASKS = {"amounts": amounts, "diabetes": diabetes, "tumours": tumours}


def parameters(method: str, cost: NDArray[np.float64]) -> dict[str, Any]:
    """Return the parameters by which a method gets the costs."""
    relative = cost / cost[~np.eye(len(cost), dtype=bool)].mean()
    if method == "cost_matrix":
        return {"cost_matrix": relative}
    if method == "class_weight":
        return {"class_weight": dict(enumerate(relative.sum(axis=1) / (len(cost) - 1)))}
    return {}


def measured(task: Task, model: str, method: str, seed: int) -> dict[str, float]:
    """Return the mean cost and the error on the held-out rows of a draw."""
    x, x_test, y, y_test = train_test_split(task.x, task.y, train_size=task.train, random_state=seed, stratify=task.y)
    classifier = MODELS[model](**parameters(method, task.cost), random_state=seed, device="cpu").fit(x, y)
    predicted = classifier.predict(x_test)
    error = 100 * float((predicted != y_test).mean())
    return {"cost": float(task.cost[y_test, predicted].mean()), "error_percent": error}


def markdown(cells: Mapping[str, Mapping[str, float]]) -> str:
    """Return the table of mean costs and errors, with the standard error of the difference to the default."""
    lines = ["| costs | estimator | cost: default | `cost_matrix` | `class_weight` | error in %: default | "]
    lines[0] += "`cost_matrix` | `class_weight` |"
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for task, model in dict.fromkeys(tuple(key.split("/")[:2]) for key in sorted(cells)):
        draws = range(sum(key.startswith(f"{task}/{model}/{METHODS[-1]}/") for key in cells))
        found = {
            figure: {m: np.array([cells[f"{task}/{model}/{m}/{s}"][figure] for s in draws]) for m in METHODS}
            for figure in ("cost", "error_percent")
        }
        words = [f"{found['cost']['default'].mean():.3f}"]
        for method in METHODS[1:]:
            apart = found["cost"][method] - found["cost"]["default"]
            mean, error = found["cost"][method].mean(), apart.std(ddof=1) / np.sqrt(len(draws))
            words.append(f"{mean:.3f} ({apart.mean():+.3f} ± {error:.3f})".replace("-", "−"))
        words += [f"{values.mean():.1f}" for values in found["error_percent"].values()]
        lines.append(f"| {task}, {len(draws)} draws | `{model}` | {' | '.join(words)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--draws", type=int, default=6)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()

    def known() -> dict[str, dict[str, float]]:
        return dict(read_json(arguments.out)["cells"]) if arguments.out.exists() else {}

    wanted = itertools.product(range(arguments.draws), arguments.tasks, arguments.models, METHODS)
    for seed, task, model, method in wanted:
        key = f"{task}/{model}/{method}/{seed}"
        if key not in known():
            cell = measured(TASKS[task](), model, method, seed)
            write_json(arguments.out, {**software(), "cells": {**known(), key: cell}})
            print(key, cell, flush=True)
    print(markdown(known()))


if __name__ == "__main__":
    main()
