"""How often intervals from draws of `impute` cover the true values of hidden cells.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.coverage_of_draws --data FOLDER --out FILE

FOLDER and tables are those of `benchmarks.tables`; 30 % of the cells of training and test rows are hidden at random.
An interval reaches from the 5 % to the 95 % quantile of a number of draws. A table's coverage is the mean over its
columns of numbers of the share of hidden test cells whose value lies in the interval. Tables without such a column
are left out. The draws are those of the estimators' `Filler`, which does not depend on labels.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.tables.cells import Cell, Key, Results
from benchmarks.tables.tasks import Task, draw_task, read_table, table_names
from mmdgm.cli.train import parse_seeds
from mmdgm.data.codecs import TableCodec
from mmdgm.devices import Machine, make_fabric
from mmdgm.errors import InputError
from mmdgm.inference.filling import draw_by
from mmdgm.training.filling import train_filler

DRAWS = (20, 100)
MISSING = "0.3"


def covered(task: Task) -> Cell | None:
    """The coverage of a task's hidden cells by numbers of draws; None without a column of numbers."""
    codec = TableCodec.learn(task.x, list(task.x.columns))
    columns = codec.table.columns
    numbers = [j for j, column in enumerate(columns) if column.kind == "number" and task.hidden_test[:, j].any()]
    if not numbers:
        return None
    fabric = make_fabric(Machine("cpu"), precision="32-true")
    filler = train_filler(codec.encode(task.x)[:, :, 0, 0], columns, seed=task.seed, fabric=fabric)
    x, hidden = codec.encode(task.x_test), task.hidden_test[:, numbers]
    truth = task.complete_test.iloc[:, numbers].to_numpy(float)
    draws = np.stack([codec.decode(draw_by(filler, x, seed=i))[:, numbers].astype(float) for i in range(max(DRAWS))])
    cell = Cell()
    for n in DRAWS:
        low, high = np.quantile(draws[:n], [0.05, 0.95], axis=0)
        rounding = 1e-6 * np.abs(truth)
        inside = (truth >= low - rounding) & (truth <= high + rounding)
        shares = [inside[cells, j].mean() for j, cells in enumerate(hidden.T)]
        cell[f"covered_by_{n}"] = round(float(np.mean(shares)), 4)
    return cell


def main(words: Sequence[str] | None = None) -> None:
    """Measure what the file lacks, and print the means; wrong input is one line and exit code 2."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.coverage_of_draws",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="a folder with CSV files and a manifest.json")
    parser.add_argument("--out", type=Path, metavar="FILE", required=True, help="the file of results")
    parser.add_argument("--names", nargs="+", metavar="NAME", help="tables; default: all")
    parser.add_argument("--seeds", type=parse_seeds, default=[0], help="0 (the default), 0-4, or 0,3")
    options = parser.parse_args(words)
    try:
        results = Results(options.out)
        for seed in options.seeds:
            for name in options.names or table_names(options.data):
                key = Key(name, MISSING, None, seed, "mmdgm")
                if key in results.cells():
                    continue
                task = draw_task(read_table(name, options.data), missing=float(MISSING), seed=seed)
                if (cell := covered(task)) is not None:
                    results.add(key, cell)
                    print(key, json.dumps(cell), file=sys.stderr, flush=True)
        cells = list(results.cells().values())
    except InputError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    for n in DRAWS:
        mean = np.mean([cell[f"covered_by_{n}"] for cell in cells])
        print(f"{n} draws: {100 * mean:.1f} % covered, {len(cells)} tasks")


if __name__ == "__main__":
    main()
