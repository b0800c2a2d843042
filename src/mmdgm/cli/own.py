"""Own data on the command line: what `train --data` does, and how a run of it reads its input."""

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from mmdgm.cli.common import Json, err, number, out, print_json
from mmdgm.data.codecs import ImageCodec, missing_entries
from mmdgm.data.csv_files import Sheet, read_sheet, values
from mmdgm.data.image_files import WHITE, files_in, read_images
from mmdgm.devices import pick_device
from mmdgm.errors import InputError
from mmdgm.experiments import own_runs
from mmdgm.experiments.own_runs import OwnData, OwnRun
from mmdgm.experiments.run_folder import RunFolder

SIZE = (32, 32)
LARGEST_SIDE = 512


@dataclass(frozen=True, kw_only=True)
class OwnRows:
    """Rows for a run of own data."""

    names: list[str]
    x: NDArray[Any]
    sheet: Sheet | None = None  # that they are from
    skipped: int = 0

    @property
    def missing(self) -> NDArray[np.bool_]:
        return missing_entries(self.x)


def refuse(options: Mapping[str, object], why: str) -> None:
    """One line on the first option that was given and has no place here."""
    for name, value in options.items():
        if value not in (None, False, [], 0):
            raise InputError(f"{name} {why}")


def train_on(
    path: Path,
    *,
    run_dir: Path | None,
    model: str,
    target: str | None,
    unlabeled: str | None,
    size: str | None,
    seed: int,
    epochs: int | None,
    max_time: float | None,
    device: str,
    as_json: Json,
) -> None:
    """Train on a user's data and tell what came of it."""
    if model not in own_runs.MODELS:
        raise InputError(f"--model {model}: use {' or '.join(own_runs.MODELS)}")
    pick_device(device)
    name = path.resolve().name if path.is_dir() else path.stem
    folder = RunFolder(run_dir or Path("runs") / name / f"seed-{seed}")
    own_runs.check_new(folder)
    data = read_data(path, target=target, unlabeled=unlabeled, size=size)
    say(data.notes)
    result = own_runs.train_own(
        data, folder, model=model, seed=seed, epochs=epochs, max_time=max_time, device=device
    )
    if as_json:
        print_json(result)
        return
    counts = result["data"]
    table = Table("class", "labeled rows", box=None)
    for name, n in counts["labeled_per_class"].items():
        table.add_row(escape(name), f"{n:,}")
    table.add_row("unlabeled", f"{counts['unlabeled']:,}")
    if data.skipped:
        table.add_row("skipped files", f"{data.skipped:,}")
    out.print(table)
    right = number(100 * result["training_accuracy_on_labeled_rows"])
    out.print(f"accuracy on the labeled rows it was trained on: {right} %, after {result['seconds']:.0f} seconds")
    out.print(str(folder.path), markup=False, highlight=False, soft_wrap=True)


def read_data(path: Path, *, target: str | None, unlabeled: str | None, size: str | None) -> OwnData:
    """Read an npz file, a folder of images or a CSV file to train on."""
    if not path.exists():
        raise InputError(f"{path} is missing")
    ending = path.suffix.lower()
    if not path.is_dir() and ending not in (".npz", ".csv"):
        raise InputError(f"--data {path}: give an npz file, a folder of images or a CSV file")
    if path.is_dir() or ending != ".csv":
        refuse({"--target": target}, "is for a CSV file")
    if path.is_dir():
        return own_runs.read_image_data(path, unlabeled, SIZE if size is None else parse_size(size))
    refuse({"--size": size}, "is for a folder of images")
    if ending == ".csv":
        return own_runs.read_csv_data(path, unlabeled, target)
    return own_runs.read_npz_data(path, unlabeled)


def parse_size(text: str) -> tuple[int, int]:
    """Height and width from `32x48`."""
    match = re.fullmatch(r"(\d{1,4})[x×](\d{1,4})", text.strip().lower())
    height, width = map(int, match.groups()) if match else (0, 0)
    if not (1 <= height <= LARGEST_SIDE and 1 <= width <= LARGEST_SIDE):
        raise InputError(f"--size {text}: give height and width up to {LARGEST_SIDE}, as in 32x32")
    return height, width


def read_own_rows(own: OwnRun, inputs: list[Path]) -> OwnRows:
    """Read one npz file, one CSV file, one folder of image files, or image files, as the run takes them."""
    if absent := [path for path in inputs if not path.exists()]:
        raise InputError(f"{absent[0]} is missing")
    alone = [path for path in inputs if path.is_dir() or path.suffix.lower() in (".npz", ".npy", ".csv")]
    if len(inputs) > 1 and alone:
        raise InputError(f"{alone[0]} is not alone; give one npz or CSV file, one folder, or image files")
    path = inputs[0]
    if not path.is_dir() and path.suffix.lower() in (".npz", ".npy"):
        return read_array_rows(own, path)
    if not path.is_dir() and path.suffix.lower() == ".csv":
        return read_sheet_rows(own, path)
    if own.images is None:
        raise InputError(f"{path}: {own.path} was trained on a table; give an npz or CSV file")
    return read_image_rows(own.images, inputs)


def read_array_rows(own: OwnRun, path: Path) -> OwnRows:
    """Rows of an npz file, named by their numbers."""
    x = own_runs.read_x(path)
    size = (len(own.numeric),) if own.images is None else own.images.size
    if x.shape[1:] != size:
        wanted = ", ".join(map(str, ("rows", *size)))
        raise InputError(f"{path}: x has the shape {x.shape}, but {own.path} takes ({wanted})")
    if not all(own.numeric):
        raise InputError(f"{path}: {own.path} was trained on columns with categories; give a CSV file")
    return OwnRows(names=[str(row) for row in range(len(x))], x=x)


def read_sheet_rows(own: OwnRun, path: Path) -> OwnRows:
    """Rows of a CSV file: the columns that the run was trained on, found by their names."""
    if own.columns is None:
        raise InputError(f"{path}: {own.path} was not trained on a CSV file; give an npz file, or images")
    sheet = read_sheet(path)
    if absent := [name for name in own.columns if name not in sheet.header]:
        raise InputError(f"{path}: has no column {', '.join(absent)}, which {own.path} was trained on")
    if others := [name for name in sheet.header if name not in (*own.columns, own.target)]:
        say([f"{path}: not looked at, since {own.path} was trained without: {', '.join(others)}"])
    x = values(sheet, own.columns, own.numeric)
    return OwnRows(names=[str(row) for row in range(len(x))], x=x, sheet=sheet)


def read_image_rows(codec: ImageCodec, inputs: list[Path]) -> OwnRows:
    """Image files, white as bright as in training; within a folder they go by their names alone."""
    folder = inputs[0].is_dir()
    files = files_in(inputs[0]) if folder else inputs
    height, width = codec.size[:2]
    images = read_images(files, (codec.channels, height, width), WHITE)
    say([f"{line}; skipped" for line in images.broken])
    if not images.paths:
        raise InputError(f"{inputs[0]}: no image is left of {len(files)}; give files that open in an image viewer")
    x = images.unit.transpose(0, 2, 3, 1).reshape(-1, *codec.size) * (codec.high - codec.low) + codec.low
    names = [path.name if folder else str(path) for path in images.paths]
    return OwnRows(names=names, x=x, skipped=len(images.broken))


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Tell what estimators warn of without Python's trimmings."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: say([str(message)])
        yield


def say(lines: list[str]) -> None:
    """Tell the user what was found on the way."""
    for line in lines:
        err.print(line, markup=False, highlight=False, soft_wrap=True)
