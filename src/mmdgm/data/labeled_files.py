"""Users' training data, from an npz file, a folder of images or a table; labels may lie in a file of their own."""

import math
import re
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.arrays import WHITE, about_bytes, first_row_without_values, highest_byte, missing_entries
from mmdgm.data.cells import holds_numbers
from mmdgm.data.image_files import read_class_folders
from mmdgm.data.label_files import read_labels_of_rows
from mmdgm.data.labels import is_unlabeled, minus_one_is_a_class, read_labels
from mmdgm.data.npz import checked_values, read_npz
from mmdgm.data.table_files import oddities, read_sheet, table_format, values
from mmdgm.errors import InputError

SIZE, LARGEST_SIDE = (32, 32), 512  # default size and largest side of images


@dataclass(frozen=True, kw_only=True)
class LabeledData:
    """A user's training data."""

    path: Path
    kind: str  # images, npz, or the format of a table: csv, tsv, txt, parquet
    x: NDArray[Any]
    y: NDArray[Any]
    unlabeled: Any  # the value that marks unlabeled rows in y; None: all rows are labeled
    columns: list[str] | None = None  # of a table, without the target
    target: str | None = None
    skipped: int = 0
    notes: list[str] = field(default_factory=list)
    files: list[str] | None = None  # of images, relative to their folder

    @property
    def classes(self) -> list[str]:
        """The names of the classes, in their sorted order."""
        return list(self.counts()["labeled_per_class"])

    def counts(self) -> dict[str, Any]:
        """Numbers of rows of each kind. Raises InputError if no classifier can learn from the labels."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning about many classes
            try:
                classes, codes = read_labels(self.y, self.unlabeled)
            except ValueError as error:
                raise InputError(f"{self.path}: {str(error).splitlines()[0]}") from None
        counts = np.bincount(codes[codes >= 0], minlength=len(classes))
        return {
            "path": str(self.path),
            "kind": self.kind,
            "shape": list(self.x.shape),
            "columns": self.columns,
            "target": self.target,
            "rows": len(codes),
            "labeled": int(counts.sum()),
            "labeled_per_class": {str(name): int(n) for name, n in zip(classes, counts, strict=True)},
            "unlabeled": int((codes < 0).sum()),
            "missing_values": int(missing_entries(self.x).sum()),
            "skipped_files": self.skipped,
        }


def read_data(
    path: Path,
    *,
    target: str | None = None,
    unlabeled: str | None = None,
    size: str | None = None,
    labels: Path | None = None,
    any_labels: bool = False,
) -> LabeledData:
    """Read an npz file, a folder of images or a table to train on.

    `target`: the column of a table that holds the labels. `unlabeled`: the value that marks rows without a label.
    `size`: the height and width of resized images, as in 32x32. `labels`: a file of labels, see `label_files`; they
    replace those in the data. `any_labels`: the data may have no labels at all.
    """
    if not path.exists():
        raise InputError(f"{path} is missing")
    is_folder, is_table = path.is_dir(), table_format(path) is not None
    if not (is_folder or is_table or path.suffix.lower() == ".npz"):
        raise InputError(f"{path}: give an npz file, a folder of images or a table (.csv, .tsv, .txt or .parquet)")
    if target is not None and not is_table:
        raise InputError("--target is for a table: a CSV, TSV or Parquet file")
    if size is not None and not is_folder:
        raise InputError("--size is for a folder of images")
    any_labels = any_labels or labels is not None
    if is_table:
        data = read_table_data(path, unlabeled, target, any_labels=any_labels)
    elif is_folder:
        data = read_image_data(path, unlabeled, SIZE if size is None else parse_size(size), any_labels=any_labels)
    else:
        data = read_npz_data(path, unlabeled, any_labels=any_labels)
    return data if labels is None else with_labels(data, labels)


def with_labels(data: LabeledData, labels: Path) -> LabeledData:
    """Return the data with the labels of a file in place of its own."""
    y = np.where(is_unlabeled(data.y, data.unlabeled), "", data.y.astype(str)).astype(object)
    for row, label in read_labels_of_rows(labels, len(y), data.files).items():
        y[row] = label
    return replace(data, y=y.astype(str), unlabeled="")


def parse_size(text: str) -> tuple[int, int]:
    """Height and width from `32x48`."""
    match = re.fullmatch(r"(\d{1,4})[x×](\d{1,4})", text.strip().lower())
    height, width = map(int, match.groups()) if match else (0, 0)
    if not (1 <= height <= LARGEST_SIDE and 1 <= width <= LARGEST_SIDE):
        raise InputError(f"--size {text}: give height and width up to {LARGEST_SIDE}, as in 32x32")
    return height, width


def read_npz_data(path: Path, mark: str | None, *, any_labels: bool = False) -> LabeledData:
    """Read the arrays x and y of an npz file."""
    arrays = read_npz(path)
    if any_labels and "x" in arrays and "y" not in arrays:
        arrays["y"] = np.full(np.shape(arrays["x"])[:1], mark or "-1")
    if absent := [name for name in ("x", "y") if name not in arrays]:
        held = ", ".join(arrays) or "nothing"
        raise InputError(f"{path}: holds {held}, but no {absent[0]}; arrays x and y are expected")
    x, y = checked_values(path, arrays["x"]), arrays["y"]
    if (row := first_row_without_values(x)) is not None:
        raise InputError(f"{path}: row {row} of x has no value; leave it out")
    if y.shape not in ((len(x),), (len(x), 1)):
        raise InputError(f"{path}: y has the shape {y.shape}, but x has {len(x)} rows; give one label for each")
    if y.dtype.kind not in "iufbUS":
        raise InputError(f"{path}: y holds {y.dtype}, but numbers or text are expected")
    y = y.ravel().astype(str) if y.dtype.kind == "S" else y.ravel()
    unlabeled, notes = _marker(path, y, mark)
    notes += [f"{path}: {line}"] if (line := about_bytes(x)) is not None else []
    return LabeledData(path=path, kind="npz", x=x, y=y, unlabeled=unlabeled, notes=notes)


def _marker(path: Path, y: NDArray[Any], mark: str | None) -> tuple[Any, list[str]]:
    """The value that marks unlabeled rows, of y's type, and notes for the user."""
    if y.dtype.kind == "U":
        return "-1" if mark is None else mark, []
    try:
        value = float("-1" if mark is None else mark)
    except ValueError:
        raise InputError(f"--unlabeled {mark}: y holds numbers, so give a number, or nan") from None
    if y.dtype.kind == "f" and np.isnan(y).any() and not math.isnan(value):
        raise InputError(f"{path}: y holds NaN; if it marks the unlabeled rows, give --unlabeled nan")
    if minus_one_is_a_class(y, value):
        return None, ["the labels are -1 and 1: both are taken as classes, and all rows as labeled"]
    return int(value) if value.is_integer() else value, []


def read_image_data(path: Path, mark: str | None, size: tuple[int, int], *, any_labels: bool = False) -> LabeledData:
    """Read a folder with one subfolder of images per class; or without subfolders, if the data may have no labels."""
    images = read_class_folders(path, size, unlabeled="unlabeled" if mark is None else mark, flat=any_labels)
    dark = highest_byte(images.pixels) < WHITE
    return LabeledData(
        path=path,
        kind="images",
        x=(images.pixels / np.float32(WHITE)) if dark else images.pixels,  # image files do say what is white
        y=np.array(images.labels),
        unlabeled="",
        skipped=len(images.broken),
        files=images.files,
        notes=[f"{line}; skipped" for line in images.broken],
    )


def read_table_data(path: Path, mark: str | None, target: str | None, *, any_labels: bool = False) -> LabeledData:
    """Read a table with a column of labels."""
    sheet = read_sheet(path)
    unnamed = target is None and any_labels
    if target not in sheet.header and not unnamed:
        said = f"{path}: give --target, the column" if target is None else f"--target {target}: is no column"
        raise InputError(f"{said} with the labels; there are {', '.join(sheet.header)}")
    names = [name for name in sheet.header if name != target]
    if not names:
        raise InputError(f"{path}: has no column beside {target}")
    marks = ("", (mark or "").strip())
    labels = [None] * len(sheet.frame) if target is None else values(sheet, [target], [False])[:, 0].tolist()
    y = np.array(["" if label is None or label.strip() in marks else label for label in labels])
    _refuse_fractions(path, str(target), [cell for cell in y.tolist() if cell])
    numeric = [sheet.is_numeric(name) for name in names]
    x = values(sheet, names, numeric)
    missing = missing_entries(x)
    if missing.all(axis=0).any():
        name = names[int(missing.all(axis=0).argmax())]
        raise InputError(f"{path}: column {name} has no value in any row; leave it out")
    if missing.all(axis=1).any():
        place = sheet.place(int(missing.all(axis=1).argmax()))
        raise InputError(f"{path}: {place} has no value beside {target}; leave it out")
    notes = oddities(sheet, names, numeric)
    if mark is None:
        notes += _likely_marks(set(y.tolist()) - {""})
    kind = str(table_format(path))
    return LabeledData(path=path, kind=kind, x=x, y=y, unlabeled="", columns=names, target=target, notes=notes)


def _refuse_fractions(path: Path, target: str, labels: list[str]) -> None:
    """Raise InputError if all labels are numbers and some are not whole. scikit-learn refuses such a y too."""
    if not holds_numbers(labels):
        return
    if fractions := [cell for cell in labels if float(cell) % 1 > 0]:
        raise InputError(
            f"{path}: column {target} holds numbers with fractions, such as {fractions[0]}, which are no classes; "
            f"give a column of classes by --target, or write the classes as words"
        )


def _likely_marks(labels: set[str]) -> list[str]:
    """Warnings about −1 or NaN among numeric labels, if at least two other classes remain."""
    if not holds_numbers(labels) or len(labels) < 3:
        return []
    marks = [cell for cell in sorted(labels) if float(cell) == -1 or math.isnan(float(cell))]
    return [f"labels include {m}, taken as a class; if it marks unlabeled rows, give --unlabeled {m}" for m in marks]
