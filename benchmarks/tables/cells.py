"""The file of results: cells of figures by the name of what was measured."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mmdgm.errors import InputError
from mmdgm.experiments.provenance import software
from mmdgm.files import read_json, write_whole

Cell = dict[str, Any]


class Key(NamedTuple):
    """What a cell is of. `labels` is None for an imputer that uses no labels."""

    table: str
    missing: str
    labels: int | None
    seed: int
    method: str

    def __str__(self) -> str:
        return "/".join("-" if part is None else str(part) for part in self)

    @classmethod
    def of(cls, text: str) -> "Key":
        """The key that `str` wrote."""
        table, missing, labels, seed, method = text.split("/")
        return cls(table, missing, None if labels == "-" else int(labels), int(seed), method)


class Results:
    """A JSON file to which several processes may add cells. `software` lists what measured them, by their number."""

    def __init__(self, path: Path) -> None:
        self.path, self.software = path, software()

    def cells(self) -> dict[Key, Cell]:
        """All cells so far."""
        return {Key.of(text): cell for text, cell in self._read()["cells"].items()}

    def add(self, key: Key, cell: Cell) -> None:
        """Write a cell into the file."""
        with self._alone():
            report = self._read()
            if self.software not in report["software"]:
                report["software"].append(self.software)
            report["cells"][str(key)] = {**cell, "software": report["software"].index(self.software)}
            write_whole(self.path, one_line_per_cell(report).encode())

    def _read(self) -> dict[str, Any]:
        if not self.path.exists():
            return {"software": [], "cells": {}}
        report = read_json(self.path)
        if not {"software", "cells"} <= set(report):
            raise InputError(f"{self.path}: is of another benchmark; give another --out")
        return report

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def one_line_per_cell(report: dict[str, Any]) -> str:
    """The report as JSON, with sorted cells, so that files of two runs can be compared."""
    cells = ",\n".join(f"  {json.dumps(key)}: {json.dumps(cell)}" for key, cell in sorted(report["cells"].items()))
    programs = ",\n".join(f"  {json.dumps(program)}" for program in report["software"])
    return f'{{\n "software": [\n{programs}\n ],\n "cells": {{\n{cells}\n }}\n}}\n'
