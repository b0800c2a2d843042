"""Runs of users' own data: an estimator trained on arrays, a folder of images or a CSV file, in a run folder.

config.json and model.safetensors are what the estimator's `save` writes, result.json tells of data and training.
"""

import math
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mmdgm.data import csv_files
from mmdgm.data.codecs import ImageCodec, TableCodec, missing_entries
from mmdgm.data.image_files import read_class_folders
from mmdgm.data.labels import minus_one_is_a_class, read_labels
from mmdgm.data.npz import read_npz, read_only_array
from mmdgm.data.tables import holds_numbers
from mmdgm.devices import keep_freed_memory, pick_device
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.estimators import MMCVAClassifier, MMVAClassifier
from mmdgm.experiments.provenance import device_name, git_commit, versions
from mmdgm.experiments.run_folder import RunFolder
from mmdgm.files import claimed, read_json, write_json
from mmdgm.report import plots

MODELS = {"mmcva": MMCVAClassifier, "mmva": MMVAClassifier}
Estimator = MMCVAClassifier | MMVAClassifier
Kind = Literal["npz", "images", "csv"]
TARGET = "label"  # what the label column of a table without one is called


@dataclass(frozen=True, kw_only=True)
class OwnData:
    """What a user brings to train on."""

    path: Path
    kind: Kind
    x: NDArray[Any]
    y: NDArray[Any]
    unlabeled: Any  # what marks unlabeled rows in y; None: nothing does
    columns: list[str] | None = None  # of a CSV file, without the target
    target: str | None = None
    skipped: int = 0
    notes: list[str] = field(default_factory=list)


# --- reading -------------------------------------------------------------------------------------------------


def read_npz_data(path: Path, mark: str | None) -> OwnData:
    """Arrays x and y of an npz file."""
    arrays = read_npz(path)
    if absent := [name for name in ("x", "y") if name not in arrays]:
        held = ", ".join(arrays) or "nothing"
        raise InputError(f"{path}: holds {held}, but no {absent[0]}; arrays x and y are expected")
    x, y = checked_values(path, arrays["x"]), arrays["y"]
    if y.shape not in ((len(x),), (len(x), 1)):
        raise InputError(f"{path}: y has the shape {y.shape}, but x has {len(x)} rows; give one label for each")
    if y.dtype.kind not in "iufbUS":
        raise InputError(f"{path}: y holds {y.dtype}, but numbers or text are expected")
    y = y.ravel().astype(str) if y.dtype.kind == "S" else y.ravel()
    unlabeled, notes = _marker(path, y, mark)
    return OwnData(path=path, kind="npz", x=x, y=y, unlabeled=unlabeled, notes=notes)


def _marker(path: Path, y: NDArray[Any], mark: str | None) -> tuple[Any, list[str]]:
    """What marks unlabeled rows, as a value of y's kind, and what there is to say of it."""
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


def read_image_data(path: Path, mark: str | None, size: tuple[int, int]) -> OwnData:
    """A folder with a subfolder of images for each class."""
    images = read_class_folders(path, size, unlabeled="unlabeled" if mark is None else mark)
    return OwnData(
        path=path,
        kind="images",
        x=images.pixels,
        y=np.array(images.labels),
        unlabeled="",
        skipped=len(images.broken),
        notes=[f"{line}; skipped" for line in images.broken],
    )


def read_csv_data(path: Path, mark: str | None, target: str | None) -> OwnData:
    """A CSV file with a column of labels."""
    sheet = csv_files.read_sheet(path)
    if target not in sheet.header:
        said = f"{path}: give --target, the column" if target is None else f"--target {target}: is no column"
        raise InputError(f"{said} with the labels; there are {', '.join(sheet.header)}")
    names = [name for name in sheet.header if name != target]
    if not names:
        raise InputError(f"{path}: has no column beside {target}")
    marks = ("", (mark or "").strip())
    y = np.array(["" if cell.strip() in marks else cell for cell in sheet.column(target)])
    _refuse_fractions(path, target, [cell for cell in y.tolist() if cell])
    numeric = [holds_numbers(sheet.column(name)) for name in names]
    x = csv_files.values(sheet, names, numeric)
    missing = missing_entries(x)
    if missing.all(axis=0).any():
        name = names[int(missing.all(axis=0).argmax())]
        raise InputError(f"{path}: column {name} has no value in any row; leave it out")
    if missing.all(axis=1).any():
        line = sheet.lines[int(missing.all(axis=1).argmax())]
        raise InputError(f"{path}: line {line} has no value beside {target}; leave it out")
    notes = csv_files.oddities(sheet, names, numeric)
    if mark is None:
        notes += _likely_marks(set(y.tolist()) - {""})
    return OwnData(path=path, kind="csv", x=x, y=y, unlabeled="", columns=names, target=target, notes=notes)


def _refuse_fractions(path: Path, target: str, labels: list[str]) -> None:
    """Labels that are all numbers must be whole, as scikit-learn demands it of a classifier's y."""
    if not holds_numbers(labels):
        return
    if fractions := [cell for cell in labels if float(cell) % 1 > 0]:
        raise InputError(
            f"{path}: column {target} holds numbers with fractions, such as {fractions[0]}, which are no classes; "
            f"give a column of classes by --target, or write the classes as words"
        )


def _likely_marks(labels: set[str]) -> list[str]:
    """A line on −1 or NaN among labels that are numbers, where two classes are left without it."""
    if not holds_numbers(labels) or len(labels) < 3:
        return []
    marks = [cell for cell in sorted(labels) if float(cell) == -1 or math.isnan(float(cell))]
    return [
        f"labels include {m}, taken as a class; if it marks unlabeled rows, give --unlabeled {m}" for m in marks
    ]


def read_x(path: Path) -> NDArray[Any]:
    """The array x, or the only one, of an npz file."""
    return checked_values(path, read_only_array(path))


def checked_values(path: Path, x: NDArray[Any]) -> NDArray[Any]:
    """An array as estimators take it: images of bytes as they are, other numbers as floats."""
    if x.ndim not in (2, 3, 4):
        raise InputError(
            f"{path}: x has the shape {x.shape}; (rows, columns), (rows, height, width) or (rows, height, width, "
            f"channels) is expected"
        )
    if not x.size:
        raise InputError(f"{path}: x has the shape {x.shape}, so there is nothing in it")
    if x.dtype.kind not in "fiub":
        raise InputError(f"{path}: x holds {x.dtype}, but numbers are expected (NaN where missing)")
    if x.dtype != np.uint8 or x.ndim == 2:
        x = x.astype(np.float32 if x.dtype.kind in "fb" and x.itemsize <= 4 else np.float64)
    if np.isinf(x).any():
        raise InputError(f"{path}: x holds infinite values; NaN marks what is missing")
    return x


# --- training ------------------------------------------------------------------------------------------------


def check_labels(data: OwnData) -> dict[str, Any]:
    """Counts of a data set's rows; labels that no classifier can learn from are refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on many classes
        try:
            classes, codes = read_labels(data.y, data.unlabeled)
        except ValueError as error:
            raise InputError(f"{data.path}: {str(error).splitlines()[0]}") from None
    counts = np.bincount(codes[codes >= 0], minlength=len(classes))
    return {
        "path": str(data.path),
        "kind": data.kind,
        "shape": list(data.x.shape),
        "columns": data.columns,
        "target": data.target,
        "rows": len(codes),
        "labeled": int(counts.sum()),
        "labeled_per_class": {str(name): int(n) for name, n in zip(classes, counts, strict=True)},
        "unlabeled": int((codes < 0).sum()),
        "missing_values": int(missing_entries(data.x).sum()),
        "skipped_files": data.skipped,
    }


def train_own(
    data: OwnData,
    folder: RunFolder,
    *,
    model: str,
    seed: int,
    epochs: int | None = None,
    max_time: float | None = None,
    device: str = "auto",
) -> dict[str, Any]:
    """Train on a user's data, and leave estimator, result.json and, of images, samples; returns the result."""
    check_new(folder)
    counts = check_labels(data)
    result: dict[str, Any] = {
        "status": "running",
        "model": model,
        "estimator": MODELS[model].__name__,
        "seed": seed,
        "max_epochs": epochs,
        "max_time": max_time,
        "data": counts,
        "device": device_name(pick_device(device)),
        "versions": versions(),
        "git_commit": git_commit(),
    }
    estimator = MODELS[model](
        random_state=seed,
        verbose=1,
        unlabeled=data.unlabeled,
        max_epochs=epochs,
        max_time=max_time,
        device=device,
    )
    keep_freed_memory()
    with claimed(folder.path):
        write_json(folder.result, result)
        began = time.monotonic()
        try:
            _fit(estimator, data)
        except (TrainingStopped, InputError) as error:
            write_json(folder.result, {**result, "status": "stopped", "reason": str(error)})
            raise
        seconds = time.monotonic() - began
        if data.columns is not None:
            estimator.feature_names_in_ = np.array(data.columns, dtype=object)
            assert isinstance(estimator.codec_, TableCodec)
            estimator.codec_ = estimator.codec_.named(data.columns)
        estimator.save(folder.path)
        own = load_own(folder.path, device=device)
        assert own is not None
        accuracy = own.estimator.score(data.x, data.y)
        if own.images is not None:
            samples, _ = own.sample(columns=10, rows=10)
            plots.save_grid(folder.figures / "samples.png", own.grid(samples, columns=10))
        result |= {
            "status": "done",
            "training_accuracy_on_labeled_rows": accuracy,
            "epochs": estimator.n_iter_,
            "planned_epochs": estimator.n_iter_planned_,
            "seconds": round(seconds, 2),
        }
        write_json(folder.result, result)
    return result


def _fit(estimator: Estimator, data: OwnData) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what matters in them was said when the data were read
        try:
            estimator.fit(data.x, data.y)
        except InputError as error:
            raise InputError(f"{data.path}: {error}") from None


def check_new(folder: RunFolder) -> None:
    """Refuse to write over a run."""
    if folder.config.exists():
        raise InputError(f"{folder.path} already holds a run; choose another --run-dir")


# --- a trained one -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OwnRun:
    """An estimator that was trained on a user's data, ready to use."""

    path: Path
    estimator: Estimator
    columns: list[str] | None  # where it was trained on columns with names
    target: str

    @property
    def classes(self) -> list[str]:
        return [str(name) for name in self.estimator.classes_.tolist()]

    @property
    def images(self) -> ImageCodec | None:
        """How images are seen; None of a table."""
        return self.estimator.codec_ if isinstance(self.estimator.codec_, ImageCodec) else None

    @property
    def numeric(self) -> list[bool]:
        """Which of a table's columns hold numbers."""
        codec = self.estimator.codec_
        return codec.numeric if isinstance(codec, TableCodec) else []

    def scores(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """A score for each class `(rows, K)`; of two classes, plus and minus half of the lead."""
        scores: NDArray[np.float64] = self.estimator.decision_function(x)
        return np.stack([-scores / 2, scores / 2], axis=1) if scores.ndim == 1 else scores

    def sample(self, *, columns: int, rows: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """Rows and their classes: so many of each class, in the same styles; or rows × columns of no class."""
        if isinstance(self.estimator, MMVAClassifier):
            return self.estimator.sample(rows * columns, random_state=seed), None
        classes = self.estimator.classes_
        parts = [self.estimator.sample(columns, y=name, random_state=seed) for name in classes]
        return np.concatenate(parts), classes.repeat(columns)

    def unit(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Images as `(rows, 1 or 3 channels, height, width)` in [0, 1], to be shown."""
        codec = self.images
        assert codec is not None
        unit = (np.asarray(x, np.float32) - codec.low) / (codec.high - codec.low)
        shown = unit.reshape(len(x), *codec.size[:2], codec.channels).transpose(0, 3, 1, 2)
        return shown if codec.channels in (1, 3) else shown.mean(axis=1, keepdims=True)

    def grid(self, x: NDArray[Any], *, columns: int) -> NDArray[np.float32]:
        """The same in lines of so many."""
        unit = self.unit(x)
        return unit.reshape(-1, columns, *unit.shape[1:])


def is_own(path: Path) -> bool:
    """Whether a folder holds a saved estimator."""
    config = RunFolder(path).config
    return config.exists() and "estimator" in read_json(config)


def load_own(path: Path, *, device: str = "auto") -> OwnRun | None:
    """The estimator that a folder holds; None where it holds none."""
    if not is_own(path):
        return None
    folder = RunFolder(path)
    name = read_json(folder.config)["estimator"]
    kinds: dict[str, Any] = {kind.__name__: kind for kind in MODELS.values()}
    if name not in kinds:
        raise InputError(f"{folder.config}: holds {name}; known are {' and '.join(kinds)}")
    pick_device(device)
    try:
        estimator: Estimator = kinds[name].load(path, device=device)
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, RuntimeError):  # wrong values, or weights that do not fit
        raise InputError(f"{path}: config.json and model.safetensors do not make a {name}") from None
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        del estimator.feature_names_in_  # columns are taken by name here; below there are arrays without names
    result = read_json(folder.result) if folder.result.exists() else {}
    target = (result.get("data") or {}).get("target") or TARGET
    return OwnRun(
        path=path,
        estimator=estimator,
        columns=None if names is None else [str(column) for column in names],
        target=target,
    )
