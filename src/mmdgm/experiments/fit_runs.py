"""Runs on users' own data: train an estimator and save it in a run folder, as for presets."""

import dataclasses
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from mmdgm.data.codecs import TableCodec
from mmdgm.data.labeled_files import LabeledData
from mmdgm.devices import device_name, keep_freed_memory, pick_device
from mmdgm.errors import InputError
from mmdgm.estimators import MMCVAClassifier, MMVAClassifier
from mmdgm.estimators.fitting import FitRun
from mmdgm.estimators.saving import describe, write_estimator
from mmdgm.experiments.reports import training_rows, write_report
from mmdgm.experiments.run_folder import (
    Estimator,
    Recording,
    RunFolder,
    check_folder,
    claimed_by_first_rank,
    seconds_since,
)
from mmdgm.files import read_json
from mmdgm.report.figures import save_figures

MODELS: dict[str, type[Estimator]] = {"mmcva": MMCVAClassifier, "mmva": MMVAClassifier}


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Options for training a model on a user's own data."""

    model: str = "mmcva"
    seed: int = 0
    epochs: int | None = None
    max_time: float | None = None
    cost_matrix: list[list[float]] | None = None
    device: str = "auto"

    def estimator(self, data: LabeledData) -> Estimator:
        """Return the estimator to fit."""
        if self.model not in MODELS:
            raise InputError(f"--model {self.model}: use {' or '.join(MODELS)}")
        return MODELS[self.model](
            random_state=self.seed,
            verbose=1,
            unlabeled=data.unlabeled,
            max_epochs=self.epochs,
            max_time=self.max_time,
            cost_matrix=self.cost_matrix,
            device=self.device,
        )


def check_fit(
    folder: RunFolder, options: FitOptions, data: Path, resume: bool, counts: Mapping[str, Any] | None = None
) -> None:
    """Raise InputError if a folder holds a run that must not be overwritten, or cannot be resumed like this.

    `counts` of the data, if they are known: a run must continue with the rows, labels and costs of its start.
    """

    def differences(about: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        if "data" not in about:
            raise InputError(f"{folder.path} holds a run of a preset; go on with it by `mmdgm train --resume`")
        now: dict[str, Any] = {"data": str(data.resolve()), "model": options.model, "epochs": options.epochs}
        before = {"data": about["data"]["place"], "cost_matrix": None, **about["options"]}
        if counts is not None:  # a file of costs is read with the data
            now["cost_matrix"] = options.cost_matrix
        yield from ((key, before[key], value) for key, value in now.items() if before[key] != value)
        rows = {key: value for key, value in (counts or {}).items() if key != "path"}
        yield from ((key, about["data"][key], value) for key, value in rows.items() if about["data"][key] != value)

    check_folder(folder, options.seed, resume, differences)


def fit_run(
    data: LabeledData, folder: RunFolder, options: FitOptions, *, console: Console, resume: bool = False
) -> dict[str, Any]:
    """Train on a user's data; write the estimator, result.json and figures; return the result."""
    counts, estimator = data.counts(), options.estimator(data)
    look_again = partial(check_fit, folder, options, data.path, resume, counts)
    look_again()
    chosen = {key: value for key, value in dataclasses.asdict(options).items() if key not in ("seed", "device")}
    about = {"data": {**counts, "place": str(data.path.resolve())}, "options": chosen, "seed": options.seed}
    start = {
        "estimator": type(estimator).__name__,
        **chosen,
        "seed": options.seed,
        "data": counts,
        "device": device_name(pick_device(options.device)),
    }
    keep_freed_memory()
    began = time.monotonic()
    with claimed_by_first_rank(folder.path, look_again):
        if folder.is_done():
            return read_json(folder.result)
        recording = Recording(folder, start, resume, console)
        recording.begin({**describe(estimator), "run": about})
        with recording.training():
            fit_estimator(
                estimator,
                data,
                FitRun(checkpoint=folder.checkpoint, resume=resume, listeners=tuple(recording.listeners)),
            )
        seconds = seconds_since(began)
        estimator.history_ = recording.rows
        write_estimator(estimator, folder.path, {"run": about})
        images = None if isinstance(estimator.codec_, TableCodec) else data.x[:16]
        save_figures(folder.figures, estimator, images)
        result = recording.finish(
            {
                "training_accuracy_on_labeled_rows": estimator.score(data.x, data.y),
                "estimate": None,  # of the accuracy on new rows: see `honest_estimate`
                "epochs": estimator.n_iter_,
                "planned_epochs": estimator.n_iter_planned_,
                "seconds": seconds,
            }
        )
        write_report(folder, estimator, training_rows(data.x))
        return result


def fit_estimator(estimator: Estimator, data: LabeledData, run: FitRun) -> None:
    """Fit an estimator to a user's data, without warnings; columns keep their names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the important warnings came when the data were read
        try:
            estimator._fit(data.x, data.y, run)
        except InputError as error:
            raise InputError(f"{data.path}: {error}") from None
    if data.columns is not None:
        assert isinstance(estimator.codec_, TableCodec)
        estimator.codec_ = estimator.codec_.named(data.columns)
