"""The two classifiers: `MMCVAClassifier` for few labels, `MMVAClassifier` for many."""

from contextlib import suppress
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mmdgm.data.codecs import Codec
from mmdgm.data.deadline import TimeIsOver
from mmdgm.errors import InputError
from mmdgm.estimators.base import Labels, Network
from mmdgm.estimators.classifier_base import GenerativeClassifier
from mmdgm.estimators.parameters import check_parameters, store_parameters, wanted_augmentation
from mmdgm.inference.per_row import Values, row_noise
from mmdgm.models import MaxMarginConditionalVAEConfig, MaxMarginVAEConfig
from mmdgm.propagation.all_rows import propagate_to_all
from mmdgm.propagation.table_guesses import guess_labels
from mmdgm.settings import replace_settings
from mmdgm.training.augmentation_choice import Augmentation, choose_augmentation

# for images: chosen on held-out training images, see docs/lab-notebook.md, "Estimators on images"
AVERAGING = 0.998
BOUND_SHARE = 0.25
SUREST = 0.97  # fraction of each class's rows that take their propagated label


class MMCVAClassifier(GenerativeClassifier):
    """A class-conditional generative model with a max-margin classifier, for few labels and many unlabeled rows.

    This is the paper's mmDCGM. It also learns from unlabeled rows (`y == unlabeled`). Missing values (NaN) are
    allowed everywhere. X: `(rows, columns)`, a data frame, or images `(rows, height, width[, channels])`.

    Parameters
    ----------
    network : {"auto", "mlp", "conv"}
        auto: conv nets for images, MLPs for tables.
    hidden : tuple of int or None
        Units of the MLPs' hidden layers; None: chosen from the number of columns.
    z : int or None
        Size of the latent code; None: chosen from the number of columns.
    likelihood : {"auto", "gaussian"}
        gaussian: for images whose pixels are not intensities.
    alpha : float
        Weight of all margin terms relative to the bound.
    hat_weight : float
        The paper's α_U, weight of the margin on unlabeled rows.
    balance_weight : float
        The paper's α_B, weight of the label balance.
    margin : float
        Amount by which the true class's score must exceed the others.
    dropout : float or None
        Dropout rate in the classifier; None: 0.1 for images, 0.3 for tables.
    augmentation : "auto", dict or None
        How the images are changed that a conv classifier is trained on: a dict such as {"turn": 10, "shift": 2,
        "mirror": 0.5} with the names of the settings in `Distortion` and `Appearance`. auto: what lowers the error
        in a cross-validation of the labeled rows, perhaps nothing.
    propagate_labels : bool
        Whether unlabeled rows first get labels from the labeled ones, without any network. For tables, the first half
        of training uses them, for images all of it. Images get none if the labels show that their neighbours are often
        of other classes.
    unlabeled : object
        Value of y that marks unlabeled rows; None: all rows are labeled.
    class_weight : "balanced", dict from label to weight, or None
        Factors of the hinge loss.
    cost_matrix : array of shape (classes, classes) or None
        Cost of predicting the column's class where the row's class is true, 0 on the diagonal; classes are sorted. The
        true class's score must lead the other's by `margin` times this cost. None: 1 for every wrong class.
    class_prior : array of shape (classes,) or None
        Fractions of the classes (sorted) among all rows; None: those among the propagated labels, or else among the
        labels.
    warm_start : bool
        Whether to continue with the networks of the last fit. The other parameters have their current values.
    validation_fraction : float or None
        Fraction of the labeled rows to hold out for early stopping; None: train to the end.
    n_iter_no_change : int
        With validation_fraction: intervals without a better accuracy before training stops. Full training has 20.
    max_epochs : int or None
        Passes over the rows. None: some thousand steps, at least ten passes. On a small table an epoch is one or
        two steps, so 50 epochs are few.
    max_time : float or None
        Seconds after the start of `fit` at which training ends with the current weights.
    batch_size : int or None
        Unlabeled rows in a step; None: chosen from the number of rows.
    learning_rate : float
        Adam's rate. It rises from 0, then falls along a cosine.
    device : str
        "auto", "cpu", "cuda", …
    precision : {"auto", "32-true", "bf16-mixed"}
        Number format; auto: bf16 on GPUs, and for images on CPUs that multiply in bf16.
    random_state : int, RandomState or None
        An int makes fits repeatable.
    verbose : int
        Show progress.

    Attributes
    ----------
    classes_ : array of the classes, sorted; for a preset's run, in the order of its data set
    n_features_in_ : int
    feature_names_in_ : array, if X is a data frame
    history_ : list of dict
        The objective's terms during training.
    n_iter_ : int
        Epochs done.
    n_iter_planned_ : int
        Epochs without early stopping and `max_time`.
    augmentation_ : dict
        The settings of the augmentation, by name; empty: images are not changed.
    model_ : mmdgm.models.MaxMarginConditionalVAE
        The trained torch module.
    """

    _config_class = MaxMarginConditionalVAEConfig
    _optional = ("hidden", "z", "dropout")

    def __init__(
        self,
        *,
        network: Network = "auto",
        hidden: tuple[int, ...] | None = None,
        z: int | None = None,
        likelihood: Literal["auto", "gaussian"] = "auto",
        alpha: float = 1.0,
        hat_weight: float = 0.3,
        balance_weight: float = 1e-3,
        margin: float = 1.0,
        dropout: float | None = None,
        augmentation: Any = "auto",
        propagate_labels: bool = True,
        unlabeled: Any = -1,
        class_weight: Any = None,
        cost_matrix: Any = None,
        class_prior: Any = None,
        warm_start: bool = False,
        validation_fraction: float | None = None,
        n_iter_no_change: int = 5,
        max_epochs: int | None = None,
        max_time: float | None = None,
        batch_size: int | None = None,
        learning_rate: float = 1e-3,
        device: str = "auto",
        precision: Literal["auto", "32-true", "bf16-mixed"] = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ):
        store_parameters(self, locals())

    def _config(self, codec: Codec) -> MaxMarginConditionalVAEConfig:
        config = MaxMarginConditionalVAEConfig(
            **self._networks(codec),
            dropout=(0.1 if codec.is_image else 0.3) if self.dropout is None else self.dropout,
            alpha=self.alpha,
            margin=self.margin,
            hat_weight=self.hat_weight,
            balance_weight=self.balance_weight,
            averaging=AVERAGING if codec.is_image else 0.0,
            bound_share=BOUND_SHARE if codec.is_image else 1.0,
        )
        return replace_settings(config, self._augmentation)

    @property
    def augmentation_(self) -> dict[str, Any]:
        """The settings of the augmentation, by name; empty: images are not changed."""
        check_is_fitted(self)
        config: Any = self.config_
        return Augmentation(config.distortion, config.appearance, config.standardise).settings()

    def _learn_augmentation(self, filled: Values, codes: Labels, seed: int) -> None:
        conv = self._networks(self.codec_)["network"] == "conv"
        if self.augmentation != "auto":
            self._augmentation = wanted_augmentation(self.augmentation)
            if self._augmentation and not conv:
                raise InputError("augmentation is for images with conv nets; leave it out")
        elif self._going_on():
            self._augmentation = self.augmentation_
        else:
            rows, known = torch.from_numpy(filled), codes >= 0
            chosen = Augmentation()
            if conv:
                with suppress(TimeIsOver):
                    chosen = choose_augmentation(rows[known], codes[known], seed=seed)
            self._augmentation = chosen.settings()
            if conv:
                changes = ", ".join(f"{name}={value}" for name, value in self._augmentation.items())
                self._say(f"augmentation: {changes or 'none'}")

    def _propagated(self, filled: Values, codes: Labels, rng: np.random.RandomState) -> Labels | None:
        if not self.propagate_labels or (codes >= 0).all():
            return None
        try:
            return self._guesses(filled, codes, rng)
        except TimeIsOver:
            return None

    def _guesses(self, filled: Values, codes: Labels, rng: np.random.RandomState) -> Labels | None:
        """Return labels of all rows, given, propagated or −1, or None."""
        if not self.codec_.is_image:
            return guess_labels(filled.reshape(len(filled), -1), codes, rng=rng, prior=self.class_prior)
        rows = torch.from_numpy(filled)
        guess = propagate_to_all(rows, codes, rng=rng, share=SUREST, prior=self.class_prior)
        if guess is None:
            self._say("labels are not propagated: neighbours of these images are often of other classes")
        return guess


class MMVAClassifier(GenerativeClassifier):
    """A generative model with a linear max-margin classifier on its recognition network, for many labels.

    This is the paper's mmDGM. Only the generative part learns from unlabeled rows. For X and the parameters that
    are not listed, see `MMCVAClassifier`.

    Parameters
    ----------
    C : float or None
        Weight of the hinge loss relative to the bound; None: 1000 for conv nets, 100 for MLPs.
    margin : float or None
        Amount by which the true class's score must exceed the others; None: 1 for conv nets, 3 for MLPs.
    dropout : float
        Dropout rate in a conv encoder.
    """

    _config_class = MaxMarginVAEConfig
    _optional = ("hidden", "z", "C", "margin")

    def __init__(
        self,
        *,
        network: Network = "auto",
        hidden: tuple[int, ...] | None = None,
        z: int | None = None,
        likelihood: Literal["auto", "gaussian"] = "auto",
        C: float | None = None,
        margin: float | None = None,
        dropout: float = 0.3,
        unlabeled: Any = -1,
        class_weight: Any = None,
        cost_matrix: Any = None,
        warm_start: bool = False,
        validation_fraction: float | None = None,
        n_iter_no_change: int = 5,
        max_epochs: int | None = None,
        max_time: float | None = None,
        batch_size: int | None = None,
        learning_rate: float = 1e-3,
        device: str = "auto",
        precision: Literal["auto", "32-true", "bf16-mixed"] = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ):
        store_parameters(self, locals())

    def _config(self, codec: Codec) -> MaxMarginVAEConfig:
        networks = self._networks(codec)
        conv = networks["network"] == "conv"
        return MaxMarginVAEConfig(
            **networks,
            dropout=self.dropout,
            features="last" if conv else "hidden",
            C=(1000.0 if conv else 100.0) if self.C is None else self.C,
            margin=(1.0 if conv else 3.0) if self.margin is None else self.margin,
            linear=not codec.is_image,
        )

    def decision_function(self, X: Any, samples: int | None = None, *, random_state: int = 0) -> NDArray[np.float64]:
        """Return scores (not probabilities) `(rows, K)`; for two classes, second score minus first `(rows,)`.

        With `samples`, return this many draws of them along a new first axis, `(samples, rows, K)` or
        `(samples, rows)`. Their spread shows the uncertainty about the classifier's weights η ~ N(λ, σ²I), and about
        z ~ q(z|x) if z is what the classifier sees. All rows share the draws of η, which depend on `random_state`.
        The mean over draws goes to the scores themselves.
        """
        if samples is None:
            return super().decision_function(X)
        check_parameters({"samples": samples, "seed": random_state}, self._config_class)
        x = self._filled(X)
        weights = np.random.RandomState(random_state).standard_normal((samples, *self.model_.classifier.weight.shape))
        size = samples * self.model_.encoder.z if self.model_.classifies_codes else 0
        codes = row_noise(x, size, seed=random_state).reshape(len(x), samples, -1)
        of_weights = torch.from_numpy(weights.astype(np.float32))

        def sampled(rows: torch.Tensor, of_codes: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = self.model_.sampled_scores(rows, of_codes, of_weights.to(rows.device))
            return scores

        scores = self._ask(sampled, x, codes).astype(np.float64).swapaxes(0, 1)
        return scores[..., 1] - scores[..., 0] if len(self.classes_) == 2 else scores
