"""`mmdgm bench`."""

from typing import Annotated

import typer
from rich.table import Table

from mmdgm.cli.common import DataDir, Device, Json, err, out, print_json


def bench(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions: under 3 minutes on 2 cores.")] = False,
    data_dir: DataDir = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measure speed on this machine: training, prediction, imputation, sampling; ratios to a naive step and peers.

    A ratio above 1 means that we are faster. `benchmarks/peers` says how to install the peers.

    Example: `mmdgm bench --quick --json`
    """
    from mmdgm.bench.suite import Bench  # it brings what no other command needs

    report = Bench(
        device=device, quick=quick, data_dir=data_dir, say=lambda title: err.print(f"{title} …", highlight=False)
    ).run()
    if as_json:
        print_json(vars(report))
        return
    table = Table("measured", "value", "unit", box=None)
    for name, entry in report.measurements.items():
        table.add_row(name, f"{entry['value']:,}", str(entry["unit"]))
    out.print(table)
    table = Table("ratio (above 1: we are faster)", "", box=None)
    for name, ratio in report.ratios.items():
        table.add_row(name, f"{ratio:.2f}")
    out.print(table)
