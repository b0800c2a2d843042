"""Measure a method on a task."""

import functools
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks.tables.cells import Cell
from benchmarks.tables.classifiers import CLASSIFIERS, CODES, FRAME, OURS
from benchmarks.tables.encoding import Array, Encoder
from benchmarks.tables.imputers import IMPUTERS, Filled
from benchmarks.tables.scores import imputation_error
from benchmarks.tables.tasks import Task


class Clock:
    """CPU seconds, which other processes on the machine do not lengthen."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        began = time.process_time()
        yield
        self.seconds = round(time.process_time() - began, 4)


class Fills(NamedTuple):
    filled: Filled
    seconds: float


class Bench:
    """A task and its fills, which are made once and shared by methods."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.encoder = Encoder(task.x)
        self.codes, self.truth = self.encoder.codes(task.x), self.encoder.codes(task.complete_test)
        self.fills = functools.cache(self._fill)

    def _fill(self, imputer: str) -> Fills:
        clock = Clock()
        with quiet(), clock.running():
            filled = IMPUTERS[imputer](self.task.x, self.task.x_test, self.encoder, self.task.seed)
        return Fills(filled, clock.seconds)

    def error(self, codes_test: Array) -> float | None:
        """The error of filled test rows."""
        return imputation_error(self.codes, self.truth, codes_test, self.task.hidden_test, self.encoder.numeric)

    def imputes(self, imputer: str) -> Cell:
        """The cell of an imputer."""
        filled, seconds = self.fills(imputer)
        return {"imputation": self.error(filled.codes_test), "impute_seconds": seconds}

    def classifies(self, method: str, per_class: int) -> Cell:
        """The cell of a classifier; that of ours has the error of its imputation too."""
        task, (rows, fit), cell = self.task, CLASSIFIERS[method], Cell()
        if rows == FRAME:
            x, x_test = task.x, task.x_test
        elif rows == CODES:
            x, x_test = self.codes, self.encoder.codes(task.x_test)
        else:
            (x, x_test, _), cell["fill_seconds"] = self.fills(rows)
        fitting, predicting, imputing = Clock(), Clock(), Clock()
        with quiet():
            with fitting.running():
                model = fit(x, task.labels(per_class), task.seed)
            with predicting.running():
                predicted = model.predict(x_test)
        cell["accuracy"] = round(float(100 * np.mean(predicted == task.y_test)), 6)
        cell |= {"fit_seconds": fitting.seconds, "predict_seconds": predicting.seconds}
        if method == OURS and task.hidden_test.any():
            with imputing.running():
                filled = model.impute(x_test)
            cell |= {"imputation": self.error(self.encoder.codes(filled)), "impute_seconds": imputing.seconds}
        return cell


@contextmanager
def quiet() -> Iterator[None]:
    """Without known warnings: of rounds of imputation, SVC's probabilities, rows without a label, many categories."""
    with warnings.catch_warnings():
        for kind in (ConvergenceWarning, FutureWarning, RuntimeWarning):
            warnings.simplefilter("ignore", kind)
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%", UserWarning)
        yield
