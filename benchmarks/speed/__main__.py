"""`python -m benchmarks.speed`: the benchmark as tables, or as JSON."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.speed.suite import Bench, Report
from mmdgm.errors import InputError


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and print what was found; a wrong device is one line and exit code 2."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed",
        description="Measure speed on this machine: training, prediction, imputation, sampling; ratios to a naive "
        "step and to other libraries, where they are installed (benchmarks/peers). A ratio above 1: we are faster.",
        epilog="Example: python -m benchmarks.speed --quick --json",
    )
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: under 3 minutes on 2 cores")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--data-dir", type=Path, help="where MNIST may lie; default: as for mmdgm")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    options = parser.parse_args(words)
    out, err = Console(width=None if sys.stdout.isatty() else 160), Console(stderr=True)
    try:
        bench = Bench(
            device=options.device,
            quick=options.quick,
            data_dir=options.data_dir,
            say=lambda title: err.print(f"{title} …", highlight=False),
        )
    except InputError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    report = bench.run()
    if options.json:
        print(json.dumps(vars(report), indent=2, ensure_ascii=False))
    else:
        show(report, out)


def show(report: Report, out: Console) -> None:
    """A report as two tables."""
    table = Table("measured", "value", "unit", box=None)
    for name, entry in report.measurements.items():
        table.add_row(name, f"{entry['value']:,}", str(entry["unit"]))
    out.print(table)
    table = Table("ratio (above 1: we are faster)", "", box=None)
    for name, ratio in report.ratios.items():
        table.add_row(name, f"{ratio:.2f}")
    out.print(table)


if __name__ == "__main__":
    main()
