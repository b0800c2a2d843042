"""Cells of users' columns: numbers, text, or nothing, and whatever else was put there by mistake."""

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.errors import InputError, printable

FEW = 20  # categories that a column of few rows may have


def is_empty(cell: str) -> bool:
    """Whether a text cell holds no value."""
    return not cell.strip()


def number(cell: str) -> float | None:
    """The number in a cell: NaN if the cell is empty, None if it is not a number."""
    try:
        return None if "_" in cell else float(cell)  # Python would accept 1_000
    except ValueError:
        return math.nan if is_empty(cell) else None


def holds_numbers(cells: Iterable[str]) -> bool:
    """Whether all non-empty cells are numbers."""
    return all(number(cell) is not None for cell in cells)


def is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Boolean mask of NaN, None or pandas' NA in an array of one dimension."""
    if values.dtype.kind == "O":
        return np.array([value is None or _is_na(value) or value != value for value in values], bool)
    return np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)


def check_kinds(name: str, values: NDArray[Any]) -> None:
    """Raise InputError if an array holds anything but real numbers, text, booleans and missing values.

    Dates are no numbers: numpy would turn them into some, and a missing date into −9·10¹⁸.
    """
    if values.dtype.kind not in "OfiubUS":
        raise InputError(f"{name} holds {values.dtype} values; give numbers, text or booleans")
    if values.dtype.kind != "O":
        return
    for kind in set(map(type, values.ravel().tolist())):
        if not (issubclass(kind, str | bytes | Real | Decimal | np.bool_ | type(None)) or kind.__name__ == "NAType"):
            raise InputError(f"{name} holds {kind.__name__} values; give numbers, text or booleans")


def _is_na(value: Any) -> bool:
    return type(value).__name__ == "NAType"  # of pandas, which need not be installed


def oddity(name: str, cells: Sequence[Any]) -> str | None:
    """A warning about a column of text that was probably meant as numbers, or has too many categories.

    `cells`: those that are not missing.
    """
    texts = [cell for cell in cells if isinstance(cell, str)]
    odd = [cell for cell in texts if number(cell) is None]
    different = len(set(cells))
    name = printable(name)
    if odd and 2 * len(odd) <= len(cells):
        return (
            f"column {name} is taken as categories: {len(odd):,} of its {len(cells):,} values are no numbers, "
            f"such as {odd[0]!r}; leave a cell empty where a value is missing"
        )
    if different > max(FEW, len(cells) // 2):
        return f"column {name} has {different:,} categories in {len(cells):,} values; better leave it out"
    return None
