"""Users' arrays, lists and data frames: their columns, their missing entries, and filled copies."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.cells import check_kinds, holds_numbers, is_empty, is_missing, number
from mmdgm.errors import InputError, one_line

Values = NDArray[np.float32]
WHITE, DARK = 255, 32  # bytes that are grey values reach white, or at least DARK in some image


def as_array(X: Any, numeric: list[bool] | None = None) -> Any:
    """Convert lists to an array in which numbers beside text stay numbers. Data frames are returned unchanged.

    Masked entries of numpy's masked arrays are missing values.
    If all cells are text, they are read like the cells of a CSV file. Empty cells are missing values. A column holds
    numbers if `numeric` says so. Without `numeric`, it holds numbers if all its non-empty cells are numbers.
    """
    if hasattr(X, "iloc"):
        _check_frame(X)
        return X
    if hasattr(X, "toarray"):
        return X
    X = _unmasked(X) if isinstance(X, np.ma.MaskedArray) else X
    try:
        array = np.asarray(X)
    except ValueError:
        raise InputError("X: the rows do not have the same number of values") from None
    except (TypeError, RuntimeError) as error:  # torch: of a type that numpy lacks, or part of a gradient
        raise InputError(f"X cannot become an array ({one_line(error)})") from None
    check_kinds("X", array)
    if array.dtype.kind not in "US" or array.ndim != 2:
        return array
    given = array if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if not all(isinstance(value, str | bytes) for value in given.flat):
        return given
    try:
        cells = np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    except UnicodeDecodeError:
        raise InputError("X holds bytes that are no UTF-8 text; decode them first") from None
    if numeric is None or len(numeric) != cells.shape[1]:
        numeric = [holds_numbers(column) for column in cells.T]
    read = np.empty(cells.shape, object)
    for i, column in enumerate(cells.T):
        read[:, i] = [_value(str(cell), numeric[i]) for cell in column]
    only_numbers = all(isinstance(value, float) for value in read.flat)
    return read.astype(np.float64) if only_numbers else read


def _check_frame(X: Any) -> None:
    """Raise InputError for a series, for two columns of one name, and for sparse columns."""
    if len(X.shape) != 2:
        raise InputError(f"X has the shape {X.shape}; give a data frame or an array of two dimensions")
    if twice := X.columns[X.columns.duplicated()].tolist():
        raise InputError(f"two columns are called {twice[0]!r}; give each a name of its own")
    if sparse := [name for name, kind in X.dtypes.items() if hasattr(kind, "fill_value")]:
        raise InputError(f"column {sparse[0]} is sparse; make it dense, as by X.sparse.to_dense()")


def _unmasked(X: Any) -> NDArray[Any]:
    """A masked array with missing values, NaN or None, in place of its masked entries."""
    if not np.ma.getmaskarray(X).any():
        return np.asarray(X)
    holds_floats, is_number = X.dtype.kind == "f", X.dtype.kind in "iub"
    if holds_floats or is_number:
        return np.asarray((X if holds_floats else X.astype(np.float64)).filled(np.nan))
    objects: NDArray[Any] = np.ma.getdata(X).astype(object)
    objects[np.ma.getmaskarray(X)] = None
    return objects


def as_floats(objects: NDArray[Any]) -> NDArray[np.float64]:
    """An array of objects as floats, with NaN for missing values."""
    try:
        return np.where(is_missing(objects.ravel()).reshape(objects.shape), np.nan, objects).astype(np.float64)
    except OverflowError:
        raise InputError("X holds a number that is too large") from None
    except ValueError as error:
        raise InputError(f"X holds text that is no number ({error})") from None


def _value(cell: str, numeric: bool) -> float | str | None:
    """Value of a text cell. In a numeric column, text that is not a number is kept; a later check reports it."""
    if is_empty(cell):
        return np.nan if numeric else None
    found = number(cell) if numeric else None
    return cell if found is None else found


def highest_byte(X: NDArray[np.uint8]) -> int:
    """The value of images of bytes that counts as white: 255, or the highest one if all are below DARK.

    Such bytes are no grey values, but small numbers such as 0 and 1.
    """
    top = int(X.max(initial=0))
    return WHITE if top >= DARK else max(top, 1)


def about_bytes(X: Any) -> str | None:
    """A warning about images of bytes that are not taken as grey values up to 255; None for zeros and ones."""
    if getattr(X, "dtype", None) != np.uint8 or np.ndim(X) < 3 or (top := highest_byte(X)) in (1, WHITE):
        return None
    return f"the images hold bytes up to {top}, which counts as white; if they are dark, give floats: X / {WHITE}"


def columns_of(X: Any) -> list[NDArray[Any]]:
    """The columns of a data frame or of an array `(rows, columns)`."""
    if hasattr(X, "iloc"):
        return [_plain(X.iloc[:, i]) for i in range(X.shape[1])]
    return list(np.asarray(X).T)


def _plain(series: Any) -> NDArray[Any]:
    """A data frame's column as numbers with NaN, or as objects with None."""
    missing = np.asarray(series.isna())
    if getattr(series.dtype, "kind", "O") in "fiub":
        return np.where(missing, np.nan, np.asarray(series.to_numpy(dtype=np.float64, na_value=np.nan)))
    values = np.array(series.astype(object))
    values[missing] = None
    return values


def categorical_columns(X: Any) -> list[int]:
    """Positions of a data frame's columns of dtype "category". Such columns may hold numbers."""
    return [i for i in range(X.shape[1]) if hasattr(X.iloc[:, i], "cat")] if hasattr(X, "iloc") else []


def has_categories(X: Any) -> bool:
    """Whether a data frame or an array has columns that are not numeric."""
    if hasattr(X, "iloc"):
        return any(getattr(dtype, "kind", "O") not in "fiub" for dtype in X.dtypes)
    array = np.asarray(X) if not hasattr(X, "dtype") else X
    return (
        getattr(array.dtype, "kind", "f") == "O"
        and array.ndim == 2
        and any(isinstance(value, str) for value in array.ravel())
    )


def missing_entries(X: Any) -> NDArray[np.bool_]:
    """Boolean mask of the missing entries of a user's array or data frame."""
    if hasattr(X, "iloc"):
        return np.asarray(X.isna())
    array = np.asarray(X)
    return is_missing(array.ravel()).reshape(array.shape)


def restore(X: Any, decoded: NDArray[Any], missing: NDArray[np.bool_]) -> Any:
    """A copy of the user's data whose missing entries are taken from `decoded`. Other entries stay unchanged."""
    if hasattr(X, "iloc"):
        filled = X.copy()
        for i in np.flatnonzero(missing.any(axis=0)):
            filled.isetitem(i, _fill_column(X.iloc[:, i], decoded[missing[:, i], i], missing[:, i]))
        return filled
    filled = np.array(X, copy=True)
    filled[missing] = decoded[missing]
    return filled


def _fill_column(column: Any, values: NDArray[Any], missing: NDArray[np.bool_]) -> Any:
    """A data frame's column with its missing entries filled. Integers that get fractions become Float64."""
    filled, kind = column.copy(), getattr(column.dtype, "kind", "O")
    if kind in "fb":
        values = values.astype(bool if kind == "b" else f"f{column.dtype.itemsize}")
    if kind in "iu" and (values % 1).any():
        filled = filled.astype("Float64")
    if hasattr(column, "cat"):
        known = set(column.cat.categories)
        filled = filled.cat.add_categories([value for value in dict.fromkeys(values) if value not in known])
    filled[missing] = values
    return filled


def first_row_without_values(x: Values) -> int | None:
    """Index of the first row without any observed value, or None."""
    missing = np.isnan(x.reshape(len(x), -1)).all(axis=1)
    return int(missing.argmax()) if missing.any() else None
