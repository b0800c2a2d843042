"""`python -m benchmarks.faults`: all attacks, and a table of them. Exit code 1 if anything was lost or wrong."""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.faults import SURVIVED, damage, inputs, kills, paths, signals, threads

MODULES = (kills, damage, inputs, paths, signals, threads)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="fewer attacks, where there are many: 0.1")
    parser.add_argument("--only", choices=[module.__name__.rpartition(".")[2] for module in MODULES])
    options = parser.parse_args()
    torch.set_num_threads(1)  # processes are forked
    out, table, wrong = Console(), Table("fault", "tried", "survived", "lost or wrong", "seconds", box=None), 0
    for module in MODULES:
        if options.only and not module.__name__.endswith(options.only):
            continue
        began, outcomes, shown = time.monotonic(), Counter[bool](), Counter[str]()
        with tempfile.TemporaryDirectory() as folder:
            for description, outcome in module.attacks(Path(folder), options.share):
                outcomes[outcome == SURVIVED] += 1
                if outcome != SURVIVED and shown.update([outcome[:60]]) is None and shown[outcome[:60]] <= 3:
                    out.print(f"{module.FAULT}: {description}: {outcome}", markup=False, highlight=False)
        seconds = f"{time.monotonic() - began:.0f}"
        counts = [f"{n:,}" for n in (outcomes.total(), outcomes[True], outcomes[False])]
        table.add_row(module.FAULT, *counts, seconds)
        wrong += outcomes[False]
    out.print(table)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
