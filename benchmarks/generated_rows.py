"""Rows of tables that generators make, beside real ones: mmdgm, and CTGAN and TVAE of the package `ctgan`.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.generated_rows --data FOLDER --out FILE

FOLDER and the tables are those of `benchmarks.tables`. Here tables are complete: first columns with more than a fifth
of their values missing are left out, then rows with a missing value, then tables with fewer than 100 rows. Of at most
2,000 rows, 70 % train the generators, with their labels. A generator makes as many rows as it was trained on.

useful     Logistic regression and a random forest are trained on generated rows, and on the training rows. Both are
           tested on the held-out real rows. The score is the mean over both of the ratio of accuracies.
detected   A random forest tells generated rows from the held-out real rows, as many of each. The score is the area
           under its ROC curve by cross-validation; 0.5: it cannot tell them.

mmdgm is `MMCVAClassifier()`, which is asked for rows of classes drawn from the training rows' classes. CTGAN and TVAE
have their defaults (300 epochs); the class is one of their discrete columns.

FILE is written after every measurement, and a command does only what is missing in it.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from benchmarks.tables.cells import Cell, Key, Results
from benchmarks.tables.encoding import Array, Encoder
from benchmarks.tables.measure import Clock
from benchmarks.tables.tasks import Labels, Table, Task, draw_task, read_table, table_names
from mmdgm import MMCVAClassifier
from mmdgm.cli.train import parse_seeds
from mmdgm.errors import InputError

MOST_MISSING = 0.2  # of a column
FEWEST_ROWS = 100
TARGET = "the class"
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "LR": lambda: LogisticRegression(max_iter=1000),
    "RF": lambda: RandomForestClassifier(100, random_state=0),
}


class Generated(NamedTuple):
    """Generated rows and their classes."""

    x: pd.DataFrame
    y: Labels


def complete(table: Table) -> Table | None:
    """The table without missing values; None if few rows are left."""
    x = table.x.loc[:, table.x.isna().mean() <= MOST_MISSING]
    rows = x.notna().all(axis=1).to_numpy()
    return Table(x[rows].reset_index(drop=True), table.y[rows]) if rows.sum() >= FEWEST_ROWS else None


def by_mmdgm(task: Task, n: int) -> Generated:
    """Rows of MMCVAClassifier."""
    model = MMCVAClassifier(random_state=task.seed, device="cpu").fit(task.x, task.y)
    y = np.random.default_rng(task.seed).choice(task.y, n)
    x = model.sample(n, y=y, random_state=task.seed)
    return Generated(pd.DataFrame(x, columns=task.x.columns).astype(task.x.dtypes), y)


def by_peer(name: str) -> Callable[[Task, int], Generated]:
    """Rows of CTGAN or TVAE."""

    def generate(task: Task, n: int) -> Generated:
        import ctgan

        discrete = [*(c for c in task.x if task.x[c].dtype == object), TARGET]
        model = getattr(ctgan, name)(enable_gpu=False)
        model.set_random_state(task.seed)
        model.fit(task.x.assign(**{TARGET: task.y}), discrete)
        rows = model.sample(n)
        y = rows.pop(TARGET).to_numpy(int)
        return Generated(rows[task.x.columns].astype(task.x.dtypes), y)

    return generate


GENERATORS: dict[str, Callable[[Task, int], Generated]] = {
    "mmdgm": by_mmdgm,
    "TVAE": by_peer("TVAE"),
    "CTGAN": by_peer("CTGAN"),
}


def accuracy(name: str, x: Array, y: Labels, task: Task, x_test: Array) -> float:
    """The accuracy on the test rows of a classifier that is trained on rows x."""
    if len(np.unique(y)) == 1:
        return float(np.mean(task.y_test == y[0]))
    return float(CLASSIFIERS[name]().fit(x, y).score(x_test, task.y_test))


def measured(task: Task, generator: str) -> Cell:
    """The cell of a generator: both scores, accuracies in percent, and CPU seconds."""
    encoder, clock, cell = Encoder(task.x), Clock(), Cell()
    with clock.running():
        new = GENERATORS[generator](task, len(task.y))
    real, test, made = (np.nan_to_num(encoder.matrix(encoder.codes(x))) for x in (task.x, task.x_test, new.x))
    ratios = []
    for name in CLASSIFIERS:
        by_real, by_new = (accuracy(name, x, y, task, test) for x, y in ((real, task.y), (made, new.y)))
        ratios.append(by_new / by_real)
        cell[f"accuracy_{name}"], cell[f"real_accuracy_{name}"] = round(100 * by_new, 4), round(100 * by_real, 4)
    n = min(len(test), len(made))
    rows, is_new = np.concatenate([test[:n], made[:n]]), np.repeat([0, 1], n)
    detector = RandomForestClassifier(100, random_state=0, min_samples_leaf=2)
    chances = cross_val_predict(detector, rows, is_new, cv=5, method="predict_proba")[:, 1]
    scores = {"useful": float(np.mean(ratios)), "detected": float(roc_auc_score(is_new, chances))}
    return {**{name: round(score, 4) for name, score in scores.items()}, **cell, "seconds": clock.seconds}


def summary(cells: Mapping[Key, Cell]) -> str:
    """A line per generator, over the tables and seeds that all have; as Markdown."""
    of_generators: dict[str, dict[tuple[str, int], Cell]] = {}
    for key, cell in cells.items():
        of_generators.setdefault(key.method, {})[key.table, key.seed] = cell
    if not of_generators:
        return "nothing is measured"
    tasks = sorted(set.intersection(*map(set, of_generators.values())))
    lines = [
        f"{len({table for table, _ in tasks})} tables, {len(tasks)} tasks\n",
        "| generator | accuracy relative to real rows | lowest | detected (AUC) | median CPU seconds |",
        "| --- " * 5 + "|",
    ]
    for name in sorted(of_generators, key=list(GENERATORS).index):
        of = [of_generators[name][task] for task in tasks]
        useful, detected, seconds = (np.array([cell[s] for cell in of]) for s in ("useful", "detected", "seconds"))
        lines.append(
            f"| {name} | {useful.mean():.3f} | {useful.min():.3f} | {detected.mean():.3f} | {np.median(seconds):.0f} |"
        )
    return "\n".join(lines)


def measure(results: Results, options: argparse.Namespace) -> None:
    """Measure what the file lacks."""
    for seed in options.seeds:
        for name in options.names:
            table = complete(read_table(name, options.data))
            for generator in options.only if table is not None else ():
                key = Key(name, "0", None, seed, generator)
                if key in results.cells():
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    cell = measured(draw_task(table, missing=0.0, seed=seed), generator)
                results.add(key, cell)
                print(key, json.dumps(cell), file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> None:
    """Measure what is missing, and print the summary; wrong input is one line and exit code 2."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.generated_rows",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = [name for name in GENERATORS if name == "mmdgm" or find_spec("ctgan")]
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="a folder with CSV files and a manifest.json")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the file of results")
    parser.add_argument("--names", nargs="+", metavar="NAME", help="tables; default: all")
    parser.add_argument("--only", nargs="+", choices=known, default=known, help="default: all that are installed")
    parser.add_argument("--seeds", type=parse_seeds, default=[0], help="0 (the default), 0-4, or 0,3")
    parser.add_argument("--show", action="store_true", help="only print what the file has")
    options = parser.parse_args(words)
    try:
        options.names = options.names or table_names(options.data)
        results = Results(options.out)
        if not options.show:
            measure(results, options)
        print(summary(results.cells()))
    except InputError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
