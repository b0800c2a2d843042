"""Users' CSV files: columns of numbers or of categories. An empty cell is a missing value.

Cells are kept as text, so that observed values can be written again unchanged.
"""

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.tables import is_empty, number
from mmdgm.errors import InputError


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A CSV file's cells as text."""

    path: Path
    header: list[str]
    rows: list[list[str]]
    lines: list[int]  # line of the file in which each row ends

    def column(self, name: str) -> list[str]:
        """The cells of a column."""
        place = self.header.index(name)
        return [row[place] for row in self.rows]


def read_sheet(path: Path) -> Sheet:
    """Read a CSV file with a header, in UTF-8. Blank lines are skipped."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is no UTF-8 text (byte {error.start}); save it as CSV in UTF-8") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows, lines = [], []
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num} is no CSV ({error})") from None
    if not rows:
        raise InputError(f"{path}: is empty; a header and rows are expected")
    sheet = Sheet(path=path, header=rows[0], rows=rows[1:], lines=lines[1:])
    _check(sheet)
    return sheet


def _check(sheet: Sheet) -> None:
    path, header = sheet.path, sheet.header
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        raise InputError(f"{path}: has one column, {header[0]!r}; separate columns by commas")
    if twice := [name for name in header if header.count(name) > 1]:
        raise InputError(f"{path}: two columns are called {twice[0]!r}; the first line must name each column")
    if not sheet.rows:
        raise InputError(f"{path}: has a header, but no rows")
    for row, line in zip(sheet.rows, sheet.lines, strict=True):
        if len(row) != len(header):
            raise InputError(f"{path}: line {line} has {len(row)} cells, the header {len(header)}")


def values(sheet: Sheet, names: list[str], numeric: list[bool]) -> NDArray[Any]:
    """Columns as `(rows, columns)`: floats with NaN, or objects with None if some columns are categories."""
    columns = [
        _numbers(sheet, name) if is_numeric else [None if is_empty(cell) else cell for cell in sheet.column(name)]
        for name, is_numeric in zip(names, numeric, strict=True)
    ]
    x = np.empty((len(sheet.rows), len(names)), np.float64 if all(numeric) else object)
    for i, column in enumerate(columns):
        x[:, i] = column
    return x


def _numbers(sheet: Sheet, name: str) -> list[float]:
    found = []
    for cell, line in zip(sheet.column(name), sheet.lines, strict=True):
        value = number(cell)
        if value is None or math.isinf(value):
            raise InputError(f"{sheet.path}: line {line}, column {name}: {cell!r} is no finite number")
        found.append(value)
    return found


def oddities(sheet: Sheet, names: list[str], numeric: list[bool]) -> list[str]:
    """Warnings about columns that were probably meant as numbers, or have too many categories."""
    lines = []
    for name, is_numeric in zip(names, numeric, strict=True):
        if is_numeric:
            continue
        cells = [cell for cell in sheet.column(name) if not is_empty(cell)]
        odd = [cell for cell in cells if number(cell) is None]
        different = len(set(cells))
        if 2 * len(odd) <= len(cells):
            lines.append(
                f"column {name} is taken as categories: {len(odd):,} of its {len(cells):,} values are no numbers, "
                f"such as {odd[0]!r}; leave a cell empty where a value is missing"
            )
        elif different > max(20, len(cells) // 2):
            lines.append(f"column {name} has {different:,} categories in {len(cells):,} values; better leave it out")
    return lines


def number_text(value: float) -> str:
    """A number as the text of a cell."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"


def cell_text(value: Any) -> str:
    """A number or a category as the text of a cell."""
    return value if isinstance(value, str) else number_text(float(value))


def filled_rows(sheet: Sheet, names: list[str], filled: NDArray[Any], missing: NDArray[np.bool_]) -> list[list[str]]:
    """The sheet's rows, with missing entries of the named columns taken from `filled`. Other cells stay unchanged."""
    rows = [list(row) for row in sheet.rows]
    places = [sheet.header.index(name) for name in names]
    for i, j in np.argwhere(missing):
        rows[i][places[j]] = cell_text(filled[i, j])
    return rows


def csv_bytes(header: list[str], rows: list[list[str]]) -> bytes:
    """A CSV file's content."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue().encode(errors="surrogateescape")
