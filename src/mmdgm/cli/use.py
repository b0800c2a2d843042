"""Commands on a finished run: `mmdgm evaluate`, `sample` and `impute`."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from mmdgm.cli.common import (
    DataDir,
    Device,
    Json,
    Run,
    Seed,
    err,
    number,
    out,
    print_json,
    report_files,
)
from mmdgm.cli.filling import Rounds, way_to_impute
from mmdgm.cli.own import read_own_rows, refuse, warnings_as_lines
from mmdgm.data.csv_files import cell_text, csv_bytes, filled_rows
from mmdgm.data.npz import read_values, save_arrays
from mmdgm.data.prepared import seen, shown
from mmdgm.errors import InputError
from mmdgm.experiments import run_folder
from mmdgm.experiments.own_runs import OwnRun, is_own, load_own
from mmdgm.files import write_whole
from mmdgm.inference.imputation import impute as impute_values
from mmdgm.inference.sampling import sample_grid
from mmdgm.report import plots


def evaluate(
    run: Run,
    draws: Annotated[
        int,
        typer.Option(min=0, help="Draws of z for the importance-weighted log-likelihood, 100 or more; 0: none."),
    ] = 0,
    data_dir: DataDir = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Print a run's error and bound on the test set (and on its validation rows, if any).

    Figures called "binarised" are of Bernoulli draws of the grey values, the others of the values themselves.

    Example: `mmdgm evaluate runs/mmva --draws 100`
    """
    if is_own(run):
        raise InputError(f"{run} is a run of own data, without a test set; evaluate is not available for it")
    trained = run_folder.load_run(run, device=device)
    dataset, _ = run_folder.load_data(trained.config, data_dir)
    rows = run_folder.split_rows(dataset, trained.config, trained.seed)
    figures = run_folder.evaluate(trained.model, dataset, rows, draws=draws)
    if as_json:
        print_json(figures)
        return
    width = max(map(len, figures)) + 10
    for name, value in figures.items():
        words = name.replace("_percent", " %").replace("_", " ").replace("elbo", "bound (nats)")
        out.print(f"{words:{width}}{number(value)}", highlight=False)


def sample(
    run: Run,
    columns: Annotated[int, typer.Option(min=1, help="Images in a row of the grid.")] = 10,
    rows: Annotated[int, typer.Option(min=1, help="Rows; a conditional model always has one per class.")] = 10,
    seed: Seed = 0,
    to: Annotated[
        Path | None, typer.Option("--out", help="Files OUT.png and OUT.npz, or OUT.csv. Default: in RUN/samples.")
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Generate images: a PNG grid and an npz file with x (as the model sees them), z and, if conditional, y.

    A conditional model gives one row per class and one style (code z) per column. A run of own data gives x, and y
    if conditional, as they were in training: of a CSV file's run a CSV file, of other tables an npz file alone.

    Example: `mmdgm sample runs/demo/seed-0 --columns 8 --seed 1`
    """
    if (own := load_own(run, device=device)) is not None:
        sample_own(own, columns=columns, rows=rows, seed=seed, to=to, as_json=as_json)
        return
    trained = run_folder.load_run(run, device=device)
    if not trained.model.generates:
        raise InputError(f"{run}: its model was trained without the generative part, so it has no samples")
    grid = sample_grid(trained.model, columns=columns, rows=rows, seed=seed)
    png, npz = picture_and_arrays(to or run / "samples")
    plots.save_grid(png, shown(grid["x"], trained.config.data.preprocessing))
    save_arrays(npz, grid)
    report_files([png, npz], as_json)


def impute(
    run: Run,
    data: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT",
            help="npz file with an array x in which NaN is missing; or a CSV file with empty cells.",
        ),
    ],
    rounds: Rounds = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="For runs of presets: draw: the last round of the iterative inference, a sample; mean: the "
            "posterior mean, the best guess in squared error, in about five times the time [default: draw]."
        ),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option(help="What the values are divided by to lie in [0, 1]. Default: as in the training data."),
    ] = None,
    seed: Seed = 0,
    to: Annotated[
        Path | None, typer.Option("--out", help="Files OUT.png and OUT.npz, or OUT.csv. Default: INPUT-imputed.")
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Fill missing values: an npz file with x and missing, and a picture of images before and after.

    INPUT holds x: (rows, H, W), (rows, channels, H, W) or (rows, values); observed values come back untouched.
    A run of own data takes x as in training; or, trained on a CSV file, such a file, and fills its empty cells
    (labels stay).

    Example: `mmdgm impute runs/demo/seed-0 holes.npz --out filled`
    """
    if (own := load_own(run, device=device)) is not None:
        theirs = {"--scale": scale, "--seed": seed, "--method": method}
        refuse(theirs, f"is for runs of presets; {run} is none")
        impute_own(own, data, rounds=rounds or 100, to=to, as_json=as_json)
        return
    way = way_to_impute(method or "draw", rounds)
    trained = run_folder.load_run(run, device=device)
    values = read_values(data, trained.shape, trained.scale if scale is None else scale)
    png, npz = picture_and_arrays(to or data.with_name(f"{data.stem}-imputed"))
    if npz.resolve() == data.resolve():
        raise InputError(f"--out {to}: would write over the input; give another name")
    missing = np.isnan(values.unit)
    if not missing.any():
        err.print(f"{data}: nothing is missing (NaN marks what is)", markup=False, highlight=False)
    unit = seen(values.unit, trained.config.data.preprocessing)
    filled = impute_values(trained.model, unit, missing, seed=seed, **way)
    save_arrays(npz, {"x": values.restore(filled), "missing": missing.reshape(values.original.shape)})
    plots.save_grid(png, before_after(values.unit, filled if missing.any() else values.unit))
    report_files([png, npz], as_json, filled_values=int(missing.sum()))


def sample_own(own: OwnRun, *, columns: int, rows: int, seed: int, to: Path | None, as_json: bool) -> None:
    """Samples of a run of own data, as its data were."""
    place = to or own.path / "samples"
    x, y = own.sample(columns=columns, rows=rows, seed=seed)
    if own.columns is not None:
        file = with_ending(place, ".csv")
        header = own.columns if y is None else [*own.columns, own.target]
        labels = [[]] * len(x) if y is None else [[str(label)] for label in y.tolist()]
        cells = [[*map(cell_text, row), *label] for row, label in zip(x, labels, strict=True)]
        write_whole(file, csv_bytes(header, cells))
        report_files([file], as_json)
        return
    png, npz = picture_and_arrays(place)
    if own.images is not None:
        plots.save_grid(png, own.grid(x, columns=columns))
    save_arrays(npz, {"x": x} if y is None else {"x": x, "y": y})
    report_files([png, npz] if own.images is not None else [npz], as_json)


def impute_own(own: OwnRun, data: Path, *, rounds: int, to: Path | None, as_json: bool) -> None:
    """Fill what is missing in an npz or CSV file for a run of own data."""
    if data.is_dir() or data.suffix.lower() not in (".npz", ".npy", ".csv"):
        raise InputError(f"{data}: give an npz file in which NaN is missing, or a CSV file with empty cells")
    place = to or data.with_name(f"{data.stem}-imputed")
    rows = read_own_rows(own, [data])
    png, npz = picture_and_arrays(place) if rows.sheet is None else (place, with_ending(place, ".csv"))
    if npz.resolve() == data.resolve():
        raise InputError(f"--out {to}: would write over the input; give another name")
    missing = rows.missing
    if not missing.any():
        err.print(f"{data}: nothing is missing", markup=False, highlight=False, soft_wrap=True)
    with warnings_as_lines():
        filled = own.estimator.impute(rows.x, n_iter=rounds)
    files = [npz]
    if rows.sheet is not None and own.columns is not None:
        write_whole(npz, csv_bytes(rows.sheet.header, filled_rows(rows.sheet, own.columns, filled, missing)))
    else:
        save_arrays(npz, {"x": filled, "missing": missing})
    if own.images is not None:
        plots.save_grid(png, before_after(own.unit(rows.x), own.unit(filled)))
        files = [png, npz]
    report_files(files, as_json, filled_values=int(missing.sum()))


def with_ending(out: Path, ending: str) -> Path:
    """OUT with an ending, whether it was given with it or without."""
    file = out if out.suffix.lower() == ending else out.with_name(f"{out.name}{ending}")
    if file.is_dir() or out.is_dir():
        raise InputError(f"--out {out}: give a file name")
    return file


def picture_and_arrays(out: Path) -> tuple[Path, Path]:
    """OUT.png and OUT.npz, whether OUT was given with one of these endings or without."""
    stem = out.stem if out.suffix in (".png", ".npz") else out.name
    if not stem or out.is_dir():
        raise InputError(f"--out {out}: give a file name, without ending")
    return out.with_name(f"{stem}.png"), out.with_name(f"{stem}.npz")


def before_after(before: NDArray[Any], after: NDArray[Any]) -> NDArray[Any]:
    """Up to 64 images in pairs of lines of 16: before (NaN: missing) above after."""
    n = min(len(before), 64)
    columns = min(n, 16)
    lines = -(-n // columns)
    padded = np.zeros((2, lines * columns, *before.shape[1:]), np.float32)
    padded[0, :n], padded[1, :n] = before[:n], after[:n]
    pairs = padded.reshape(2, lines, columns, *before.shape[1:]).swapaxes(0, 1)
    return pairs.reshape(2 * lines, columns, *before.shape[1:])
