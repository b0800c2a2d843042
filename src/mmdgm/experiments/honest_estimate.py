"""The accuracy of a finished run on new rows: labeled rows are held out, and the others train the same estimator."""

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.stats import binomtest
from sklearn.model_selection import PredefinedSplit

from mmdgm.data.labeled_files import LabeledData
from mmdgm.data.labels import is_unlabeled
from mmdgm.errors import InputError, TrainingStopped, printable
from mmdgm.estimators import KeepUnlabeled
from mmdgm.estimators.fitting import FitRun
from mmdgm.experiments.fit_runs import FitOptions, check_fit, fit_estimator
from mmdgm.experiments.run_folder import RunFolder, claimed_by_first_rank, seconds_since
from mmdgm.files import read_json, write_json
from mmdgm.progress import Display

FOLDS, FEWER_FOLDS = 5, 3
SEVERAL, MANY = 200, 1000  # labels beyond which there are fewer folds, and beyond which rows are held out once
SHARE, LARGEST = 5, 2000  # rows held out once: every fifth, at most 2,000
CONFIDENCE = 0.95

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class Tally:
    """The errors on held-out rows in the folds so far, and the seconds that these folds took."""

    errors: int = 0
    labeled_rows: int = 0
    folds: int = 0
    seconds: float = 0.0

    def estimate(self, planned_folds: int) -> dict[str, Any]:
        """Return the accuracy with its Wilson interval, and the numbers it comes from, for result.json."""
        right = self.labeled_rows - self.errors
        low, high = binomtest(right, self.labeled_rows).proportion_ci(CONFIDENCE, method="wilson")
        accuracy = {"accuracy": right / self.labeled_rows, "low": float(low), "high": float(high)}
        return {**accuracy, "planned_folds": planned_folds, **asdict(self)}


def fold_numbers(y: NDArray[Any], unlabeled: Any, seed: int) -> Rows:
    """Return the number of the fold that tests each labeled row, `(labeled rows,)`; −1: always a training row.

    The rows of a class are dealt out to the folds in turn, so a class with two labels or more has one in every
    training fold. The only label of a class is always a training row.
    """
    _, codes, counts = np.unique(y[~is_unlabeled(y, unlabeled)], return_inverse=True, return_counts=True)
    shuffled = np.random.default_rng(seed).permutation(len(codes))
    by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
    dealt = by_class[counts[codes[by_class]] > 1]
    folds: Rows = np.full(len(codes), -1, np.intp)
    if len(codes) > MANY:
        folds[dealt[:: max(SHARE, -(-len(dealt) // LARGEST))]] = 0
    else:
        folds[dealt] = np.arange(len(dealt)) % (FOLDS if len(codes) <= SEVERAL else FEWER_FOLDS)
    return folds


def add_estimate(data: LabeledData, folder: RunFolder, options: FitOptions, *, console: Console) -> dict[str, Any]:
    """Estimate the accuracy of a finished run on new rows, and write it to its result.json; return the result.

    result.json is written after each fold. An interrupted estimate goes on with the first fold that is not done.
    """
    with claimed_by_first_rank(folder.path, partial(check_fit, folder, options, data.path, True, data.counts())):
        result = read_json(folder.result)
        if result["status"] != "done":
            raise InputError(f"{folder.path}: training has not finished; go on with it by --resume")

        def say(line: str) -> None:
            console.print(printable(f"{folder.path}: {line}"), markup=False, highlight=False, soft_wrap=True)

        def keep(estimate: dict[str, Any] | None) -> None:
            result["estimate"] = estimate
            write_json(folder.result, result)

        try:
            _all_folds(data, replace(options, max_time=result["max_time"]), result.get("estimate"), keep, say, console)
        except (InputError, TrainingStopped) as error:
            keep(None)
            say(f"the accuracy on new rows cannot be estimated: {error}")
        except KeyboardInterrupt:
            say("the model is saved; --resume goes on with the estimate of its accuracy")
            raise
        return result


def _all_folds(
    data: LabeledData,
    options: FitOptions,
    before: dict[str, Any] | None,
    keep: Callable[[dict[str, Any] | None], None],
    say: Callable[[str], None],
    console: Console,
) -> None:
    """Train and test in each fold that `before` does not count; keep the estimate after each fold.

    A fold, except the first one here, begins only if it will probably end within `max_time`.
    """
    folds = fold_numbers(data.y, data.unlabeled, options.seed)
    planned = int(folds.max()) + 1
    if not planned:
        raise InputError("there are too few labels; a class needs two, so that one can be held out")
    tally = Tally(**{name: before[name] for name in asdict(Tally())}) if before else Tally()
    if tally.folds < planned:
        say(f"the model is saved; trainings to estimate its accuracy on new rows: {planned - tally.folds}")
    splits = KeepUnlabeled(PredefinedSplit(folds), unlabeled=data.unlabeled).split(data.x, data.y)
    spent, longest = 0.0, 0.0
    for number, (train, test) in enumerate(splits, 1):
        if number <= tally.folds:
            continue
        if longest and spent + longest > (options.max_time or math.inf):
            say(f"max_time: the estimate ended after {tally.folds} of {planned} folds")
            return
        began = time.monotonic()
        errors = _errors(data, train, test, options, Display(f"fold {number}/{planned}", console))
        seconds = seconds_since(began)
        spent, longest = spent + seconds, max(longest, seconds)
        tally = Tally(tally.errors + errors, tally.labeled_rows + len(test), number, round(tally.seconds + seconds, 2))
        keep(tally.estimate(planned))


def _errors(data: LabeledData, train: Rows, test: Rows, options: FitOptions, display: Display) -> int:
    """Return the number of errors on test rows after training on the others."""
    estimator = options.estimator(data).set_params(verbose=0)
    with display, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the important warnings came when the data were read
        fit_estimator(estimator, replace(data, x=data.x[train], y=data.y[train]), FitRun(listeners=(display,)))
        return int((estimator.predict(data.x[test]) != data.y[test]).sum())
