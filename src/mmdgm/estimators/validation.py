"""Checks of users' arrays by scikit-learn's own functions."""

import math
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_feature_names, _check_n_features, check_array, validate_data

from mmdgm.data.arrays import as_floats, has_categories
from mmdgm.errors import InputError

IMAGE_TYPES = (np.uint8, np.float32, np.float64)


def validated(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return X as an array of numbers, or unchanged if columns hold categories.

    `reset`: store the number and names of the columns in the estimator, as `fit` does. Images become float64 unless
    they are bytes or floats.
    """
    if has_categories(X):
        X = X if hasattr(X, "iloc") else X.astype(object)
        if not len(X):
            raise InputError("X is empty: it has no rows")
        _check_feature_names(estimator, X, reset=reset)
        _check_n_features(estimator, X, reset=reset)
        return X
    if isinstance(X, np.ndarray) and X.dtype.kind == "O":
        X = as_floats(X)
    if isinstance(X, np.ndarray) and X.ndim in (3, 4):
        if not X.size:
            raise InputError(f"X has the shape {X.shape}, so there is nothing in it")
        kind = X.dtype if X.dtype in IMAGE_TYPES else np.float64
        X = check_array(X, allow_nd=True, ensure_all_finite="allow-nan", dtype=kind)
        if reset:
            estimator.n_features_in_ = math.prod(X.shape[1:])
        return X
    return validate_data(estimator, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan")


def tell_inputs(tags: Any) -> Any:
    """Return scikit-learn's tags with the inputs that all estimators here accept: NaN, images, categories."""
    tags.input_tags.allow_nan = True
    tags.input_tags.three_d_array = True
    tags.input_tags.categorical = True
    tags.input_tags.string = True
    tags.transformer_tags.preserves_dtype = ["float64", "float32"]
    return tags
