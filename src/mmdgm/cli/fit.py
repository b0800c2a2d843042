"""The command `mmdgm fit`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from mmdgm.cli.common import Device, Json, Labels, Seed, err, out, path, print_json, say
from mmdgm.data.cost_files import read_costs
from mmdgm.data.labeled_files import read_data
from mmdgm.devices import pick_device
from mmdgm.errors import printable
from mmdgm.experiments.fit_runs import MODELS, FitOptions, check_fit, fit_run
from mmdgm.experiments.honest_estimate import add_estimate
from mmdgm.experiments.reports import training_rows, write_report
from mmdgm.experiments.run_folder import RunFolder, load


def fit(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="An npz file with arrays x and y, a table (CSV, TSV or Parquet), or a folder with one "
            "subfolder of images per class.",
        ),
    ],
    target: Annotated[str | None, typer.Option(help="Of a table: the column with the labels.")] = None,
    unlabeled: Annotated[
        str | None,
        typer.Option(
            metavar="MARK",
            help="What unlabeled rows have for a label. Default: -1 in an npz file, an empty cell in a table; of a "
            "folder, the subfolder unlabeled.",
        ),
    ] = None,
    labels: Labels = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="Of a folder of images: what they are resized to [default: 32x32]."),
    ] = None,
    model: Annotated[str, typer.Option(help=f"{' or '.join(MODELS)}: mmcva for few labels, mmva for many.")] = "mmcva",
    cost_matrix: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A CSV file of relative costs of errors: classes in the header and in the first column, a row per "
            "true class.",
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the rows. Default: by their number.")] = None,
    max_time: Annotated[
        float | None,
        typer.Option(min=1, help="Seconds after which training ends as it is. The estimate may take as long again."),
    ] = None,
    no_estimate: Annotated[
        bool,
        typer.Option("--no-estimate", help="Do not estimate the accuracy on new rows, which takes more trainings."),
    ] = False,
    run_dir: Annotated[
        Path | None, typer.Option(parser=path, help="The run's folder. Default: runs/DATA/seed-SEED.")
    ] = None,
    seed: Seed = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in RUN_DIR.")] = False,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Train a model on your own data, and write the model, figures and result.json to a run folder.

    When the model is saved, labeled rows are held out in turn and the same model is trained on the others. This
    estimates the accuracy on new rows. You can interrupt the estimate, and go on with it by --resume.

    Example: `mmdgm fit table.csv --target species --run-dir runs/species`
    """
    options = FitOptions(model=model, seed=seed, epochs=epochs, max_time=max_time, device=device)
    pick_device(device)
    name = data.resolve().name if data.is_dir() else data.stem
    folder = RunFolder(run_dir or Path("runs") / name / f"seed-{seed}")
    check_fit(folder, options, data, resume)
    own = read_data(data, target=target, unlabeled=unlabeled, size=size, labels=labels)
    say(own.notes)
    if cost_matrix is not None:
        options = replace(options, cost_matrix=read_costs(cost_matrix, own.classes))
    result = fit_run(own, folder, options, console=err, resume=resume)
    if not no_estimate:
        result = add_estimate(own, folder, options, console=err)
        write_report(folder, load(folder.path, device=device), training_rows(own.x))
    say([f"to look at: {folder.report}"])
    if as_json:
        print_json(result)
        return
    out.print(table_of(result["data"]))
    out.print(accuracy_line(result.get("estimate")), highlight=False, soft_wrap=True)
    out.print(f"training took {result['seconds']:.0f} seconds", highlight=False)
    out.print(str(folder.path), markup=False, highlight=False, soft_wrap=True)


def table_of(counts: dict[str, Any]) -> Table:
    """Return a table with the number of rows of each class."""
    table = Table("class", "labeled rows", box=None)
    for name, n in counts["labeled_per_class"].items():
        table.add_row(escape(printable(name)), f"{n:,}")
    table.add_row("unlabeled", f"{counts['unlabeled']:,}")
    if counts["skipped_files"]:
        table.add_row("skipped files", f"{counts['skipped_files']:,}")
    return table


def accuracy_line(estimate: dict[str, Any] | None) -> str:
    """Return a sentence on the accuracy on new rows."""
    if estimate is None:
        return "accuracy on new rows: not estimated"
    accuracy, low, high = (f"{100 * estimate[name]:.1f}" for name in ("accuracy", "low", "high"))
    folds, planned = estimate["folds"], estimate["planned_folds"]
    times = "once" if planned == 1 else f"in {planned} folds" if folds == planned else f"in {folds} of {planned} folds"
    rows = f"{estimate['labeled_rows']:,} labeled rows, held out {times}"
    return f"accuracy on new rows: about {accuracy} % (95 % interval {low} to {high} %; {rows})"
