"""An imputer for pipelines, based on a generative model."""

from typing import Any, Literal, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mmdgm.data.batches import Store
from mmdgm.data.codecs import Codec
from mmdgm.data.labels import holds_classes
from mmdgm.estimators.base import GenerativeEstimator
from mmdgm.estimators.classifiers import MMCVAClassifier
from mmdgm.estimators.display import SummaryInNotebooks
from mmdgm.estimators.parameters import check_parameters, store_parameters
from mmdgm.estimators.training import Job
from mmdgm.estimators.validation import tell_inputs
from mmdgm.models import VAEConfig


class GenerativeModel(GenerativeEstimator):
    """A VAE of X, without labels."""

    _config_class = VAEConfig
    network, hidden, z, likelihood = "auto", None, None, "auto"
    warm_start, batch_size, learning_rate = False, None, 1e-3

    def __init__(
        self, *, max_epochs: Any, max_time: Any, device: Any, precision: Any, random_state: Any, verbose: Any
    ):
        store_parameters(self, locals())

    def fit(self, X: Any, y: Any = None) -> Self:
        with self._all_or_nothing():
            x, seed = self._learn_inputs(X)
            observed = ~np.isnan(x)
            store = Store(
                torch.from_numpy(self._fill(x, seed=seed)),
                torch.full((len(x),), -1),
                None if observed.all() else torch.from_numpy(observed),
            )
            Job(estimator=self, store=store, seed=seed).finish()
        return self

    def _config(self, codec: Codec) -> VAEConfig:
        return VAEConfig(**self._networks(codec), linear=not codec.is_image)


class MaxMarginImputer(SummaryInNotebooks, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fills missing values (NaN) with a deep generative model's posterior mean, for pipelines.

    If `fit` gets labels, the model is an `MMCVAClassifier`, which fills images according to the predicted class.
    Otherwise it is a VAE of X. Tables are filled by their expected values, with labels or without.

    A y that scikit-learn's `type_of_target` calls neither binary nor multiclass, such as a
    regression target, is ignored.

    Parameters
    ----------
    n_iter : int
        Rounds of the iterative inference; see `MMCVAClassifier.impute`.
    unlabeled : object
        Value of y that marks unlabeled rows.
    max_epochs, max_time, device, precision, random_state, verbose : see `MMCVAClassifier`
    """

    def __init__(
        self,
        *,
        n_iter: int = 100,
        unlabeled: Any = -1,
        max_epochs: int | None = None,
        max_time: float | None = None,
        device: str = "auto",
        precision: Literal["auto", "32-true", "bf16-mixed"] = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ):
        store_parameters(self, locals())

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the distribution of the rows of X."""
        check_parameters(self.get_params(deep=False))
        common = {
            name: getattr(self, name)
            for name in ("max_epochs", "max_time", "device", "precision", "random_state", "verbose")
        }
        if y is not None and holds_classes(y, self.unlabeled):
            self.estimator_: GenerativeEstimator = MMCVAClassifier(unlabeled=self.unlabeled, **common).fit(X, y)
        else:
            self.estimator_ = GenerativeModel(**common).fit(X)
        self.n_features_in_ = self.estimator_.n_features_in_
        if hasattr(self.estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.estimator_.feature_names_in_
        elif hasattr(self, "feature_names_in_"):  # from an earlier fit
            del self.feature_names_in_
        return self

    def transform(self, X: Any) -> Any:
        """Return X with its missing entries filled; observed entries do not change."""
        check_is_fitted(self)
        return self.estimator_.impute(X, n_iter=self.n_iter)

    def __sklearn_tags__(self) -> Any:
        return tell_inputs(super().__sklearn_tags__())
