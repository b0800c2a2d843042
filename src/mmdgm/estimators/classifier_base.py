"""The base class of both classifiers: labels, fitting, scores."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, check_consistent_length, check_is_fitted, column_or_1d

from mmdgm.data import deadline
from mmdgm.data.arrays import as_array
from mmdgm.data.batches import Store
from mmdgm.data.codecs import TableCodec
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
from mmdgm.estimators.training import Job
from mmdgm.inference.directions import leading_directions
from mmdgm.inference.filling import draw_by, fill_by
from mmdgm.inference.per_row import Values
from mmdgm.models import ClassWeights, ConditionalVAE
from mmdgm.models.row_sampler import RowSampler
from mmdgm.training.row_sampling import learn_rows

QUICK = 200_000  # values of a table whose sampler is learned in well under a second


class GenerativeClassifier(ClassifierMixin, GenerativeEstimator):  # type: ignore[misc]
    """A generative model with a max-margin classifier."""

    classes_: NDArray[Any]
    class_prior: Any = None  # a parameter if the objective has a balance term
    cost_matrix: Any

    def fit(self, X: Any, y: Any) -> Self:
        """Train on rows X with labels y. Some labels may be the `unlabeled` marker."""
        return self._fit(X, y, FitRun())

    def _fit(self, X: Any, y: Any, run: FitRun) -> Self:
        check_consistent_length(X, y)
        if not _num_samples(X):
            raise InputError("X is empty: it has no rows")
        classes, codes = read_labels(y, self.unlabeled)
        if self._going_on() and not np.array_equal(classes, self.classes_):
            raise InputError("warm_start: y has other classes than before; make a new estimator")
        with self._all_or_nothing():
            x, seed = self._learn_inputs(X)
            self.classes_ = classes
            labeled_per_class = tuple(np.bincount(codes[codes >= 0], minlength=len(classes)).tolist())
            assert self.counts_ is not None
            self.counts_ = replace(self.counts_, labeled_per_class=labeled_per_class)
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

            filled, observed = self._fill(x, seed=seed), ~np.isnan(x)
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
            Job(
                estimator=self, store=store, seed=seed, n_labeled=n, run=run, weights=weights, accuracy=accuracy
            ).finish()
            self.sampler_ = self._learn_rows(x, codes, seed)
        return self

    def _learn_rows(self, x: Values, codes: Labels, seed: int) -> RowSampler | None:
        """Return the sampler of a table's rows, from training rows and their labels, given or predicted.

        None: images, models that do not generate, and large tables whose `max_time` is over.
        """
        if not isinstance(self.codec_, TableCodec) or self.filler_ is None or not self.model_.generates:
            return None
        if x.size > QUICK and deadline.is_over():
            self._say("max_time: sample will return the decoder's means")
            return None
        drawn, observed = draw_by(self.filler_, x, seed=seed), ~np.isnan(x)
        predicted = self._ask(self.model_.scores, fill_by(self.filler_, x)).argmax(axis=1)
        y, columns = np.where(codes >= 0, codes, predicted), self.codec_.table.columns
        return learn_rows(self.model_, drawn[:, :, 0, 0], observed[:, :, 0, 0], y, columns, seed=seed)

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

    def sample(
        self,
        n: int = 1,
        y: Any = None,
        random_state: Any = None,
        *,
        mean: bool = False,
        return_codes: bool = False,
    ) -> Any:
        """Return n new rows, on the scale of the input.

        Rows of a table are like the training rows: a code from the distribution of its class's codes, the decoder's
        mean, the noise of each value. Numbers keep to the observed range and decimals, categories are drawn by
        their chances. Images are decoder means at z ~ N(0, I), because independent noise of each pixel shows nothing.

        Parameters
        ----------
        n : int
            Number of rows.
        y : label, array of n labels, or None
            None: random; for tables by the shares of the classes among the training rows, for images with equal
            probabilities. For images, MMVAClassifier takes None alone.
        random_state : int, RandomState or None
            An int makes the rows repeatable.
        mean : bool
            Whether a table's rows are the decoder's means alone, neither noisy nor rounded.
        return_codes : bool
            Whether to return (rows, z), z: the codes `(n, z)`.
        """
        check_is_fitted(self)
        if n < 1:
            raise InputError(f"sample {n} rows: give 1 or more")
        if not self.model_.generates:
            raise InputError("this model was trained without its generative part: it has no samples")
        rng, sampler = check_random_state(random_state), self.sampler_
        conditional = isinstance(self.model_, ConditionalVAE)
        if y is not None and sampler is None and not conditional:
            raise InputError(f"{type(self).__name__} does not generate images by class; leave y out")
        shares = None if sampler is None else sampler.shares.double().numpy()
        drawn = rng.choice(len(self.classes_), n, p=shares) if y is None else self._class_numbers(y, n)
        numbers, codes = torch.from_numpy(drawn), _normal(rng, n, self.model_.encoder.z)
        if sampler is not None:
            codes = sampler.codes(numbers, codes)
        given = (codes.numpy(), numbers.numpy()) if conditional else (codes.numpy(),)
        rows = self._ask(self.model_.generate, *given)
        if sampler is not None and not mean:
            flat = torch.from_numpy(rows).flatten(1)
            rows = sampler(flat, numbers, _normal(rng, n, 2 * flat.shape[1])).numpy()
        decoded = self.codec_.decode(rows, exact=mean)
        return (decoded, codes.numpy()) if return_codes else decoded

    def generate(self, codes: Any, y: Any = None) -> NDArray[Any]:
        """Return the decoder's means at given codes `(n, z)`, on the scale of the input, neither noisy nor rounded.

        `y`, for MMCVAClassifier: one label for all rows, or n labels.
        """
        check_is_fitted(self)
        z = np.asarray(codes, np.float32)
        if z.ndim != 2 or z.shape[1] != self.model_.encoder.z or not np.isfinite(z).all():
            raise InputError(f"give codes (n, {self.model_.encoder.z}) of finite numbers, not {z.shape}")
        if not self.model_.generates:
            raise InputError("this model was trained without its generative part: it generates nothing")
        if isinstance(self.model_, ConditionalVAE) == (y is None):
            raise InputError(f"{type(self).__name__}: {'give y' if y is None else 'codes have no class; leave y out'}")
        given = (z,) if y is None else (z, self._class_numbers(y, len(z)))
        return self.codec_.decode(self._ask(self.model_.generate, *given), exact=True)

    def directions(self, n: int = 4) -> NDArray[np.float64]:
        """Return the n directions of the latent space along which generated rows change most, `(n, z)`."""
        check_is_fitted(self)
        if n < 1:
            raise InputError(f"{n} directions: ask for 1 or more")
        if not self.model_.generates:
            raise InputError("this model was trained without its generative part: it generates nothing")
        return leading_directions(self.model_, n)

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


def _normal(rng: np.random.RandomState, *shape: int) -> torch.Tensor:
    return torch.from_numpy(rng.standard_normal(shape).astype(np.float32))


def _tensor(array: NDArray[Any] | None) -> torch.Tensor | None:
    return None if array is None else torch.from_numpy(np.ascontiguousarray(array))
