"""The CSV file of labels while it is being filled in: lines and columns that are there stay, new rows come last."""

from pathlib import Path

from mmdgm.data.label_files import FILE, LABEL, ROW, read_labels_of_rows
from mmdgm.data.table_files import csv_bytes, read_sheet
from mmdgm.files import write_whole


class LabelFile:
    """A label file, see `data.label_files`. `labels`: the label of each labeled row."""

    def __init__(self, path: Path, n_rows: int, files: list[str] | None):
        self.path, self._files = path, files
        self.labels: dict[int, str] = {}
        self._header, self._lines = [ROW, *([] if files is None else [FILE]), LABEL], list[list[str]]()
        self._place: dict[int, list[int]] = {}  # the lines of each row
        if path.exists():
            self.labels = read_labels_of_rows(path, n_rows, files)
            sheet = read_sheet(path)
            self._header = sheet.header
            self._lines = [list(line) for line in zip(*map(sheet.column, self._header), strict=True)]
            rows_of = {str(row) if files is None else files[row]: row for row in range(n_rows)}
            key = self._header.index(ROW if files is None else FILE)
            for place, line in enumerate(self._lines):
                if (row := rows_of.get(line[key].strip())) is not None:  # None: a line that nobody filled in
                    self._place.setdefault(row, []).append(place)

    def set(self, row: int, label: str) -> None:
        """Give a row a label; an empty one takes its label away."""
        if label:
            self.labels[row] = label
        else:
            self.labels.pop(row, None)
        if row not in self._place:
            if not label:
                return
            cells = {ROW: str(row), FILE: "" if self._files is None else self._files[row]}
            self._place[row] = [len(self._lines)]
            self._lines.append([cells.get(name, "") for name in self._header])
        for place in self._place[row]:
            self._lines[place][self._header.index(LABEL)] = label

    def write(self) -> None:
        """Replace the file whole. Without a line there is none."""
        if self._lines:
            write_whole(self.path, csv_bytes(self._header, self._lines))
