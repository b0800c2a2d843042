"""Evaluation of a fitted estimator on labeled rows of a data set or of a user."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.codecs import ImageCodec
from mmdgm.data.datasets import channels_last
from mmdgm.data.input_rows import read_rows
from mmdgm.data.labeled_files import read_data
from mmdgm.data.labels import is_unlabeled
from mmdgm.data.table_files import table_format
from mmdgm.errors import InputError
from mmdgm.experiments.configs import config_from_json
from mmdgm.experiments.rows import load_dataset, split_rows
from mmdgm.experiments.run_folder import Estimator, RunFolder
from mmdgm.files import read_json
from mmdgm.inference.evaluation import figures


def evaluate(estimator: Estimator, X: NDArray[Any], y: NDArray[Any], *, draws: int = 0) -> dict[str, float | None]:
    """Return error and bound on rows X with labels y; missing values are imputed first, as in `predict`."""
    if (unknown := ~np.isin(y, estimator.classes_)).any():
        raise InputError(f"the label {y[unknown][0]} is no class; the classes are {estimator.classes_.tolist()}")
    order = np.argsort(estimator.classes_, kind="stable")  # a data set's classes need not be sorted
    codes = order[np.searchsorted(estimator.classes_, y, sorter=order)]
    return figures(estimator.model_, estimator.inputs(X, filled=True), codes, draws=draws)


def labeled_rows(
    run: Path, estimator: Estimator, data: Path | None, *, target: str | None, data_dir: Path | None
) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
    """Yield the rows to evaluate a run on, as (prefix of the figures' names, rows, labels).

    `data`: a user's file or folder; None: the test rows and the validation rows of the run's data set.
    """
    about = read_json(RunFolder(run).config).get("run") or {}  # empty if the estimator was saved from Python
    if data is not None:
        yield "", *_rows_of(estimator, data, target or (about.get("data") or {}).get("target"))
        return
    if "config" not in about:
        raise InputError(f"{run} has no test set of its own; give labeled rows: mmdgm evaluate {run} DATA")
    config = config_from_json(about["config"])
    dataset = load_dataset(config, data_dir)
    rows = split_rows(dataset, config, about["seed"])
    yield "", channels_last(dataset.x_test), dataset.classes[dataset.y_test]
    if len(rows.x_validation):
        yield "validation_", channels_last(rows.x_validation), dataset.classes[rows.y_validation]


def _rows_of(estimator: Estimator, path: Path, target: str | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a user's rows, read as in `mmdgm predict`, and their labels, read as in `mmdgm fit`."""
    codec, folder = estimator.codec_, path.is_dir()
    if folder and not isinstance(codec, ImageCodec):
        raise InputError(f"{path}: the model was trained on a table; give a CSV, TSV, Parquet or npz file")
    size = f"{codec.size[0]}x{codec.size[1]}" if isinstance(codec, ImageCodec) and folder else None
    data = read_data(path, target=target if table_format(path) else None, size=size)
    labeled = ~is_unlabeled(data.y, data.unlabeled)
    if not labeled.any():
        raise InputError(f"{path}: no row is labeled")
    x = data.x if folder else read_rows(codec, [path]).x
    return x[labeled], data.y[labeled]
