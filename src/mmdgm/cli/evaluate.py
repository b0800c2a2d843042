"""The command `mmdgm evaluate`."""

from pathlib import Path
from typing import Annotated

import typer

from mmdgm.cli.common import DataDir, Device, Json, Run, number, out, print_json, warnings_as_lines
from mmdgm.experiments.evaluation import evaluate as evaluate_rows
from mmdgm.experiments.evaluation import labeled_rows
from mmdgm.experiments.run_folder import load


def evaluate(
    run: Run,
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATA",
            help="Labeled rows, as for `mmdgm fit`. Default: the test rows of a preset's data set.",
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Of a table: the column with the labels. Default: as in training.")
    ] = None,
    draws: Annotated[
        int,
        typer.Option(min=0, help="Draws of z for the importance-weighted log-likelihood, 100 or more; 0: none."),
    ] = 0,
    data_dir: DataDir = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Print a run's error and bound on labeled rows, or on its test set (and validation rows, if any).

    Figures called "binarised" use Bernoulli draws of the grey values; the others use the values themselves.

    Example: `mmdgm evaluate runs/mmva --draws 100`
    """
    estimator = load(run, device=device)
    figures: dict[str, float | None] = {}
    with warnings_as_lines():
        for prefix, X, y in labeled_rows(run, estimator, data, target=target, data_dir=data_dir):
            found = evaluate_rows(estimator, X, y, draws=0 if prefix else draws)
            figures |= {f"{prefix}{name}": value for name, value in found.items()}
    if as_json:
        print_json(figures)
        return
    width = max(map(len, figures)) + 10
    for name, value in figures.items():
        words = name.replace("_percent", " %").replace("_", " ").replace("elbo", "bound (nats)")
        out.print(f"{words:{width}}{number(value)}", highlight=False)
