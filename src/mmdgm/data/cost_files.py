"""Cost files: tables with the cost of predicting the column's class where the row's class is true.

The header holds the classes from its second cell on, and the first column holds the same classes, in any order.
"""

import math
from collections import Counter
from pathlib import Path

import numpy as np

from mmdgm.data.cells import number
from mmdgm.data.table_files import read_sheet
from mmdgm.errors import InputError


def read_costs(path: Path, classes: list[str]) -> list[list[float]]:
    """Read a cost file as a `cost_matrix`: in the order of the classes, and divided by the mean cost of an error.

    Costs are relative: with a mean of 1, `margin` keeps its scale.
    """
    sheet = read_sheet(path)
    first, *predicted = (name.strip() for name in sheet.header)
    true = [name.strip() for name in sheet.column(sheet.header[0])]
    for where, names in (("header", predicted), (f"first column, {first!r}," if first else "first column", true)):
        _check_names(path, where, names, classes)
    columns = dict(zip(predicted, map(sheet.column, sheet.header[1:]), strict=True))
    costs = np.zeros((len(classes), len(classes)))
    for i, j in np.ndindex(costs.shape):
        row, name = true.index(classes[i]), classes[j]
        cost = number(columns[name][row])
        if cost is None or not math.isfinite(cost) or cost < 0 or (i == j and cost):
            wanted = "0, the cost of the right class" if i == j else "a number, 0 or more"
            raise InputError(
                f"{path}: {sheet.place(row)}, column {name}: the cost {columns[name][row]!r} must be {wanted}"
            )
        costs[i, j] = cost
    if not costs.any():
        raise InputError(f"{path}: all costs are 0")
    relative: list[list[float]] = (costs * (costs.size - len(costs)) / costs.sum()).tolist()
    return relative


def _check_names(path: Path, where: str, names: list[str], classes: list[str]) -> None:
    if absent := [name for name in classes if name not in names]:
        raise InputError(f"{path}: the {where} lacks the class {absent[0]!r}")
    if unknown := [name for name in names if name not in classes]:
        raise InputError(
            f"{path}: the {where} has {unknown[0]!r}, which is no class of the data ({', '.join(classes)})"
        )
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(f"{path}: the {where} has the class {twice[0]!r} twice")
