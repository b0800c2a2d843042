"""A labeling: rows, what people said about them, what to ask next, and what is guessed about the others."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mmdgm.app.label_estimate import estimate, is_check
from mmdgm.app.label_guessing import Guessed, Guessing, guesses_of
from mmdgm.app.label_rows import RowViews
from mmdgm.app.label_store import LABEL, SKIP, UNSURE, LabelStore
from mmdgm.app.label_training import Training
from mmdgm.data.label_files import label_file
from mmdgm.data.labeled_files import LabeledData
from mmdgm.data.labels import is_unlabeled
from mmdgm.errors import InputError, one_line
from mmdgm.estimators import MMCVAClassifier, MMVAClassifier
from mmdgm.experiments.run_folder import load

PROPAGATED = "labels"  # the source of guesses that needs no training
ACTIVE = 10.0  # seconds without a word after which a browser gets no rows of its own


class LabelSession:
    """All that the page Label shows and does. `fit`: DATA and its options for `mmdgm fit`."""

    def __init__(self, data: LabeledData, labels: Path, fit: list[str]):
        self.data, self.views = data, RowViews(data)
        known = np.flatnonzero(~is_unlabeled(data.y, data.unlabeled))
        given = {int(row): str(data.y[row]) for row in known}
        self.store = LabelStore(labels, len(data.x), data.files, given=given)
        self.training = Training(labels.with_name(f"{labels.stem}-runs"), fit)
        self.guessing = Guessing(data, self._labels)
        self.source, self.trouble = PROPAGATED, ""
        self.classifier: MMCVAClassifier | MMVAClassifier | None = None
        self._learned: Guessed | None = None
        self._random = np.random.default_rng().permutation(len(data.x)).tolist()  # the order of checks
        self._browsers: dict[str, float] = {}
        self._estimated: tuple[tuple[int, str], dict[str, Any]] = (-1, ""), {}
        self._loading = threading.Lock()
        self.loaded = 0  # the run whose classifier is loaded, or could not be

    def close(self) -> None:
        """End the training and the thread that guesses, and let others have the labels."""
        self.training.close()
        self.guessing.close()
        self.store.close()

    # --- labels and questions ----------------------------------------------------------------------------

    def add(self, who: str, events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Keep what a browser says, with what was guessed before; see `LabelStore.add`."""
        known, guessed, source = len(self.store.labels()), self.guesses, self.source
        full = []
        for event in events:
            event = {**event, "who": who}
            row = event.get("row")
            if event.get("do") == LABEL and type(row) is int and 0 <= row < len(self.views):
                event |= {"predicted": guessed.of(row), "source": source, "known": known}
                event["check"] = event.get("check") is True
                known += 1
            full.append(event)
        if not full:
            return []
        answers = self.store.add(full)
        self.guessing.look()
        return answers

    def questions(self, who: str, n: int, *, checks: bool = False) -> list[dict[str, Any]]:
        """Return the next n rows to ask a browser about. Browsers at work at the same time get different ones.

        Some are `check`s, see `label_estimate`; `checks`: all of them.
        """
        place, browsers = self._place(who)
        closed, ready = self.store.closed_rows(), self.guessing.ready
        skipped = [row for row, kind in closed.items() if kind == SKIP]

        def free(rows: list[int]) -> Iterator[int]:
            mine = (row for row in rows if row not in closed and row % browsers == place)
            return iter([*mine, *(row for row in rows if row not in closed and row % browsers != place)])

        useful, random = free(self.guessing.order if ready else self._random), free(self._random)
        asked, answered, found = set[int](), len(closed), list[dict[str, Any]]()
        for number in range(answered, answered + min(n, len(self.views) - answered)):
            check = ready and (checks or is_check(number))
            row = next((row for row in (random if check else useful) if row not in asked), None)
            if row is None:
                break
            asked.add(row)
            found.append({"row": row, "check": check})
        return found or [{"row": row, "check": False, "again": True} for row in skipped[:n]]

    def _place(self, who: str) -> tuple[int, int]:
        """Return a browser's place among those at work, and their number."""
        now = time.monotonic()
        self._browsers = {name: at for name, at in self._browsers.items() if now - at < ACTIVE} | {who: now}
        return sorted(self._browsers).index(who), len(self._browsers)

    def _labels(self) -> tuple[int, dict[int, str], set[int]]:
        version = self.store.version
        return version, self.store.labels(), set(self.store.closed_rows())

    # --- guesses -----------------------------------------------------------------------------------------

    @property
    def guesses(self) -> Guessed:
        """The newest guesses of the chosen source."""
        return self.guessing.newest if self.source == PROPAGATED or self._learned is None else self._learned

    def use(self, source: str) -> None:
        """Choose whose guesses are shown: "labels", or "classifier"."""
        if source != PROPAGATED and self._learned is None:
            raise InputError("no classifier is trained yet")
        self.source = PROPAGATED if source == PROPAGATED else f"classifier {self.loaded}"

    def wall(self, name: str, *, labeled: bool, start: int, n: int) -> dict[str, Any]:
        """Return rows of a class, from `start` on: labeled ones, newest first, or guessed ones, least sure first.

        The class "" has the rows that may be of a new class.
        """
        guessed, labels = self.guesses, self.store.labels()
        if labeled:
            rows = [row for row, label in reversed(labels.items()) if label == name]
        else:
            closed = self.store.closed_rows()
            mine = guessed.may_be_new if not name else guessed.codes == _index(guessed.classes, name)
            found = np.flatnonzero(mine)
            rows = [row for row in found[np.argsort(guessed.lead[found], kind="stable")].tolist() if row not in closed]
        tiles = [
            {"row": row, "name": self.views.name(row), "guess": guessed.of(row), "label": labels.get(row)}
            for row in rows[start : start + n]
        ]
        return {"tiles": tiles, "total": len(rows)}

    def state(self) -> dict[str, Any]:
        """Return what the page shows beside the row."""
        self.look_at_training()
        closed, guessed = self.store.closed_rows(), self.guesses
        said = list(closed.values())
        free = np.ones(len(self.views), bool)
        free[list(closed)] = False
        counts = np.bincount(guessed.codes[free & (guessed.codes >= 0)], minlength=len(guessed.classes)).tolist()
        labeled = self.store.counts()
        return {
            "version": self.store.version,
            "rows": len(self.views),
            "labeled": said.count(LABEL),
            "unsure": said.count(UNSURE),
            "skipped": said.count(SKIP),
            "classes": [{"name": name, "key": key, "n": labeled[name]} for name, key in self.store.classes.items()],
            "guessed": dict(zip(guessed.classes, counts, strict=True)),
            "new": int((guessed.may_be_new & free).sum()),
            "guesses_of": self.guesses.version,
            "source": self.source,
            "sources": [PROPAGATED, *([f"classifier {self.loaded}"] if self._learned else [])],
            "ready": self.guessing.ready,
            "estimate": self._estimate(),
            "training": self.training.status(),
            "trouble": self.store.trouble or self.trouble or self.guessing.failure,
            "browsers": len(self._browsers),
        }

    def _estimate(self) -> dict[str, Any]:
        at = (self.store.version, self.source)
        if self._estimated[0] != at:
            known = len(self.store.labels())
            self._estimated = at, estimate(self.store.since(0), source=self.source, known=known)
        return self._estimated[1]

    # --- the classifier ----------------------------------------------------------------------------------

    def train(self, minutes: float | None) -> None:
        """Train a classifier with the labels so far."""
        labels = self.store.labels()
        if len(set(labels.values())) < 2:
            raise InputError("a classifier needs labels of two classes or more")
        self.trouble = ""
        self.training.start(label_file(labels, [], self.data.files, {}), minutes=minutes)

    def look_at_training(self) -> None:
        """Load the classifier of a run that is done, in a thread, and show its guesses."""
        number = self.training.number
        if number == self.loaded or self.training.status()["state"] != "done":
            return
        if self._loading.acquire(blocking=False):
            threading.Thread(target=self._load, args=(number,), daemon=True).start()

    def _load(self, number: int) -> None:
        try:
            classifier = load(self.training.runs / str(number), device="cpu")
            learned = guesses_of(classifier, self.data.x, self.store.version)
            self.classifier, self._learned, self.source = classifier, learned, f"classifier {number}"
        except Exception as error:
            self.trouble = str(error) if isinstance(error, InputError) else one_line(error)
        finally:
            self.loaded = number
            self._loading.release()


def _index(names: list[str], name: str) -> int:
    return names.index(name) if name in names else -2
