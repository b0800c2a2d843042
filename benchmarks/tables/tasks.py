"""Tables, and the tasks that a seed draws from them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split

from mmdgm.errors import InputError
from mmdgm.files import read_json

ROWS = 2_000  # largest number of rows of a task
TEST = 0.3  # share of test rows
FEWEST = 4  # rows of a class; smaller classes are left out
OF_SCIKIT_LEARN: dict[str, Callable[..., Any]] = {
    "iris": load_iris,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
}

Labels = NDArray[np.int64]


class Table(NamedTuple):
    """Columns of floats (NaN: missing) and of objects, the categories (None: missing); and class numbers."""

    x: pd.DataFrame
    y: Labels


@dataclass(frozen=True, eq=False)
class Task:
    """Training and test rows with hidden cells. `y` has the classes of all training rows; methods get `labels`."""

    x: pd.DataFrame
    y: Labels
    x_test: pd.DataFrame
    y_test: Labels
    complete_test: pd.DataFrame  # the test rows before cells were hidden
    seed: int

    def labels(self, per_class: int) -> Labels:
        """Labels of some rows of each class, at most half of its training rows; −1 for all others.

        The rows for a smaller number are among those for a larger one.
        """
        given = np.full(len(self.y), -1)
        for k in np.unique(self.y):
            rows = np.random.default_rng([self.seed, k]).permutation(np.flatnonzero(self.y == k))
            given[rows[: max(1, min(per_class, len(rows) // 2))]] = k
        return given

    @property
    def hidden_test(self) -> NDArray[np.bool_]:
        """Mask of the test rows' cells that have a value but were hidden."""
        return np.asarray(self.complete_test.notna() & self.x_test.isna())


def table_names(folder: Path | None) -> list[str]:
    """Names of the tables of a folder and of scikit-learn."""
    return [*(read_json(folder / "manifest.json") if folder else ()), *OF_SCIKIT_LEARN]


def read_table(name: str, folder: Path | None) -> Table:
    """Read a table of scikit-learn, or of a folder with CSV files and a manifest.json.

    The manifest gives each table's `target` column and the `types` of its columns, "number" or "category". An empty
    cell is a missing value.
    """
    if name in OF_SCIKIT_LEARN:
        x, y = OF_SCIKIT_LEARN[name](return_X_y=True)
        return Table(pd.DataFrame(x, columns=[f"column {i}" for i in range(x.shape[1])], dtype=float), y)
    known = read_json(folder / "manifest.json") if folder else {}
    if name not in known:
        raise InputError(f"there is no table {name}; there are: {', '.join(table_names(folder))}")
    path = Path(folder or "") / f"{name}.csv"
    cells = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=[""], encoding="utf-8")
    y = np.unique(cells.pop(known[name]["target"]).to_numpy(str), return_inverse=True)[1]
    types = known[name]["types"]
    return Table(cells.apply(lambda column: as_kind(column, types[column.name])), y)


def as_kind(column: "pd.Series[Any]", kind: str) -> "pd.Series[Any]":
    """A column of text as floats with NaN, or as objects with None."""
    if kind == "number":
        return column.astype(float)
    values = column.astype(object)
    return values.where(values.notna(), None)


def draw_task(table: Table, *, missing: float, seed: int) -> Task:
    """Draw a task: at most 2,000 rows, a stratified split 70/30, and cells hidden completely at random.

    `missing`: the probability that an observed cell is hidden. Every row keeps an observed cell. Rows that have none
    in the table, very small classes, and columns without an observed training cell are left out.
    """
    rng = np.random.default_rng(seed)
    rows = np.flatnonzero(table.x.notna().any(axis=1))
    if len(rows) > ROWS:
        rows = rng.choice(rows, ROWS, replace=False)
    rows = rows[np.bincount(table.y[rows])[table.y[rows]] >= FEWEST]
    complete, y = table.x.iloc[rows].reset_index(drop=True), np.unique(table.y[rows], return_inverse=True)[1]
    damaged = with_holes(complete, missing, rng)
    train, test = train_test_split(np.arange(len(y)), test_size=TEST, stratify=y, random_state=seed)
    seen = damaged.columns[damaged.iloc[train].notna().any()]
    parts = [frame[seen].iloc[r].reset_index(drop=True) for frame, r in ((damaged, train), (damaged, test))]
    complete_test = complete[seen].iloc[test].reset_index(drop=True)
    return Task(parts[0], y[train], parts[1], y[test], complete_test, seed)


def with_holes(x: pd.DataFrame, missing: float, rng: np.random.Generator) -> pd.DataFrame:
    """A copy whose cells are hidden with a probability. Every row keeps one of its observed cells."""
    observed = np.asarray(x.notna())
    hidden = observed & (rng.random(x.shape) < missing)
    for row in np.flatnonzero(~(observed & ~hidden).any(axis=1)):
        hidden[row, rng.choice(np.flatnonzero(observed[row]))] = False
    return x.mask(hidden, None)
