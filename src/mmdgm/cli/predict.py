"""`mmdgm predict`."""

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from mmdgm.cli.common import Device, Json, Run, Seed, err, out, report_files
from mmdgm.cli.filling import Rounds, way_to_impute
from mmdgm.cli.own import read_own_rows, refuse, warnings_as_lines
from mmdgm.data.image_files import files_in, read_images
from mmdgm.data.masks import Mask
from mmdgm.data.npz import read_values
from mmdgm.data.prepared import seen
from mmdgm.errors import InputError
from mmdgm.experiments import run_folder
from mmdgm.experiments.own_runs import OwnRun, load_own
from mmdgm.files import write_whole
from mmdgm.inference.evaluation import predict_scores
from mmdgm.inference.imputation import impute

Fill = Callable[[NDArray[Any], Mask], NDArray[Any]]
ARRAYS = (".npz", ".npy")  # read_values says how an npz file is made of the latter


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What is to be classified."""

    names: list[str]
    unit: NDArray[Any]  # (rows, channels, height, width) in [0, 1], NaN where missing
    skipped: int = 0


@dataclass(frozen=True, kw_only=True)
class Classified:
    """What came of it."""

    names: list[str]
    scores: NDArray[Any]  # (rows, classes)
    missing: NDArray[Any]  # values of each row that were
    class_names: list[str]
    score_names: list[str]
    skipped: int


def predict(
    run: Run,
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT", help="An npz file with an array x, image files, or a folder of them; or a CSV file."
        ),
    ],
    method: Annotated[
        str | None,
        typer.Option(
            help="For runs of presets: how missing values are imputed. mean: by their posterior mean; draw: by a "
            "sample, in about a fifth of the time [default: mean]."
        ),
    ] = None,
    rounds: Rounds = None,
    scale: Annotated[
        float | None,
        typer.Option(
            help="What an npz file's values are divided by to lie in [0, 1]. Default: as in the training data."
        ),
    ] = None,
    seed: Seed = 0,
    to: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="The CSV file. Default: INPUT-predictions.csv next to INPUT (of a folder: beside it, not in it); "
            "for image files predictions.csv in the current folder.",
        ),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Classify your own images or rows: a CSV file with prediction and scores of each, and a count per class.

    An npz file is as for `mmdgm impute`: missing values (NaN) are imputed first; its rows count from 0.
    Image files should look like the training data (light on black for digits); any size and mode is converted,
    transparent becomes black. A run of own data takes what it was trained on, in any of these forms; of a CSV file
    it takes the columns that it was trained on.

    Example: `mmdgm predict runs/demo/seed-0 scans/ --out digits.csv`
    """
    if (own := load_own(run, device=device)) is not None:
        theirs = {"--method": method, "--rounds": rounds, "--scale": scale, "--seed": seed}
        refuse(theirs, f"is for runs of presets; {run} is none")
        file = csv_file(inputs, to)
        classified = classify_own(own, inputs)
    else:
        way = way_to_impute(method or "mean", rounds)
        trained = run_folder.load_classifier(run, device=device)
        file = csv_file(inputs, to)
        fill = partial(impute, trained.model, seed=seed, **way)
        classified = classify(trained, read_rows(inputs, trained, scale), fill)
    predictions = classified.scores.argmax(1)
    write_whole(file, csv_content(classified, predictions))
    counts = {name: int((predictions == k).sum()) for k, name in enumerate(classified.class_names)}
    report_files(
        [file],
        as_json,
        rows=len(predictions),
        imputed_values=int(classified.missing.sum()),
        skipped=classified.skipped,
        predictions_per_class=counts,
    )
    if as_json:
        return
    table = Table("class", "rows", box=None)
    for name, count in counts.items():
        table.add_row(escape(name), f"{count:,}")
    if classified.skipped:
        table.add_row("skipped", f"{classified.skipped:,}")
    out.print(table)


def classify(trained: run_folder.TrainedRun, rows: Rows, fill: Fill) -> Classified:
    """A preset's model on images; complete ones take no part in filling."""
    missing = np.isnan(rows.unit)
    unit = seen(rows.unit, trained.config.data.preprocessing)
    holed = missing.any(axis=(1, 2, 3))
    if holed.any():
        unit = unit.copy()
        unit[holed] = fill(unit[holed], missing[holed])
    scores = predict_scores(trained.model, unit, scale=1)
    return Classified(
        names=rows.names,
        scores=scores,
        missing=missing.reshape(len(missing), -1).sum(1),
        class_names=list(trained.class_names),
        score_names=[f"score_{k}" for k in range(scores.shape[1])],
        skipped=rows.skipped,
    )


def classify_own(own: OwnRun, inputs: list[Path]) -> Classified:
    """An estimator on what it was trained on."""
    rows = read_own_rows(own, inputs)
    with warnings_as_lines():
        scores = own.scores(rows.x)
    return Classified(
        names=rows.names,
        scores=scores,
        missing=rows.missing.reshape(len(rows.x), -1).sum(1),
        class_names=own.classes,
        score_names=[f"score_{name}" for name in own.classes],
        skipped=rows.skipped,
    )


def csv_file(inputs: list[Path], to: Path | None) -> Path:
    """Where the CSV file goes: never over an input."""
    first = inputs[0] if inputs[0].name.strip(".") else inputs[0].resolve()  # . and .. have names, too
    if to is not None:
        file = to
    elif first.is_dir():
        file = first.parent / f"{first.name}-predictions.csv"
    elif is_array(first) or first.suffix.lower() == ".csv":
        file = first.with_name(f"{first.stem}-predictions.csv")
    else:
        file = Path("predictions.csv")
    if file.resolve() in [path.resolve() for path in inputs]:
        raise InputError(f"--out {file}: would write over an input; give another name")
    if file.suffix.lower() != ".csv" or file.is_dir():
        raise InputError(f"--out {file}: give a file name that ends in .csv")
    return file


def is_array(path: Path) -> bool:
    return path.suffix.lower() in ARRAYS


def read_rows(inputs: list[Path], trained: run_folder.TrainedRun, scale: float | None) -> Rows:
    """Read one npz file, image files, or one folder of them."""
    if len(inputs) > 1 and (odd := [path for path in inputs if path.is_dir() or is_array(path)]):
        raise InputError(f"{odd[0]} is not alone; give one npz file, one folder of image files, or image files")
    if is_array(inputs[0]) and not inputs[0].is_dir():
        unit = read_values(inputs[0], trained.shape, trained.scale if scale is None else scale).unit
        return Rows(names=[str(row) for row in range(len(unit))], unit=unit)
    if scale is not None:
        raise InputError(f"--scale {scale:g}: is for an npz file; image files are scaled to the training data")
    if absent := [path for path in inputs if not path.exists()]:
        raise InputError(f"{absent[0]} is missing")
    return read_image_rows(inputs, trained)


def read_image_rows(inputs: list[Path], trained: run_folder.TrainedRun) -> Rows:
    """Read image files, and name those that are skipped; within a folder they go by their names alone."""
    folder = inputs[0].is_dir()
    files = files_in(inputs[0]) if folder else inputs
    images = read_images(files, trained.shape, trained.scale)
    for line in images.broken:
        err.print(f"{line}; skipped", markup=False, highlight=False, soft_wrap=True)
    if not images.paths:
        raise InputError(f"{inputs[0]}: no image is left of {len(files)}; give files that open in an image viewer")
    names = [path.name if folder else str(path) for path in images.paths]
    return Rows(names=names, unit=images.unit, skipped=len(images.broken))


def csv_content(classified: Classified, predictions: NDArray[Any]) -> bytes:
    """A line for each row; scores with all their digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["input", "prediction", "missing", *classified.score_names])
    rows = zip(classified.names, predictions, classified.missing, classified.scores, strict=True)
    for name, k, count, scores in rows:
        writer.writerow([name, classified.class_names[k], count, *scores])
    return text.getvalue().encode(errors="surrogateescape")  # a file name need not be UTF-8
