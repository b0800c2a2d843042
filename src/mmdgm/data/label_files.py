"""Label files: CSV files with one line per labeled or suggested row, which a person fills in.

row     number of the row, from 0
file    of images: the file, relative to their folder, which names the row instead of the number
label   the class; an empty cell: not known yet
"""

from pathlib import Path

from mmdgm.data.table_files import csv_bytes, read_sheet
from mmdgm.errors import InputError

ROW, FILE, LABEL = "row", "file", "label"


def read_labels_of_rows(path: Path, n_rows: int, files: list[str] | None) -> dict[int, str]:
    """Read the labels of a label file by row. `files`: the names of the rows, if they are images."""
    sheet = read_sheet(path)
    key = ROW if files is None else FILE
    if absent := [name for name in (key, LABEL) if name not in sheet.header]:
        raise InputError(f"{path}: has no column {absent[0]}; `mmdgm suggest` writes such a file")
    rows_of = {str(row) if files is None else files[row]: row for row in range(n_rows)}
    labels: dict[int, str] = {}
    for i, (name, label) in enumerate(zip(sheet.column(key), sheet.column(LABEL), strict=True)):
        if not label.strip():
            continue
        if (row := rows_of.get(name.strip())) is None:
            raise InputError(f"{path}: {sheet.place(i)}: the data have no {key} {name}")
        if labels.setdefault(row, label.strip()) != label.strip():
            both = f"{labels[row]} and {label.strip()}"
            raise InputError(f"{path}: {sheet.place(i)}: {key} {name} has two labels, {both}")
    return labels


def label_file(
    labels: dict[int, str],
    suggested: list[int],
    files: list[str] | None,
    others: dict[str, list[str]],
) -> bytes:
    """Return a label file: the rows with known labels, then the suggested rows, in order, with empty labels.

    `others`: columns to show, by name, with a cell for every row of the data.
    """
    shown = {name: cells for name, cells in others.items() if name not in (ROW, FILE, LABEL)}
    header = [ROW, *([] if files is None else [FILE]), LABEL, *shown]
    lines = [
        [str(row), *([] if files is None else [files[row]]), labels.get(row, ""), *(c[row] for c in shown.values())]
        for row in (*labels, *suggested)
    ]
    return csv_bytes(header, lines)
