"""How estimators show themselves in a notebook: fitted, by a summary; not fitted, by scikit-learn's diagram."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import mmdgm
from mmdgm.data.arrays import missing_entries

IMAGES, TABLE_ROWS = 8, 200  # training rows that an estimator keeps in memory for its summary


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Numbers of training rows, of their values, of missing ones, and of the labeled rows of each class."""

    rows: int
    values: int
    missing_values: int
    labeled_per_class: tuple[int, ...] | None = None

    @property
    def labeled(self) -> int:
        return sum(self.labeled_per_class or ())


class SummaryInNotebooks:
    """HTML of an estimator. `sklearn.set_config(display="text")` turns it off, as for scikit-learn's own."""

    def _repr_html_inner(self) -> str:
        return _html(self) or super()._repr_html_inner()  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle


def _html(estimator: Any) -> str | None:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return None
    return mmdgm._summary(estimator)


def counts_of(X: Any) -> Counts:
    """Return the counts of rows without labels."""
    missing = missing_entries(X)
    return Counts(rows=len(missing), values=missing.size, missing_values=int(missing.sum()))


def some_rows(X: Any, *, images: bool) -> NDArray[Any]:
    """Return a few rows, evenly spaced, as an array."""
    chosen = np.unique(np.linspace(0, len(X) - 1, IMAGES if images else TABLE_ROWS).astype(int))
    return X.iloc[chosen].to_numpy(dtype=object) if hasattr(X, "iloc") else X[chosen]  # type: ignore[no-any-return]
