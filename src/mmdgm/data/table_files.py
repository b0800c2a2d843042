"""Users' tables in CSV, TSV and Parquet files: columns of numbers or of categories. Cells may be missing.

pandas reads the files. Cells of CSV and TSV files are kept as text, so that observed values can be written again
unchanged; an empty cell is a missing value. Columns of Parquet files have types.
"""

import csv
import io
import math
import zlib
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.cells import holds_numbers, is_empty, number, oddity
from mmdgm.data.packed import unpacked
from mmdgm.errors import InputError

DELIMITERS = {"csv": ",", "tsv": "\t", "txt": "\t", "parquet": None}
NUMBERS = {"integer", "floating", "mixed-integer-float", "decimal", "boolean", "empty"}  # names of types in pandas
TEXT = "string"
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # beginnings of cells that spreadsheets compute


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A table from a file."""

    path: Path
    frame: Any  # pandas DataFrame
    delimiter: str | None  # None: a Parquet file

    @property
    def header(self) -> list[str]:
        """The names of the columns."""
        return list(self.frame.columns)

    def column(self, name: str) -> list[str]:
        """The cells of a column as text. Missing values of a Parquet file become empty cells."""
        column = self.frame[name]
        if self.delimiter is not None:
            return list(column.tolist())
        values = zip(column.astype(object), column.isna(), strict=True)
        return ["" if missing else _typed_text(value) for value, missing in values]

    def type_of(self, name: str) -> str:
        """The type of a column's values, as pandas calls it."""
        from pandas.api.types import infer_dtype

        if self.delimiter is not None:
            return TEXT
        column = self.frame[name]
        return str(infer_dtype(column.cat.categories if hasattr(column, "cat") else column))

    def is_numeric(self, name: str) -> bool:
        """Whether a column holds numbers: by its type, or in a text file by its cells."""
        return holds_numbers(self.column(name)) if self.delimiter else self.type_of(name) in NUMBERS

    def place(self, row: int) -> str:
        """The place of a row in the file, for messages."""
        if self.delimiter is None:
            return f"row {row}"
        reader = csv.reader(io.StringIO(_text(self.path), newline=""), delimiter=self.delimiter)
        lines = (reader.line_num for cells in reader if cells)  # the first one is the header's
        return f"line {next(islice(lines, row + 1, None))}"


def table_format(path: Path) -> str | None:
    """The format of a table's file: csv, tsv, txt or parquet, by the ending of its name. None: it is no table."""
    ending = Path(path.name.lower().removesuffix(".gz")).suffix[1:]
    return ending if ending in DELIMITERS and not path.is_dir() else None


def read_sheet(path: Path) -> Sheet:
    """Read a table whose columns have names."""
    delimiter = DELIMITERS[table_format(path) or "csv"]
    try:
        frame = _read_parquet(path) if delimiter is None else _read_text(path, delimiter)
    except ImportError:
        raise InputError(f'{path}: tables need pandas and pyarrow: pip install "mmdgm[tables]"') from None
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    frame.columns = [str(name) for name in frame.columns]
    if twice := frame.columns[frame.columns.duplicated()].tolist():
        raise InputError(f"{path}: two columns are called {twice[0]!r}; the first line must name each column")
    if not len(frame):
        raise InputError(f"{path}: has a header, but no rows")
    return Sheet(path=path, frame=frame, delimiter=delimiter)


def _read_parquet(path: Path) -> Any:
    import pandas

    with path.open("rb") as file:  # pandas would take columns from the names of folders
        try:
            return pandas.read_parquet(file, engine="pyarrow")
        except (ValueError, NotImplementedError, OSError) as error:
            line = str(error).partition("\n")[0]
            raise InputError(f"{path}: cannot be read as a Parquet file ({line})") from None


def _read_text(path: Path, delimiter: str) -> Any:
    """Read a CSV or TSV file as text cells. Blank lines are skipped.

    Only the Python engine of pandas is strict about quotes and lets short rows be seen: it fills them with None.
    """
    import pandas

    text = _text(path)
    file = io.StringIO(text.lstrip("\r\n"), newline="")
    try:
        header = next(csv.reader(file, delimiter=delimiter), None)
        _check_header(path, header, delimiter)
        file.seek(0)
        cells = pandas.read_csv(
            file,
            sep=delimiter,
            header=None,
            dtype=object,
            na_filter=False,
            skip_blank_lines=False,  # pandas would also skip rows of one empty cell
            engine="python",
        )
    except (csv.Error, pandas.errors.ParserError) as error:
        raise InputError(f"{path}: {_fault(text, delimiter) or error}") from None
    cells = cells[cells[0].notna()]
    if cells[cells.columns[-1]].isna().any():
        raise InputError(f"{path}: {_fault(text, delimiter)}")
    if any(f"'{sign}" in text for sign in FORMULA):
        header, cells = [unquoted(name) for name in header or []], cells.map(unquoted)
    return cells.iloc[1:].set_axis(header, axis=1)


def _check_header(path: Path, header: list[str] | None, delimiter: str) -> None:
    if header is None:
        raise InputError(f"{path}: is empty; a header and rows are expected")
    if len(header) == 1 and any(mark in header[0] for mark in {",", ";", "\t"} - {delimiter}):
        mark = "commas" if delimiter == "," else "tabs"
        raise InputError(f"{path}: has one column, {header[0]!r}; separate columns by {mark}")


def _text(path: Path) -> str:
    try:
        content = unpacked(path) if path.suffix.lower() == ".gz" else path.read_bytes()
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is no UTF-8 text (byte {error.start}); save it in UTF-8") from None


def _fault(text: str, delimiter: str) -> str | None:
    """The first line of a CSV or TSV file that cannot be read, and the reason."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    width = 0
    try:
        for row in filter(None, reader):
            width = width or len(row)
            if len(row) != width:
                return f"line {reader.line_num} has {len(row)} cells, the header {width}"
    except csv.Error as error:
        return f"line {reader.line_num} is no {'CSV' if delimiter == ',' else 'TSV'} ({error})"
    return None


def values(sheet: Sheet, names: list[str], numeric: list[bool]) -> NDArray[Any]:
    """Columns as `(rows, columns)`: floats with NaN, or objects with None if some columns are categories."""
    x = np.empty((len(sheet.frame), len(names)), np.float64 if all(numeric) else object)
    for i, (name, is_numeric) in enumerate(zip(names, numeric, strict=True)):
        if (kind := sheet.type_of(name)) not in (*NUMBERS, TEXT):
            raise InputError(f"{sheet.path}: column {name} holds {kind} values; give numbers, text or booleans")
        if is_numeric:
            x[:, i] = _numbers(sheet, name, typed=kind != TEXT)
        else:
            x[:, i] = [None if is_empty(cell) else cell for cell in sheet.column(name)]
    return x


def _numbers(sheet: Sheet, name: str, *, typed: bool) -> NDArray[np.float64]:
    if typed:
        found = sheet.frame[name].astype(np.float64).to_numpy()
    else:
        cells = sheet.column(name)
        found = np.array([math.inf if (value := number(cell)) is None else value for cell in cells])
    if np.isinf(found).any():
        row = int(np.isinf(found).argmax())
        cell = sheet.column(name)[row]
        raise InputError(f"{sheet.path}: {sheet.place(row)}, column {name}: {cell!r} is no finite number")
    return np.asarray(found, np.float64)


def oddities(sheet: Sheet, names: list[str], numeric: list[bool]) -> list[str]:
    """Warnings about columns that were probably meant as numbers, or have too many categories."""
    text = [name for name, is_numeric in zip(names, numeric, strict=True) if not is_numeric]
    found = [oddity(name, [cell for cell in sheet.column(name) if not is_empty(cell)]) for name in text]
    return [line for line in found if line is not None]


def _typed_text(value: Any) -> str:
    """A value of a Parquet file as the text of a cell. Whole numbers have no point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)


def number_text(value: float) -> str:
    """A number as the text of a cell."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"


def cell_text(value: Any) -> str:
    """A number or a category as the text of a cell."""
    return value if isinstance(value, str) else number_text(float(value))


def filled_rows(sheet: Sheet, names: list[str], filled: NDArray[Any], missing: NDArray[np.bool_]) -> list[list[str]]:
    """The sheet's rows, with missing entries of the named columns taken from `filled`. Other cells stay unchanged."""
    columns = {name: sheet.column(name) for name in sheet.header}
    for j, name in enumerate(names):
        holds_truths = sheet.type_of(name) == "boolean"
        for i in np.flatnonzero(missing[:, j]):
            value = filled[i, j]
            columns[name][i] = str(value == 1) if holds_truths and value in (0, 1) else cell_text(value)
    return [list(row) for row in zip(*columns.values(), strict=True)]


def csv_bytes(header: list[str], rows: list[list[str]]) -> bytes:
    """A CSV file's content. Names of files need not be UTF-8."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([quoted(cell) for cell in row] for row in (header, *rows))
    return text.getvalue().encode(errors="surrogateescape")


def quoted(cell: str) -> str:
    """A cell with an apostrophe before it if a spreadsheet would take its text as a formula. Numbers stay."""
    return f"'{cell}" if cell.startswith(FORMULA) and number(cell) is None else cell


def unquoted(cell: Any) -> Any:
    """The cell that `quoted` was given."""
    text = isinstance(cell, str) and cell.startswith("'") and quoted(cell[1:]) == cell
    return cell[1:] if text else cell
