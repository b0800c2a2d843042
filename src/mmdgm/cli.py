"""The command `mmdgm`: results on standard output, progress on standard error, exit code 2 for bad input."""

import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import mmdgm
from mmdgm import datasets, experiments, plots, runs
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.imputation import impute as impute_values
from mmdgm.own_data import read_values, save_arrays
from mmdgm.presets import PRESETS, config_from_json, find_preset
from mmdgm.ranks import is_first
from mmdgm.sampling import sample_grid
from mmdgm.settings import override, settings_of

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
)
# tables in a pipe or a file need not fit a window
out, err = Console(width=None if sys.stdout.isatty() else 160), Console(stderr=True)
INTERRUPTED = 130
LARGEST_SEED = 2**32 - 1

Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Where the data sets lie. Default: $MMDGM_DATA, or mmdgm in the user's cache folder."),
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of the random draws.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(mmdgm.__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Max-margin deep generative models: classify with few labels, impute, and generate, with one model."""


def main() -> None:
    """Run the command line; known errors end with one line instead of a traceback."""
    try:
        code = app(sys.argv[1:] or ["--help"], prog_name="mmdgm", standalone_mode=False)
    except InputError as error:
        _fail(error, 2)
    except TrainingStopped as error:
        _fail(error, 1)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if not hasattr(error, "format_message"):  # what Typer raises for a wrong option or argument
            raise
        _fail(f"{error.format_message()} (see --help)", 2)
    if code == INTERRUPTED:
        _fail("interrupted", INTERRUPTED)
    sys.exit(code or 0)


def _fail(message: object, code: int) -> NoReturn:
    if is_first():
        err.print(f"mmdgm: {message}", style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


@app.command("list")
def list_(
    preset: Annotated[str | None, typer.Argument(help="Show this preset's settings.")] = None,
    as_json: Json = False,
) -> None:
    """Show the presets, or the settings of one.

    Example: `mmdgm list mnist-mmva`
    """
    if preset is None:
        rows = [
            {
                "preset": p.name,
                "dataset": p.config.data.dataset,
                "labels": p.config.data.labels,
                "model": p.model_name,
                "paper": p.paper,
                "time": p.time,
            }
            for p in PRESETS
        ]
        if as_json:
            _print_json(rows)
            return
        table = Table(
            "preset",
            "data set",
            "labels",
            "model",
            "the paper's figure",
            "on one H200; on 2 CPU cores",
            box=None,
        )
        for row in rows:
            cells = {**row, "labels": row["labels"] or "all"}
            table.add_row(*(str(cell) for cell in cells.values()))
        out.print(table)
        return
    settings = settings_of(find_preset(preset).config)
    if as_json:
        _print_json({key: s.value for key, s in settings.items()})
        return
    table = Table("setting", "value", "takes", "what it is", box=None)
    for key, s in settings.items():
        value = ",".join(map(str, s.value)) if isinstance(s.value, tuple) else str(s.value).lower()
        table.add_row(key, value, s.allowed, s.help)
    out.print(table)


@app.command()
def train(
    preset: Annotated[str, typer.Argument(help="Which experiment; `mmdgm list` shows all.")],
    run_dir: Annotated[Path | None, typer.Option(help="The run's folder. Default: runs/PRESET/seed-SEED.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=LARGEST_SEED, help="Seed of weights, labeled rows and noise [default: 0]."),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Several seeds in one process: 0-9, or 0,3,5; run folders seed-0, seed-3, … in RUN_DIR."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in RUN_DIR.")] = False,
    data_dir: DataDir = None,
    device: Device = "auto",
    devices: Annotated[
        int | None, typer.Option(min=1, help="Devices per machine: GPUs, or CPU processes [default: 1].")
    ] = None,
    num_nodes: Annotated[
        int | None,
        typer.Option(min=1, help="Machines; start the command on each, with NODE_RANK and MASTER_ADDR set."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a preset, and leave model, figures and result.json in a run folder.

    Example: `mmdgm train mnist-mmva --run-dir runs/mmva --set epochs=10 --set pretrain_epochs=0`
    """
    if seed is not None and seeds is not None:
        raise InputError("give --seed for one run or --seeds for several, not both")
    chosen = find_preset(preset).config
    if seeds is None:
        seed = seed or 0
        pairs = [(seed, runs.RunFolder(run_dir or Path("runs") / preset / f"seed-{seed}"))]
    else:
        parent = run_dir or Path("runs") / preset
        pairs = [(s, runs.RunFolder(parent / f"seed-{s}")) for s in parse_seeds(seeds)]
    config, overrides = override(chosen, set_ or [])
    if resume and not set_ and (begun := [folder for _, folder in pairs if folder.config.exists()]):
        saved = runs.read_run_config(begun[0])
        config, overrides = config_from_json(saved["config"]), saved["overrides"]
        if config.preset != preset:
            raise InputError(f"{begun[0].path} holds a run of {config.preset}, not of {preset}")
    results = experiments.train_runs(
        config,
        pairs,
        overrides=overrides,
        console=err,
        data_dir=data_dir,
        device=device,
        devices=devices,
        num_nodes=num_nodes,
        resume=resume,
    )
    if not is_first():
        return
    if as_json:
        _print_json(results if seeds is not None else results[0])
        return
    table = Table("seed", "test error %", "bound (nats)", "seconds", "run", box=None)
    for (s, folder), result in zip(pairs, results, strict=True):
        table.add_row(
            str(s),
            _number(result["error_percent"]),
            _number(result["elbo"]),
            f"{result['seconds']:.0f}",
            escape(str(folder.path)),
        )
    errors = [result["error_percent"] for result in results]
    if len(results) > 1 and None not in errors:
        spread = f"{np.mean(errors):.2f} ± {np.std(errors, ddof=1):.2f}"
        table.add_row("mean", spread, _number(float(np.mean([result["elbo"] for result in results]))), "", "")
    out.print(table)


@app.command()
def evaluate(run: Run, data_dir: DataDir = None, device: Device = "auto", as_json: Json = False) -> None:
    """Print a run's error and bound on the test set (and on its validation rows, if any).

    Example: `mmdgm evaluate runs/mmva`
    """
    trained = runs.load_run(run, device=device)
    dataset = datasets.load(trained.config.data.dataset, data_dir)
    rows = runs.split_rows(dataset, trained.config, trained.seed)
    figures = runs.evaluate(trained.model, dataset, rows)
    if as_json:
        _print_json(figures)
        return
    for name, value in figures.items():
        words = name.replace("_percent", " %").replace("_", " ").replace("elbo", "bound (nats)")
        out.print(f"{words:24}{_number(value)}", highlight=False)


@app.command()
def sample(
    run: Run,
    columns: Annotated[int, typer.Option(min=1, help="Images in a row of the grid.")] = 10,
    rows: Annotated[int, typer.Option(min=1, help="Rows; a conditional model always has one per class.")] = 10,
    seed: Seed = 0,
    to: Annotated[
        Path | None, typer.Option("--out", help="Files OUT.png and OUT.npz. Default: in RUN/samples.")
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Generate images: a PNG grid and an npz file with x in [0, 1], z and, for a conditional model, y.

    A conditional model gives one row per class and one style (code z) per column.

    Example: `mmdgm sample runs/demo/seed-0 --columns 8 --seed 1`
    """
    trained = runs.load_run(run, device=device)
    grid = sample_grid(trained.model, columns=columns, rows=rows, seed=seed)
    png, npz = picture_and_arrays(to or run / "samples")
    plots.save_grid(png, grid["x"])
    save_arrays(npz, grid)
    _report_files([png, npz], as_json)


@app.command()
def impute(
    run: Run,
    data: Annotated[
        Path, typer.Argument(metavar="INPUT", help="npz file with an array x in which NaN is missing.")
    ],
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the iterative inference.")] = 100,
    scale: Annotated[
        float | None,
        typer.Option(help="What the values are divided by to lie in [0, 1]. Default: as in the training data."),
    ] = None,
    seed: Seed = 0,
    to: Annotated[
        Path | None, typer.Option("--out", help="Files OUT.png and OUT.npz. Default: INPUT-imputed.")
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Fill missing values: an npz file with x and missing, and a picture of images before and after.

    INPUT holds x: (rows, H, W), (rows, channels, H, W) or (rows, values); observed values come back untouched.

    Example: `mmdgm impute runs/demo/seed-0 holes.npz --out filled`
    """
    trained = runs.load_run(run, device=device)
    divisor = trained.scale if scale is None else scale
    if not 0 < divisor < float("inf"):
        raise InputError(f"--scale {scale}: give a number above 0")
    values = read_values(data, trained.shape, divisor)
    png, npz = picture_and_arrays(to or data.with_name(f"{data.stem}-imputed"))
    if npz.resolve() == data.resolve():
        raise InputError(f"--out {to}: would write over the input; give another name")
    missing = np.isnan(values.unit)
    if not missing.any():
        err.print(f"{data}: nothing is missing (NaN marks what is)", markup=False, highlight=False)
    filled = impute_values(trained.model, values.unit, missing, rounds=rounds, seed=seed)
    save_arrays(npz, {"x": values.restore(filled), "missing": missing.reshape(values.original.shape)})
    plots.save_grid(png, before_after(values.unit, filled))
    _report_files([png, npz], as_json, filled_values=int(missing.sum()))


@app.command()
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
        _print_json(vars(report))
        return
    table = Table("measured", "value", "unit", box=None)
    for name, entry in report.measurements.items():
        table.add_row(name, f"{entry['value']:,}", str(entry["unit"]))
    out.print(table)
    table = Table("ratio (above 1: we are faster)", "", box=None)
    for name, ratio in report.ratios.items():
        table.add_row(name, f"{ratio:.2f}")
    out.print(table)


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


def parse_seeds(text: str) -> list[int]:
    """Seeds from `0-9`, `0,3,5` or `4`."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        first, last = match.groups() if match else ("1", "0")
        new = range(int(first), min(int(last or first), LARGEST_SEED) + 1)
        if not 0 < len(new) <= 1000 or set(new) & set(seeds):
            raise InputError(f"--seeds {text}: give different whole numbers, as in 0-9 or 0,3,5 (at most 1000)")
        seeds += new
    return seeds


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _report_files(files: list[Path], as_json: bool, **more: Any) -> None:
    if as_json:
        _print_json({"files": [str(file) for file in files], **more})
        return
    for file in files:
        out.print(str(file), markup=False, highlight=False, soft_wrap=True)
