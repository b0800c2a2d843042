"""The command `mmdgm suggest`."""

import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from scipy.stats import beta

from mmdgm.cli.common import Json, Labels, Seed, out, report_files, say, with_ending
from mmdgm.data.codecs import ImageCodec
from mmdgm.data.label_files import label_file
from mmdgm.data.labeled_files import LabeledData, read_data
from mmdgm.data.labels import is_unlabeled
from mmdgm.data.table_files import read_sheet
from mmdgm.estimators.suggestions import suggestions
from mmdgm.files import write_whole
from mmdgm.report.figures import as_pictures
from mmdgm.report.plots import save_contact_sheet

SHOWN = 200  # images in the picture
ENOUGH, CONFIDENCE = 0.1, 0.9  # labels are enough if the share of errors is probably below ENOUGH


def suggest(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="An npz file with an array x, a table, or a folder of images; labels are not needed.",
        ),
    ],
    n: Annotated[int, typer.Option("-n", min=1, help="How many rows to suggest.")] = 20,
    labels: Labels = None,
    target: Annotated[str | None, typer.Option(help="Of a table: the column with labels, if it has one.")] = None,
    unlabeled: Annotated[
        str | None, typer.Option(metavar="MARK", help="What unlabeled rows have for a label, as in `mmdgm fit`.")
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="Of a folder of images: what they are resized to [default: 32x32]."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--out", help="The CSV file. Default: LABELS, or DATA-labels.csv.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Choose the rows whose labels say most about the others, and write a CSV file to fill in.

    The most useful row comes first, so you can stop anywhere. Write the classes into the column `label`, then repeat
    the command with --labels for more rows, or train with `mmdgm fit DATA --labels FILE`. Of images, a picture of the
    suggested ones is written beside the CSV file.

    Example: `mmdgm suggest scans/ -n 30`
    """
    own = read_data(data, target=target, unlabeled=unlabeled, size=size, labels=labels, any_labels=True)
    name = data.resolve().name if data.is_dir() else data.stem
    file = with_ending(to or labels or data.resolve().parent / f"{name}-labels.csv", ".csv")
    say(own.notes)
    known = ~is_unlabeled(own.y, own.unlabeled)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the important warnings are in the notes
        found = suggestions(own.x, n, own.y, unlabeled=own.unlabeled, random_state=seed)
    rows = found.rows.tolist()
    given = {int(row): str(own.y[row]) for row in np.flatnonzero(known)}
    write_whole(file, label_file(given, rows, own.files, columns_of(own)))
    files = [file]
    if own.x.ndim > 2:
        files.append(file.with_suffix(".png"))
        save_images(files[-1], own, rows[:SHOWN])
    report_files(files, as_json, rows=rows, labeled=len(given), tested=found.tested, errors=found.errors)
    if not as_json:
        out.print(advice(found.errors, found.tested, len(given)), highlight=False, soft_wrap=True)


def columns_of(data: LabeledData) -> dict[str, list[str]]:
    """Return the columns of a table, to show them beside the labels."""
    if data.columns is None:
        return {}
    sheet = read_sheet(data.path)
    return {name: sheet.column(name) for name in data.columns}


def save_images(path: Path, data: LabeledData, rows: list[int]) -> None:
    """Save a picture of the images, each under its place in the order and its row."""
    codec = ImageCodec.learn(data.x)
    pictures = as_pictures(codec, data.x[rows][None])[0]
    save_contact_sheet(path, pictures, [f"{place}. row {row}" for place, row in enumerate(rows, 1)])


def advice(errors: int, tested: int, labeled: int) -> str:
    """Return a sentence on how well the labels so far predict each other."""
    if tested < 2:
        return f"{labeled} rows are labeled: fill in the column label, then repeat the command with --labels"
    largest = beta.ppf(CONFIDENCE, errors + 1, tested - errors) if errors < tested else 1.0
    said = f"{errors} of {tested} labels are predicted wrongly from the other labels"
    if largest > ENOUGH:
        return (
            f"{said}, which may mean {100 * largest:.0f} % of all rows: more labels can help. Suggested rows are "
            f"harder than most, so the share of all rows is probably smaller"
        )
    return f"{said}, at most {100 * largest:.0f} % of all rows: further labels will help little"
