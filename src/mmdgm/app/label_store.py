"""What people said about which row: labels, skipped rows and undecided ones, shared by all browsers.

Every event becomes a line of the journal (`label_journal`), which is on the disk before the event is acknowledged.
Then the CSV file of labels, as `mmdgm suggest` writes and `mmdgm fit --labels` reads it, is replaced whole.

v       number of the line, from 1 on: the version of the store after it
id      of the event, made by the browser; an event that comes again changes nothing
row     number of the row, or the name of its file
kind    label, unsure, skip, none (nothing said), or class: a class without any label yet
label   the class
was     kind, label and v of what was said about the row before, for undo
check, predicted, known     see `label_estimate`

The last word on a row counts. A line of kind `csv` says up to which version the CSV file was written: labels that
somebody changed in the file since then count more than earlier lines.
"""

import threading
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from mmdgm.app.label_file_rows import LabelFile
from mmdgm.app.label_journal import Journal, Line
from mmdgm.app.label_keys import free_key
from mmdgm.errors import InputError, printable

LABEL, UNSURE, SKIP, NONE, CLASS, CSV = "label", "unsure", "skip", "none", "class", "csv"
UNDO, DROP = "undo", "drop"  # events that become lines of other kinds
LONGEST, MOST_CLASSES = 100, 1000


class Word(NamedTuple):
    """What was said last about a row, in which version."""

    kind: str = NONE
    label: str = ""
    v: int = 0


class LabelStore:
    """Labels in a CSV file and its journal. `given`: labels of the data, which count until somebody says otherwise."""

    def __init__(
        self, path: Path, n_rows: int, files: list[str] | None = None, given: Mapping[int, str] | None = None
    ):
        self.path, self._given, self._lock = path, dict(given or {}), threading.RLock()
        self._names = [str(row) for row in range(n_rows)] if files is None else files
        self._rows = {name: row for row, name in enumerate(self._names)}
        self.version, self.words = 0, dict[int, Word]()
        self.classes: dict[str, str] = {}  # name → key
        self.trouble: str | None = None  # why the CSV file could not be written; the journal has all labels
        self._lines, self._by_id = list[Line](), dict[str, Line]()
        self._file = LabelFile(path, n_rows, files)
        before = path.exists()
        self._journal = Journal(path.with_name(f"{path.name}.journal"))
        self.notes = list(self._journal.notes)
        try:
            self._start(before)
        except BaseException as error:
            self._journal.close()
            if isinstance(error, KeyError | TypeError | ValueError) and not isinstance(error, InputError):
                raise InputError(f"{self._journal.path}: is no journal of labels; move it away") from None
            raise

    def close(self) -> None:
        """Let another process have the labels."""
        self._journal.close()

    def __enter__(self) -> "LabelStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- questions ---------------------------------------------------------------------------------------

    def labels(self) -> dict[int, str]:
        """Return the label of each labeled row."""
        with self._lock:
            found = {row: label for row, label in self._given.items() if self.words.get(row, Word()).kind == NONE}
            return found | {row: word.label for row, word in self.words.items() if word.kind == LABEL}

    def closed_rows(self) -> dict[int, str]:
        """Return the rows that need not be asked about again, with what was said: label, unsure or skip."""
        with self._lock:
            found = dict.fromkeys(self._given, LABEL)
            return found | {row: word.kind for row, word in self.words.items() if word.kind != NONE}

    def since(self, version: int) -> list[Line]:
        """Return the lines after a version, with the row's number in place of its name."""
        with self._lock:
            new = self._lines[bisect_right(self._lines, version, key=itemgetter("v")) :]
            return [{**line, "row": self._rows[line["row"]]} if "row" in line else line for line in new]

    def counts(self) -> dict[str, int]:
        """Return the number of labeled rows of each class."""
        found = dict.fromkeys(self.classes, 0)
        for label in self.labels().values():
            found[label] = found.get(label, 0) + 1
        return found

    # --- events ------------------------------------------------------------------------------------------

    def add(self, events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Keep events in order, and return for each one its id and what became of it.

        An event has id, do (label, unsure, skip, undo, class or drop), and row, label, or of: the id to undo. A wrong
        event is refused alone, with the reason as `refused`. If the disk is full, no event is kept.
        """
        with self._lock:
            before = (self.version, dict(self.words), dict(self.classes), dict(self._by_id), len(self._lines))
            new, answers = list[Line](), list[dict[str, Any]]()
            for event in events:
                answer: dict[str, Any] = {"id": str(event.get("id", ""))}
                try:
                    lines = self._lines_of(event)
                    for line in lines:
                        self._apply(line)
                    new += lines
                    answer |= {"v": self.version}
                except InputError as error:
                    answer["refused"] = str(error)
                answers.append(answer)
            try:
                if new:
                    self._journal.append(new)
            except InputError:
                self.version, self.words, self.classes, self._by_id = before[:4]
                del self._lines[before[4] :]
                raise
            self._write_file(new)
            return answers

    def _lines_of(self, event: Mapping[str, Any]) -> list[Line]:
        """The journal lines for an event; none if it came before, or has nothing to change."""
        do, number = event.get("do"), event.get("id")
        if not (isinstance(number, str) and 0 < len(number) <= LONGEST):
            raise InputError("an event needs an id")
        if number in self._by_id:
            return []
        head = {"id": number, "who": str(event.get("who", ""))[:LONGEST], "at": round(time.time(), 3)}
        if do == UNDO:
            return self._undo(head, str(event.get("of", "")))
        if do in (CLASS, DROP):
            name = self._class_name(event.get("label"))
            if do == DROP and self.counts().get(name):
                raise InputError(f"the class {name} has labels; change these first")
            line = {**head, "kind": CLASS, "label": name, "key": None if do == DROP else free_key(name, self.classes)}
            return self._numbered([line] if (name in self.classes) == (do == DROP) else [])
        row = event.get("row")
        if do not in (LABEL, UNSURE, SKIP, NONE) or type(row) is not int or not 0 <= row < len(self._names):
            raise InputError(f"event {number}: there is no such row, or nothing such to say")
        name = self._class_name(event.get("label")) if do == LABEL else ""
        more = {key: event[key] for key in ("check", "predicted", "known", "source") if key in event}
        lines: list[Line] = []
        if name and name not in self.classes:
            lines = [{**head, "id": f"{number}+", "kind": CLASS, "label": name, "key": free_key(name, self.classes)}]
        lines.append({**head, "row": self._names[row], "kind": do, "label": name, "was": self._word(row), **more})
        return self._numbered(lines)

    def _undo(self, head: Line, of: str) -> list[Line]:
        line = self._by_id.get(of)
        if line is None or "row" not in line or line["row"] not in self._rows:
            raise InputError("there is nothing to undo")
        kind, label, v = line["was"]
        if self.words.get(self._rows[line["row"]], Word()).v != line["v"]:
            raise InputError(f"row {line['row']} was changed since then, so nothing was undone")
        more = {"was": self._word(self._rows[line["row"]]), "undoes": of, "back": v}
        return self._numbered([{**head, "row": line["row"], "kind": kind, "label": label, **more}])

    def _word(self, row: int) -> list[Any]:
        return list(self.words.get(row, Word()))

    def _numbered(self, lines: list[Line]) -> list[Line]:
        return [{"v": self.version + i, **line} for i, line in enumerate(lines, 1)]

    def _class_name(self, label: Any) -> str:
        name = label.strip() if isinstance(label, str) else ""
        if not 0 < len(name) <= LONGEST or printable(name) != name:
            raise InputError(f"a class needs a name of 1 to {LONGEST} printable characters")
        if name not in self.classes and len(self.classes) >= MOST_CLASSES:
            raise InputError(f"there are {MOST_CLASSES} classes, which is the most")
        return name

    def _apply(self, line: Line) -> None:
        """Let a line count."""
        self.version = line["v"]
        self._lines.append(line)
        self._by_id[line["id"]] = line
        if line["kind"] == CLASS:
            self.classes.pop(line["label"], None)
            if line["key"] is not None:
                self.classes[line["label"]] = line["key"]
        elif (row := self._rows.get(line["row"])) is not None:
            self.words[row] = Word(line["kind"], line["label"], line["back"] if "undoes" in line else line["v"])

    def _write_file(self, new: list[Line]) -> None:
        """Bring the CSV file up to date. The journal has everything, so a failure here is only noted."""
        changed = False
        for row in dict.fromkeys(self._rows[line["row"]] for line in new if "row" in line):
            word = self.words[row]
            label = word.label if word.kind == LABEL else ""
            if label != self._file.labels.get(row, ""):
                self._file.set(row, label)
                changed = True
        if not (changed or self.trouble):
            return
        try:
            self._file.write()
            self._journal.append([{"kind": CSV, "v": self.version}], lasting=False)
            self.trouble = None
        except InputError as error:
            self.trouble = str(error)

    # --- the start ---------------------------------------------------------------------------------------

    def _start(self, file_exists: bool) -> None:
        """Take what the journal and the CSV file say."""
        written, by_hand = 0, dict(self._file.labels)
        unknown = set[str]()
        for line in self._journal.lines:
            if line["kind"] == CSV:
                written = line["v"]
                continue
            if line["kind"] != CLASS and line["row"] not in self._rows:
                unknown.add(line["row"])
                self.version = line["v"]
                continue
            self._apply(line)
        if unknown:
            self.notes.append(f"{self._journal.path}: {len(unknown)} rows are not in the data, such as {min(unknown)}")
        if file_exists:
            for row, word in list(self.words.items()):
                if 0 < word.v <= written and word.kind == LABEL and row not in by_hand:
                    self.words[row] = Word(v=word.v)
            for row, label in by_hand.items():
                if (word := self.words.get(row, Word())).v <= written and (word.kind, word.label) != (LABEL, label):
                    self.words[row] = Word(LABEL, label, word.v)
        elif self._journal.lines:
            self.notes.append(f"{self.path} is missing; it is written again from its journal")
        for name in sorted({*self._given.values(), *by_hand.values()} - set(self.classes)):
            self.classes[name] = free_key(name, self.classes)
        for row, word in self.words.items():
            self._file.set(row, word.label if word.kind == LABEL else "")
        if self._file.labels != by_hand:
            self._file.write()
