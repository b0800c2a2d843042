"""Tables with few labels and missing values: mmdgm beside imputers and classifiers of scikit-learn.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.tables --data FOLDER --out FILE

FOLDER holds CSV files and a manifest.json; without it, scikit-learn's iris, wine, breast cancer and digits (64
columns) are used. A task is at most 2,000 rows of a table, split 70/30 by a seed. Cells are hidden at random in
training and test rows. Some rows of each class have labels, at most half of its training rows. The other training
rows are unlabeled. All methods get the same rows.

Conditions: with --missing 0.3, 30 % of the cells of all tables are hidden. Nothing is hidden with 0 and with real: 0
takes the tables without missing values, real those with some.

Imputers are scored on the test rows' hidden cells: for each column the error relative to that of the mean (RMSE) or
of the mode (error rate), then the mean over columns. Classifiers are scored by the accuracy on the test rows.
Encodings, imputers and scales are learned from the training rows, also from the unlabeled ones. Methods are ranked
by table, on means over seeds, over the tasks that all of them have done; tied methods share ranks, and a win.

FILE is written after every measurement. A command does only what is missing in the file, so it can be interrupted
and repeated. Several commands may share the file; give them different --seeds, --names or --only.
"""

import argparse
import json
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.tables.cells import Cell, Key, Results
from benchmarks.tables.classifiers import CLASSIFIERS
from benchmarks.tables.imputers import IMPUTERS
from benchmarks.tables.measure import Bench
from benchmarks.tables.summary import Condition, summary
from benchmarks.tables.tasks import Table, draw_task, read_table, table_names
from mmdgm.cli.train import parse_seeds
from mmdgm.errors import InputError

REAL, NOTHING = "real", "0"
METHODS = (*IMPUTERS, *CLASSIFIERS)


def share(text: str) -> str:
    """A share of hidden cells, or `real`."""
    if text == REAL:
        return text
    if not 0 <= float(text) < 1:
        raise ValueError(text)
    return f"{float(text):g}"


def is_asked(table: Table, missing: str) -> bool:
    """Whether a condition applies to a table: it has missing values (real), or has none (0), or either."""
    has_holes = bool(table.x.isna().any(axis=None))
    return missing not in (REAL, NOTHING) or has_holes == (missing == REAL)


def keys(name: str, missing: str, seed: int, options: argparse.Namespace) -> Iterator[Key]:
    """What is to be measured on a task."""
    for method in options.only:
        if method in IMPUTERS:
            if missing not in (REAL, NOTHING):  # elsewhere no cell has a known value
                yield Key(name, missing, None, seed, method)
        # without holes, all imputers give the same rows
        elif not (missing == NOTHING and method.startswith("forest+")):
            yield from (Key(name, missing, labels, seed, method) for labels in options.labels)


def measured(bench: Bench, key: Key) -> Cell:
    """The cell of a key."""
    return bench.imputes(key.method) if key.labels is None else bench.classifies(key.method, key.labels)


def measure(results: Results, options: argparse.Namespace, console: Console) -> int:
    """Measure what the file lacks; return the number of measurements that failed."""
    failures = 0
    for seed in options.seeds:
        for name in options.names:
            table = read_table(name, options.data)
            for missing in options.missing:
                done = results.cells()
                wanted = [key for key in keys(name, missing, seed, options) if key not in done]
                if not wanted or not is_asked(table, missing):
                    continue
                hidden = 0.0 if missing == REAL else float(missing)
                bench = Bench(draw_task(table, missing=hidden, seed=seed))
                for key in wanted:
                    if key in results.cells():
                        continue
                    try:
                        cell = measured(bench, key)
                    except Exception:  # the next command tries again
                        failures += 1
                        console.print(f"{key} failed\n{traceback.format_exc()}", markup=False, highlight=False)
                    else:
                        results.add(key, cell)
                        console.print(f"{key} {json.dumps(cell)}", markup=False, highlight=False, soft_wrap=True)
    return failures


def parse(words: Sequence[str] | None) -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Return the parser and the options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tables",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="a folder with CSV files and a manifest.json")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the file of results")
    parser.add_argument("--names", nargs="+", metavar="NAME", help="tables; default: all")
    parser.add_argument("--only", nargs="+", choices=METHODS, metavar="METHOD", help=", ".join(METHODS))
    parser.add_argument("--seeds", type=parse_seeds, default=[0, 1, 2, 3, 4], help="0-4 (the default), or 0,3")
    parser.add_argument("--labels", type=int, nargs="+", default=[10, 50], metavar="N", help="per class; 10 50")
    parser.add_argument("--missing", type=share, nargs="+", default=["0.3", NOTHING, REAL], help="0.3 0 real")
    parser.add_argument("--tables", action="store_true", help="print the scores on each table too")
    parser.add_argument("--show", action="store_true", help="only print what the file has")
    options = parser.parse_args(words)
    options.names = options.names or table_names(options.data)
    options.only = options.only or list(METHODS)
    return parser, options


def main(words: Sequence[str] | None = None) -> None:
    """Measure what is missing, and print the summary; wrong input is one line and exit code 2."""
    parser, options = parse(words)
    failures = 0
    try:
        results = Results(options.out)
        if not options.show:
            failures = measure(results, options, Console(stderr=True))
        cells = {k: c for k, c in results.cells().items() if k.table in options.names and k.seed in options.seeds}
        conditions = [Condition(missing, labels) for missing in options.missing for labels in options.labels]
        print(summary(cells, conditions, methods=options.only, tables=options.tables))
    except InputError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    if failures:
        sys.exit(f"{failures} measurements failed")


if __name__ == "__main__":
    main()
