"""Which rows to label: `suggest_labels` beside random draws and query strategies of scikit-activeml.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/few_labels.py --data-dir FOLDER [--data digits wine] [--graph-alone]

(FOLDER/mnist and FOLDER/svhn hold the official files; the other sets come with scikit-learn.) A strategy asks for 10
rows, learns their labels, asks for 10 more, then for 10, 20 and 50 more. Two errors are measured each time, in
percent: of the labels that `propagate` gives to the other rows of the pool, and of `MMCVAClassifier()` on test rows.
A draw is a choice of the pool and the test rows. All strategies see the same points, those that the graph of
neighbours is made from. Nothing was chosen on these test rows.

scikit-activeml is no dependency: pip install --no-deps -r benchmarks/peers/requirements.txt. Results are
written after every fit, with the rows that were asked. A command does only what is missing in the file, so it can be
interrupted and repeated. With the rows in the file, fits do not need scikit-activeml.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from mmdgm import MMCVAClassifier
from mmdgm.cli.train import parse_seeds
from mmdgm.data import datasets
from mmdgm.data.datasets import channels_last
from mmdgm.devices import device_name, pick_device
from mmdgm.experiments.provenance import software, source_tree
from mmdgm.files import read_json, write_json
from mmdgm.propagation.features import points_of
from mmdgm.propagation.graph import neighbour_graph
from mmdgm.propagation.propagate import KAPPA, class_chances, class_strength
from mmdgm.propagation.suggest import suggest_rows

STEPS = (10, 20, 30, 50, 100)
RESULTS = Path(__file__).parents[1] / "results" / "estimators" / "few-labels.json"
Array = NDArray[Any]


class Task(NamedTuple):
    """A pool of rows whose labels can be asked for, and test rows."""

    x: Array
    y: Array
    x_test: Array
    y_test: Array

    def points(self) -> Array:
        """What strategies see, `(rows, d)`: outlines of large images, standardised columns, or pixels."""
        if self.x.ndim > 2:
            unit = torch.from_numpy(self.x.astype(np.float32) / self.x.max())
            return points_of(unit[:, None] if unit.dim() == 3 else unit.permute(0, 3, 1, 2)).numpy()
        return StandardScaler().fit_transform(self.x).astype(np.float32)


def of_scikit_learn(load: Callable[..., Any], *, images: bool = False) -> Callable[[int, Path | None], Task]:
    """A draw of a data set of scikit-learn: 70 % of the rows are the pool."""

    def draw(seed: int, _: Path | None) -> Task:
        x, y = load(return_X_y=True)
        order, n = np.random.default_rng(seed).permutation(len(y)), round(0.7 * len(y))
        x = x.reshape(-1, 8, 8) if images else x
        return Task(x[order[:n]], y[order[:n]], x[order[n:]], y[order[n:]])

    return draw


def of_files(name: str, *, pool: int, test: int) -> Callable[[int, Path | None], Task]:
    """A draw of the training images of a data set, and its first test images."""

    def draw(seed: int, data_dir: Path | None) -> Task:
        found = datasets.load(name, data_dir)
        rows = np.random.default_rng(seed).choice(len(found.y_train), pool, replace=False)
        x, x_test = channels_last(found.x_train[rows]), channels_last(found.x_test[:test])
        return Task(x, found.y_train[rows], x_test, found.y_test[:test])

    return draw


TASKS: dict[str, Callable[[int, Path | None], Task]] = {
    "digits": of_scikit_learn(load_digits, images=True),
    "breast cancer": of_scikit_learn(load_breast_cancer),
    "wine": of_scikit_learn(load_wine),
    "mnist": of_files("mnist", pool=10_000, test=10_000),
    "svhn": of_files("svhn", pool=3_000, test=5_000),
}


def random(task: Task, points: Array, y: Array, n: int, seed: int) -> Array:
    """A random draw without replacement."""
    return np.random.default_rng([seed, int((y >= 0).sum())]).permutation(np.flatnonzero(y < 0))[:n]


def balanced(task: Task, points: Array, y: Array, n: int, seed: int) -> Array:
    """A random draw with the same number of rows of every class: what a user without labels cannot do."""
    order = np.random.default_rng([seed, int((y >= 0).sum())]).permutation(len(y))
    classes, counts = np.unique(task.y[y >= 0], return_counts=True)
    before = dict(zip(classes.tolist(), counts.tolist(), strict=True))
    waiting = {k: [int(row) for row in order if y[row] < 0 and task.y[row] == k] for k in np.unique(task.y).tolist()}
    found = []
    for _ in range(n):
        k = min((k for k in waiting if waiting[k]), key=lambda k: before.get(k, 0))
        before[k] = before.get(k, 0) + 1
        found.append(waiting[k].pop())
    return np.array(found)


def suggested(task: Task, points: Array, y: Array, n: int, seed: int) -> Array:
    """The strategy of `suggest_labels`."""
    return np.array(suggest_rows(neighbour_graph(torch.from_numpy(points)), n, y))


def typiclust(task: Task, points: Array, y: Array, n: int, seed: int) -> Array:
    """scikit-activeml's TypiClust: typical rows of clusters without a label (Hacohen et al. 2022)."""
    from skactiveml.pool import TypiClust

    found: Array = TypiClust(random_state=seed).query(X=points, y=np.where(y < 0, np.nan, y), batch_size=n)
    return found


def margin(task: Task, points: Array, y: Array, n: int, seed: int) -> Array:
    """scikit-activeml's margin sampling with logistic regression, after a random draw."""
    from skactiveml.classifier import SklearnClassifier
    from skactiveml.pool import UncertaintySampling

    if not (y >= 0).any():
        return random(task, points, y, n, seed)
    classifier = SklearnClassifier(LogisticRegression(max_iter=500), classes=np.unique(task.y))
    sampling = UncertaintySampling(method="margin_sampling", random_state=seed)
    found: Array = sampling.query(X=points, y=np.where(y < 0, np.nan, y), clf=classifier, batch_size=n)
    return found


STRATEGIES = {strategy.__name__: strategy for strategy in (random, balanced, suggested, typiclust, margin)}


Round = tuple[int, Array, Array]  # number of labels, rows asked, y with −1 for unlabeled rows


def asked(task: Task, strategy: str, seed: int, recorded: Mapping[int, list[int]]) -> Iterator[Round]:
    """Yield each round of questions. `recorded`: the rows that an earlier command asked, by the number of labels."""
    points, y = None, np.full(len(task.y), -1)
    for n in STEPS:
        if n >= len(y):
            return
        if n in recorded:
            rows = np.array(recorded[n])
        else:
            points = task.points() if points is None else points
            rows = STRATEGIES[strategy](task, points, y, n - int((y >= 0).sum()), seed)
        y[rows] = task.y[rows]
        yield n, rows, y.copy()


def propagated_error(task: Task, y: Array) -> float:
    """Percentage of wrong labels among the unlabeled rows, after propagation alone."""
    known = np.unique(y[y >= 0], return_inverse=True)
    codes = np.full(len(y), -1)
    codes[y >= 0] = known[1]
    graph = neighbour_graph(torch.from_numpy(task.points()))
    predicted = known[0][class_chances(class_strength(graph, codes, kappa=KAPPA), codes).argmax(axis=1)]
    return float(100 * (predicted != task.y)[y < 0].mean())


def classifier_error(task: Task, y: Array, seed: int) -> float | None:
    """Percentage of wrong predictions of `MMCVAClassifier()` on the test rows; None if all labels are of one class."""
    if len(np.unique(y[y >= 0])) < 2:
        return None
    fitted = MMCVAClassifier(random_state=seed).fit(task.x, y)
    return float(100 * (fitted.predict(task.x_test) != task.y_test).mean())


def measure(arguments: argparse.Namespace, console: Console) -> None:
    """Measure what the file of results lacks."""
    report = read_json(arguments.out) if arguments.out.exists() else {"cells": {}}
    cells: dict[str, Any] = report["cells"]
    for seed in arguments.draws:
        for name in arguments.data:
            task = TASKS[name](seed, arguments.data_dir)
            for strategy in arguments.strategies:
                keys = {n: f"{name}/{strategy}/{n}/{seed}" for n in STEPS}
                recorded = {n: cells[key]["rows"] for n, key in keys.items() if key in cells}
                for n, rows, y in asked(task, strategy, seed, recorded):
                    key = keys[n]
                    if key not in cells:
                        cells[key] = {"rows": rows.tolist(), "propagated": propagated_error(task, y)}
                    cell = cells[key]
                    if not arguments.graph_alone and "classifier" not in cell:
                        began = time.monotonic()
                        cell["classifier"] = classifier_error(task, y, seed)
                        cell["seconds"] = round(time.monotonic() - began, 1)
                        cell |= {"device": device_name(pick_device("auto")), "source_tree": source_tree()}
                    console.print(key, cell, highlight=False)
                    write_json(arguments.out, {**software(), "cells": cells})


def figures(cells: dict[str, Any], name: str, strategy: str, n: int, key: str) -> list[float]:
    """The errors of all draws."""
    keys = [k for k in cells if k.startswith(f"{name}/{strategy}/{n}/")]
    return [cells[k][key] for k in keys if cells[k].get(key) is not None]


def markdown(cells: dict[str, Any], key: str = "propagated") -> str:
    """A table of mean ± standard error over the draws."""
    lines = [
        "| data | strategy | " + " | ".join(f"{n} labels" for n in STEPS) + " |",
        "| --- " * (2 + len(STEPS)) + "|",
    ]
    for name in TASKS:
        for strategy in STRATEGIES:
            found = [figures(cells, name, strategy, n, key) for n in STEPS]
            if all(len(errors) > 1 for errors in found):
                text = [f"{np.mean(e):.1f} ± {np.std(e, ddof=1) / len(e) ** 0.5:.1f}" for e in found]
                lines.append(f"| {name} | {strategy} | " + " | ".join(text) + " |")
    return "\n".join(lines)


LABELS = {"propagated": "wrong propagated labels, %", "classifier": "MMCVAClassifier() on test rows, error %"}


def draw(path: Path, cells: dict[str, Any]) -> None:
    """Save a picture with one panel per data set and one line per strategy: propagated labels above the classifier."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.9 * len(TASKS), 6.0), layout="constrained", dpi=120)
    axes = figure.subplots(len(LABELS), len(TASKS), sharex=True)
    for row, (key, label) in zip(axes, LABELS.items(), strict=True):
        for axis, name in zip(row, TASKS, strict=True):
            for strategy in STRATEGIES:
                means = {n: np.mean(e) for n in STEPS if len(e := figures(cells, name, strategy, n, key)) > 1}
                wide = 2.2 if strategy == suggested.__name__ else 1.1
                axis.plot(list(means), list(means.values()), marker="o", markersize=3, linewidth=wide, label=strategy)
            axis.set(xscale="log", ylim=(0, None))
            axis.set_xticks(STEPS, map(str, STEPS))
            axis.minorticks_off()
            axis.grid(alpha=0.3)
        row[0].set_ylabel(label)
    for name, above, below in zip(TASKS, *axes, strict=True):
        above.set_title(name)
        below.set_xlabel("labels")
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="the folder that holds mnist/ and svhn/")
    parser.add_argument("--data", nargs="+", choices=TASKS, default=list(TASKS), metavar="NAME", help=", ".join(TASKS))
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=list(STRATEGIES), metavar="NAME")
    parser.add_argument("--draws", type=parse_seeds, default=list(range(5)), metavar="SEEDS", help="default: 0-4")
    parser.add_argument("--graph-alone", action="store_true", help="measure propagated labels alone, without training")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    measure(arguments, Console())
    cells = read_json(arguments.out)["cells"]
    draw(arguments.out.with_suffix(".png"), cells)
    for key, label in LABELS.items():
        print(f"{label}\n\n{markdown(cells, key)}\n")


if __name__ == "__main__":
    main()
