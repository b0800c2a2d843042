"""The base class of both classifiers: labels, fitting, scores."""

import time
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import _num_samples, check_consistent_length, column_or_1d

from mmdgm.data.arrays import as_array
from mmdgm.data.batches import Store
from mmdgm.data.labels import (
    check_prior,
    class_factors,
    cost_table,
    held_out_rows,
    is_unlabeled,
    prior_ratio,
    read_labels,
    shares,
    smoothed_shares,
)
from mmdgm.errors import InputError
from mmdgm.estimators.base import GenerativeEstimator, Labels
from mmdgm.estimators.fitting import FitRun
from mmdgm.estimators.parameters import check_parameters
from mmdgm.inference.per_row import Values
from mmdgm.models import ClassWeights


class GenerativeClassifier(ClassifierMixin, GenerativeEstimator):  # type: ignore[misc]
    """A generative model with a max-margin classifier."""

    classes_: NDArray[Any]
    class_prior: Any = None  # a parameter if the objective has a balance term
    cost_matrix: Any

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows X with labels y. Some labels may be the `unlabeled` marker."""
        return self._fit(X, y, FitRun())

    def _fit(self, X: Any, y: Any, run: FitRun) -> Self:
        began = time.monotonic()
        check_consistent_length(X, y)
        if not _num_samples(X):
            raise InputError("X is empty: it has no rows")
        classes, codes = read_labels(y, self.unlabeled)
        if self._going_on() and not np.array_equal(classes, self.classes_):
            raise InputError("warm_start: y has other classes than before; make a new estimator")
        with self._all_or_nothing():
            x, seed = self._learn_inputs(X)
            self.classes_ = classes
            check_prior(self.class_prior, classes)
            cost = cost_table(self.cost_matrix, classes)
            rng = np.random.RandomState(seed)
            accuracy, known = None, codes.copy()
            if self.validation_fraction is not None:
                held_out = held_out_rows(codes, self.validation_fraction, rng)
                known[held_out] = -1
                x_held, y_held = x[held_out], codes[held_out]

                def accuracy(model: Any) -> float:
                    self.model_ = model
                    scores = self._ask(model.scores, self._impute(x_held, rounds=10))
                    return float((scores.argmax(axis=1) == y_held).mean())

            filled, observed = self._fill(x, seed=seed, began=began), ~np.isnan(x)
            self._learn_augmentation(filled, known, seed)
            guess = None if self._going_on() else self._propagated(filled, known, rng)
            prior = self.class_prior
            if prior is None and (known < 0).any():
                prior = smoothed_shares(known, len(classes)) if guess is None else shares(guess, len(classes))
            weights = ClassWeights(
                _tensor(class_factors(self.class_weight, classes, codes)),
                _tensor(prior_ratio(prior, known)),
                _tensor(cost),
            )
            rows = (filled, known, None if observed.all() else observed, guess)
            store, n = Store(*map(_tensor, rows)), int((codes >= 0).sum())  # type: ignore[arg-type]
            self._train(store, seed, n_labeled=n, began=began, run=run, weights=weights, accuracy=accuracy)
        return self

    def _learn_augmentation(self, filled: Values, codes: Labels, seed: int) -> None:
        """Choose the augmentation, if the estimator augments images."""

    def _propagated(self, filled: Values, codes: Labels, rng: np.random.RandomState) -> Labels | None:
        """Return propagated labels of all rows for the start of training, or None."""
        return None

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return scores (not probabilities) `(rows, K)`; for two classes, second score minus first `(rows,)`."""
        scores = self.class_scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def class_scores(
        self, X: Any, n_iter: int = 20, *, method: str = "auto", random_state: int = 0
    ) -> NDArray[np.float64]:
        """Return a score per class, `(rows, K)`, also for two classes; missing values are imputed as in `impute`."""
        check_parameters({"n_iter": n_iter, "method": method})
        x = self._filled(X, rounds=n_iter, method=method, seed=random_state)
        return self._ask(lambda rows: self.model_.scores(rows), x).astype(np.float64)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class with the largest score, `(rows,)`; missing values are imputed first."""
        scores = self.decision_function(X)
        numbers = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[numbers])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on the labeled rows."""
        y = column_or_1d(y)
        labeled = np.flatnonzero(~is_unlabeled(y, self.unlabeled, classes=self.classes_))
        if not len(labeled):
            raise InputError("score needs labeled rows: y holds none")
        rows = X.iloc[labeled] if hasattr(X, "iloc") else as_array(X, self._numeric())[labeled]
        weight = None if sample_weight is None else np.asarray(sample_weight)[labeled]
        return float(accuracy_score(y[labeled], self.predict(rows), sample_weight=weight))

    def _class_numbers(self, y: Any, n: int) -> NDArray[np.int64]:
        """Return the wanted classes as numbers; y is one label for all rows, or one per row."""
        wanted = np.broadcast_to(np.asarray(y), (n,)) if np.ndim(y) == 0 else np.asarray(y)
        if wanted.shape != (n,):
            raise InputError(f"sample {n} rows: give one label, or {n}, not {wanted.shape}")
        unknown = ~np.isin(wanted, self.classes_)
        if unknown.any():
            raise InputError(f"there is no class {wanted[unknown][0]}; the classes are {self.classes_.tolist()}")
        order = np.argsort(self.classes_, kind="stable")  # the classes of a data set need not be sorted
        return order[np.searchsorted(self.classes_, wanted, sorter=order)]


def _tensor(array: NDArray[Any] | None) -> torch.Tensor | None:
    return None if array is None else torch.from_numpy(np.ascontiguousarray(array))
