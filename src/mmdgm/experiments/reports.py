"""The reports of run folders: what a report needs is read from the folder and from the data."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.datasets import Dataset, channels_last
from mmdgm.data.input_rows import read_rows
from mmdgm.data.labeled_files import read_data
from mmdgm.errors import InputError
from mmdgm.experiments.configs import config_from_json
from mmdgm.experiments.evaluation import labeled_rows
from mmdgm.experiments.rows import load_dataset
from mmdgm.experiments.run_folder import RunFolder, load
from mmdgm.files import read_json, write_whole
from mmdgm.report.run_report import run_report
from mmdgm.report.subject import Estimator, Rows, Run

UNJUDGED = 2000  # training rows that a report looks at


def read_run(path: Path, *, device: str | None = None) -> Run:
    """Return what a run folder holds."""
    estimator, folder = load(path, device=device), RunFolder(path)
    result = read_json(folder.result) if folder.result.exists() else {}
    about = read_json(folder.config).get("run") or {}
    return Run(name=path.resolve().name, result=result, about=about, estimator=estimator)


def read_runs(paths: Sequence[Path], *, device: str | None = None) -> list[Run]:
    """Return several runs, which are named by the parts of their paths that differ."""
    places = [path.resolve() for path in paths]
    if len(set(places)) < len(places):
        raise InputError(f"{paths[0]} and others: give each run once")
    shared = Path(os.path.commonpath(places))
    found = [read_run(path, device=device) for path in paths]
    return [replace(run, name=str(place.relative_to(shared))) for run, place in zip(found, places, strict=True)]


def rows_of(
    run: Run, path: Path, *, data: Path | None = None, target: str | None = None, data_dir: Path | None = None
) -> Rows | None:
    """Return the rows to show a run on: given labeled rows, a preset's test rows, or training rows.

    Training rows have no labels here, because errors on them say nothing on new rows. None: there are no rows.
    """
    if data is not None:
        _, X, y = next(labeled_rows(path, run.estimator, data, target=target, data_dir=data_dir))
        if (unknown := ~np.isin(y, run.estimator.classes_)).any():
            raise InputError(f"{data}: the label {y[unknown][0]} is no class of {path}")
        return Rows(x=X, y=y, place=f"{len(X):,} rows of {data.name}", given=True)
    if "config" in run.about:
        return dataset_rows(load_dataset(config_from_json(run.about["config"]), data_dir))
    about = run.about.get("data") or {}
    place = Path(about.get("place", ""))
    if not place.name or not place.exists():
        return None
    if place.is_dir():
        size = "x".join(map(str, about["shape"][1:3]))
        return training_rows(read_data(place, size=size, any_labels=True).x)
    return training_rows(read_rows(run.estimator.codec_, [place], target=about["target"] or "label").x)


def dataset_rows(dataset: Dataset) -> Rows:
    """Return the test rows of a data set."""
    X, y = channels_last(dataset.x_test), dataset.classes[dataset.y_test]
    return Rows(x=X, y=y, place=f"{len(X):,} test rows of {dataset.name}")


def training_rows(X: NDArray[Any]) -> Rows:
    """Return some training rows, as rows that judge nothing."""
    chosen = np.sort(np.random.default_rng(0).permutation(len(X))[:UNJUDGED])
    return Rows(x=X[chosen], y=None, place=f"{len(chosen):,} training rows", numbers=chosen)


def write_report(folder: RunFolder, estimator: Estimator, rows: Rows | None) -> Path:
    """Write report.html of a finished run; return its path."""
    about = read_json(folder.config).get("run") or {}
    run = Run(name=folder.path.resolve().name, result=read_json(folder.result), about=about, estimator=estimator)
    write_whole(folder.report, run_report(run, rows))
    return folder.report
