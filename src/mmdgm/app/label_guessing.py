"""The thread that guesses: after each change of the labels, guesses for all rows and the order of the questions.

Requests read the newest result and never wait. Labels that come while it computes are in the next result.
"""

import logging
import threading
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.labeled_files import LabeledData
from mmdgm.errors import InputError, one_line
from mmdgm.estimators.suggestions import without_holes
from mmdgm.propagation.guesses import Guesser

logger = logging.getLogger("mmdgm")


class Guessed(NamedTuple):
    """Guesses for all n rows."""

    version: int  # of the labels that they come from
    classes: list[str]
    codes: NDArray[np.intp]  # (n,); −1: no guess
    lead: NDArray[np.float64]  # (n,): of the guessed class over the next one
    may_be_new: NDArray[np.bool_]  # (n,): whether a row may be of a class without any label

    def of(self, row: int) -> str | None:
        """The guess for a row."""
        return self.classes[self.codes[row]] if self.codes[row] >= 0 else None


def no_guesses(n: int) -> Guessed:
    return Guessed(0, [], np.full(n, -1), np.zeros(n), np.zeros(n, bool))


class Guessing:
    """Guesses in a thread of its own. `labels`: a function that returns (version, label by row, rows not to ask)."""

    def __init__(self, data: LabeledData, labels: Callable[[], tuple[int, dict[int, str], set[int]]]):
        self._data, self._labels, self._n = data, labels, len(data.x)
        self.newest, self.order = no_guesses(self._n), list[int]()
        self.ready, self.failure = False, ""
        self._changed, self._ends = threading.Event(), False
        self._condition = threading.Condition()
        self._thread = threading.Thread(target=self._work, daemon=True, name="guessing")
        self._thread.start()

    def look(self) -> None:
        """Tell the thread that labels have changed."""
        self._changed.set()

    def close(self) -> None:
        self._ends = True
        self._changed.set()

    def wait(self, version: int, timeout: float = 60.0) -> bool:
        """Wait until there are guesses from labels of at least this version."""
        with self._condition:
            return self._condition.wait_for(lambda: self.ready and self.newest.version >= version, timeout)

    def _work(self) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the important warnings came when the data were read
                guesser = Guesser(without_holes(self._data.x))
                while not self._ends:
                    self._changed.clear()
                    if not self._guess(guesser):
                        self._changed.wait()
        except Exception as error:  # the page goes on with questions in random order
            self.failure = str(error) if isinstance(error, InputError) else one_line(error)
            logger.exception("mmdgm: rows are asked in random order from now on")

    def _guess(self, guesser: Guesser) -> bool:
        """Guess once; return whether the kind of guesses has changed, so that it has to be done again."""
        version, labels, closed = self._labels()
        classes = sorted(set(labels.values()))
        y, free = np.full(self._n, -1, np.int64), np.ones(self._n, bool)
        if labels:
            y[list(labels)] = np.searchsorted(np.array(classes), list(labels.values()))
        free[list(closed)] = False
        found = guesser(y, free)
        some = found.chances.any(axis=1) if classes else np.zeros(self._n, bool)
        codes = np.where(some, found.chances.argmax(axis=1), -1) if classes else np.full(self._n, -1)
        with self._condition:
            self.newest = Guessed(version, classes, codes, found.lead, found.may_be_new)
            self.order, self.ready = found.order, True
            self._condition.notify_all()
        return guesser.decide(y)


def guesses_of(estimator: Any, x: NDArray[Any], version: int) -> Guessed:
    """Return the guesses of a trained classifier; leads are of its scores."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        scores = estimator.class_scores(x)
    ordered = np.sort(scores, axis=1)
    classes = [str(name) for name in estimator.classes_.tolist()]
    return Guessed(version, classes, scores.argmax(axis=1), ordered[:, -1] - ordered[:, -2], np.zeros(len(x), bool))
