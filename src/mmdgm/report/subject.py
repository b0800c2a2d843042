"""What a report is about: a run, and the rows to show it on."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from mmdgm.estimators import MMCVAClassifier, MMVAClassifier

Estimator = MMCVAClassifier | MMVAClassifier
ABSENT = "–"


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run: its files' contents and its model."""

    name: str
    result: Mapping[str, Any]  # result.json; empty if the estimator was saved from Python
    about: Mapping[str, Any]  # the part "run" of config.json
    estimator: Estimator

    @property
    def history(self) -> list[dict[str, Any]]:
        """The rows of metrics.csv."""
        return list(self.estimator.history_)

    @property
    def model(self) -> str:
        return str(self.result.get("preset") or type(self.estimator).__name__)

    @property
    def data(self) -> str:
        """The name of the training data."""
        if "dataset" in self.result:
            return str(self.result["dataset"]["name"])
        return str(self.result.get("data", {}).get("path", ABSENT))

    @property
    def counts(self) -> Mapping[str, Any]:
        """Numbers of rows."""
        return self.result.get("dataset") or self.result.get("data") or {}

    @property
    def command(self) -> str | None:
        """The command that makes this run again."""
        if "preset" in self.result:
            words = ["mmdgm", "train", self.result["preset"], "--seed", str(self.result["seed"])]
            for key, value in self.result.get("overrides", {}).items():
                words += ["--set", f"{key}={value}"]
            return shlex.join(words)
        if "data" not in self.about:
            return None
        data, options = self.about["data"], self.about["options"]
        words = ["mmdgm", "fit", data["path"], "--model", options["model"], "--seed", str(self.about["seed"])]
        words += ["--target", data["target"]] if data["target"] else []
        words += ["--size", "x".join(map(str, data["shape"][1:3]))] if data["kind"] == "images" else []
        words += ["--epochs", str(options["epochs"])] if options["epochs"] else []
        words += ["--max-time", f"{options['max_time']:g}"] if options["max_time"] else []
        return shlex.join(words)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows that show what a model does. `y`: their labels; None if they are training rows, which judge nothing."""

    x: NDArray[Any]
    y: NDArray[Any] | None
    place: str  # "500 test rows of digits"
    given: bool = False  # by the user, for this report
    numbers: NDArray[np.intp] | None = None  # of the rows in their file; None: 0, 1, …

    def number(self, row: int) -> str:
        """Return the number of a row in its file."""
        return str(row if self.numbers is None else self.numbers[row])


@dataclass(frozen=True)
class Errors:
    """Wrong predictions among some rows, with the 95 % interval of Wilson."""

    wrong: int
    rows: int
    place: str
    low: float = field(init=False)
    high: float = field(init=False)

    def __post_init__(self) -> None:
        low, high = binomtest(self.wrong, self.rows).proportion_ci(0.95, method="wilson")
        object.__setattr__(self, "low", 100 * float(low))
        object.__setattr__(self, "high", 100 * float(high))

    @property
    def percent(self) -> str:
        return f"{100 * self.wrong / self.rows:.2f} %"

    @property
    def interval(self) -> str:
        return f"95 % interval {self.low:.2f} to {self.high:.2f} %; {self.wrong:,} of {self.rows:,} {self.place}"


def errors_of(run: Run) -> Errors | None:
    """Return the errors that result.json counts: of a preset's test rows, or of a user's rows held out in turn."""
    if (percent := run.result.get("error_percent")) is not None and (rows := run.counts.get("test")):
        return Errors(round(percent * rows / 100), rows, "test rows")
    if estimate := run.result.get("estimate"):
        return Errors(estimate["errors"], estimate["labeled_rows"], "labeled rows, held out in turn")
    return None


@dataclass(frozen=True)
class Judgement:
    """Scores of rows `(rows, K)`, the predicted and the true classes as numbers; truth is None if not known."""

    rows: Rows
    names: list[str]
    scores: NDArray[np.float64]
    truth: NDArray[np.int64] | None

    @property
    def predicted(self) -> NDArray[np.int64]:
        predicted: NDArray[np.int64] = self.scores.argmax(axis=1)
        return predicted

    @property
    def leads(self) -> NDArray[np.float64]:
        """The largest score minus the second largest, `(rows,)`."""
        ordered = np.sort(self.scores, axis=1)
        return ordered[:, -1] - ordered[:, -2] if ordered.shape[1] > 1 else ordered[:, -1]

    def confusion(self) -> NDArray[np.int64]:
        """Numbers of rows by true class (lines) and predicted class (columns)."""
        assert self.truth is not None
        counts = np.zeros((len(self.names), len(self.names)), np.int64)
        np.add.at(counts, (self.truth, self.predicted), 1)
        return counts


def judge(estimator: Estimator, rows: Rows) -> Judgement:
    """Return the scores of rows, with their true classes if they have labels."""
    truth = None
    if rows.y is not None:
        order = np.argsort(estimator.classes_, kind="stable")  # a data set's classes need not be sorted
        truth = order[np.searchsorted(estimator.classes_, rows.y, sorter=order)]
    names = [str(name) for name in estimator.classes_.tolist()]
    return Judgement(rows, names, estimator.class_scores(rows.x), truth)
