"""Users' labels: they have any type, and some may be missing."""

import warnings
from typing import Any
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from mmdgm.data.cells import number
from mmdgm.errors import InputError, one_line

Codes = NDArray[np.int64]
PRIOR_COUNT = 5  # labels per class that equal shares are worth


def is_nan(value: Any) -> bool:
    """Whether a value is NaN or pandas' NA. These do not equal themselves."""
    equal = value == value
    return not isinstance(equal, bool | np.bool_) or not equal


def as_labels(y: Any) -> NDArray[Any]:
    """One column of labels. Raises InputError for labels that would silently become others."""
    if isinstance(y, np.ma.MaskedArray) and np.ma.getmaskarray(y).any():
        raise InputError("y is a masked array; write the marker of unlabeled rows into it, such as y.filled(-1)")
    kind = getattr(getattr(y, "dtype", None), "numpy_dtype", None)  # of pandas' Int64, boolean and others
    if kind is not None and kind.kind in "iub" and not y.isna().any():
        y = y.to_numpy(kind)  # scikit-learn would make floats of them
    try:
        y = np.asarray(column_or_1d(y, warn=True))
    except RuntimeError as error:  # torch: part of a gradient
        raise InputError(f"y cannot become an array ({one_line(error)})") from None
    kinds = {bytes} if y.dtype.kind == "S" else set(map(type, y)) if y.dtype.kind == "O" else set()
    if bytes in kinds:
        raise InputError("y holds bytes; give text, such as y.astype(str)")
    if y.dtype.kind not in "OfiubUS":
        raise InputError(f"y holds {y.dtype} values; give numbers or text")
    for kind in kinds:
        if kind.__hash__ is None:
            raise InputError(f"y holds {kind.__name__} values; give numbers or text")
    labels: NDArray[Any] = y
    return labels


def minus_one_is_a_class(labels: NDArray[Any], marker: Any) -> bool:
    """Whether the marker is −1 but the labels are −1 and 1. Then −1 is a class, as in many data sets."""
    return bool(not is_nan(marker) and marker in (-1, "-1") and set(labels.tolist()) == {-1, 1})


def is_unlabeled(y: NDArray[Any], marker: Any, *, classes: NDArray[Any] | None = None) -> NDArray[np.bool_]:
    """Boolean mask of the rows where y equals the marker. All False if the marker is None, or if −1 is a class.

    Numbers equal a marker that is the same number as text, and the other way round. The marker may be NaN.
    `classes`: the known classes; None: y holds all classes.
    """
    if np.ndim(marker) or isinstance(marker, dict | set):
        raise InputError(f"unlabeled={marker!r}: give one value, which marks the rows without a label")
    if marker is None or minus_one_is_a_class(y if classes is None else classes, marker):
        return np.zeros(len(y), bool)
    if is_nan(marker):
        return np.array([is_nan(value) for value in y], bool)
    if y.dtype.kind in "US":
        return np.asarray(y == str(marker))
    if y.dtype.kind == "O":  # the marker may also occur as text
        return np.array([not is_nan(value) and (value == marker or str(value) == str(marker)) for value in y], bool)
    return np.asarray(y == (number(marker) if isinstance(marker, str) else marker))


def holds_classes(y: Any, marker: Any) -> bool:
    """Whether the labeled rows of y are one column of classes, not regression targets or several columns."""
    array = np.asarray(y)
    if array.ndim > 1 and array.shape[1] != 1:
        return False
    y = as_labels(y if array.ndim < 2 else array.ravel())
    known = y[~is_unlabeled(y, marker)]
    refuse_missing(known, marker)
    return type_of_target(known, input_name="y") in ("binary", "multiclass")


def refuse_missing(labeled: NDArray[Any], marker: Any) -> None:
    """Raise InputError if the labels of labeled rows hold None or NaN."""
    if labeled.dtype.kind == "O" and any(value is None for value in labeled):
        instead = -1 if marker is None else marker
        raise InputError(f"y holds None; replace it by what marks the unlabeled rows, unlabeled={instead!r}")
    if labeled.dtype.kind in "Of" and any(is_nan(value) for value in labeled):
        raise InputError("y holds NaN; if it marks the unlabeled rows, give unlabeled=np.nan")


def read_labels(y: Any, marker: Any) -> tuple[NDArray[Any], Codes]:
    """Sorted classes, and each row's class index, −1 for unlabeled rows."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    y = as_labels(y)
    unlabeled = is_unlabeled(y, marker)
    if minus_one_is_a_class(y, marker):
        warnings.warn(
            "the labels are -1 and 1: -1 is taken as a class, not as unlabeled; unlabeled=None says so too",
            UserWarning,
            stacklevel=4,
        )
    labeled = y[~unlabeled]
    refuse_missing(labeled, marker)
    assert_all_finite(labeled, input_name="y")
    if labeled.dtype.kind == "O" and len({type(value) for value in labeled}) > 1:
        kinds = ", ".join(sorted({type(value).__name__ for value in labeled}))
        raise InputError(f"y mixes labels of several types ({kinds}); make them all text or all numbers")
    if not len(labeled):
        raise InputError(f"no row is labeled: y holds nothing but {marker!r}; give some labels of each class")
    check_classification_targets(labeled)
    classes = np.unique(labeled)
    if len(classes) < 2:
        raise InputError(f"y has one class, {classes.tolist()[0]!r}; a classifier needs labels of two classes or more")
    _check_text(classes)
    codes = np.full(len(y), -1, np.int64)
    codes[~unlabeled] = np.searchsorted(classes, labeled)
    return classes, codes


def _check_text(classes: NDArray[Any]) -> None:
    """Raise InputError for a class that no file can hold, or that looks like another one.

    The name of a folder that is no UTF-8 is such a class.
    """
    looks: dict[str, str] = {}
    for name in classes.tolist() if classes.dtype.kind in "OU" else ():
        try:
            str(name).encode()
        except UnicodeEncodeError:
            raise InputError(f"the class {name} is no valid Unicode; give it another name") from None
        same = looks.setdefault(normalize("NFC", str(name)), str(name))
        if same != str(name):
            raise InputError(
                f"the classes {same!r} and {name!r} differ in the form of their Unicode alone; bring the labels to "
                f"one form, by unicodedata.normalize('NFC', label)"
            )


def held_out_rows(codes: Codes, fraction: float, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Indices of labeled rows held out for early stopping: a share of each class, but never all its rows."""
    held = []
    for k in range(codes.max() + 1):
        rows = rng.permutation(np.flatnonzero(codes == k))
        held.append(rows[: min(round(fraction * len(rows)), len(rows) - 1)])
    chosen = np.concatenate(held)
    if not len(chosen):
        raise InputError("validation_fraction holds no row out: there are too few labels; leave it None")
    return np.sort(chosen)


def class_factors(class_weight: Any, classes: NDArray[Any], codes: Codes) -> NDArray[np.float32] | None:
    """Factors of the hinge loss, `(K,)`.

    "balanced": N / (K · N_k) for a class with N_k of the N labeled rows; the mean over these rows is 1. A dict gives
    the factors itself; classes that it leaves out get 1.
    """
    if class_weight is None:
        return None
    counts = np.bincount(codes[codes >= 0], minlength=len(classes))
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise InputError(f"class_weight={class_weight!r}: give 'balanced', a dict or None")
        factors = counts.sum() / (len(classes) * counts)
    elif isinstance(class_weight, dict):
        known = classes.tolist()
        if unknown := [label for label in class_weight if label not in known]:
            raise InputError(f"class_weight: there is no class {unknown[0]!r}; the classes are {known}")
        factors = _numbers([class_weight.get(label, 1.0) for label in known], "class_weight: give numbers as factors")
    else:
        raise InputError("class_weight: give 'balanced', a dict from label to factor, or None")
    if not (np.isfinite(factors) & (factors >= 0)).all() or not factors.any():
        raise InputError("class_weight: factors must be 0 or more, and not all 0")
    return np.asarray(factors, np.float32)


def check_prior(class_prior: Any, classes: NDArray[Any]) -> None:
    """Raise InputError if given shares of the classes are none."""
    if class_prior is None:
        return
    prior = _numbers(class_prior, "class_prior: give numbers")
    if prior.shape != (len(classes),) or not (prior >= 0).all() or abs(prior.sum() - 1) > 1e-3:
        raise InputError(f"class_prior: give {len(classes)} shares, one per class in sorted order, that sum to 1")


def _numbers(values: Any, otherwise: str) -> NDArray[np.float64]:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise InputError(otherwise) from None


def cost_table(cost_matrix: Any, classes: NDArray[Any]) -> NDArray[np.float32] | None:
    """The costs `(K, K)` of predicting the column's class where the row's class is true; both are in sorted order."""
    if cost_matrix is None:
        return None
    wanted = f"{len(classes)} rows of {len(classes)} costs, in the order of the sorted classes, true class by row"
    if hasattr(cost_matrix, "iloc"):
        raise InputError(f"cost_matrix: give an array, not a data frame: {wanted}")
    try:
        costs = np.asarray(cost_matrix, float)
    except (TypeError, ValueError):
        raise InputError(f"cost_matrix: give numbers, {wanted}") from None
    if costs.shape != (len(classes), len(classes)):
        raise InputError(f"cost_matrix has the shape {costs.shape}; give {wanted}")
    if not (np.isfinite(costs) & (costs >= 0)).all() or costs.diagonal().any():
        raise InputError("cost_matrix: costs must be finite and 0 or more, and 0 on the diagonal")
    return np.asarray(costs, np.float32)


def shares(codes: Codes, n_classes: int) -> NDArray[np.float64]:
    """Each class's share of the labeled rows, `(K,)`."""
    counts = np.bincount(codes[codes >= 0], minlength=n_classes)
    found: NDArray[np.float64] = counts / counts.sum()
    return found


def smoothed_shares(codes: Codes, n_classes: int) -> NDArray[np.float64]:
    """An estimate of each class's share of all rows, `(K,)`: the mean given the labels and a Dirichlet prior.

    (N_k + a) / (N + K a): few labels in unequal numbers say little about the shares.
    """
    counts = np.bincount(codes[codes >= 0], minlength=n_classes) + PRIOR_COUNT
    found: NDArray[np.float64] = counts / counts.sum()
    return found


def prior_ratio(class_prior: Any, codes: Codes) -> NDArray[np.float32] | None:
    """Each class's share of all rows divided by its share of the labeled rows, `(K,)`."""
    if class_prior is None:
        return None
    return np.asarray(np.asarray(class_prior, float) / shares(codes, len(class_prior)), np.float32)
