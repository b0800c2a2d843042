"""The base class of all estimators: it connects users' arrays with a model. It contains no mathematics."""

import copy
import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mmdgm.data import deadline
from mmdgm.data.arrays import about_bytes, as_array, first_row_without_values, missing_entries, restore
from mmdgm.data.codecs import Codec, ImageCodec, TableCodec
from mmdgm.data.fills import column_means, fill_from_neighbours, takes_long
from mmdgm.devices import fabric_of_one
from mmdgm.errors import InputError
from mmdgm.estimators.display import Counts, SummaryInNotebooks, counts_of, some_rows
from mmdgm.estimators.fitting import STRIDE, likelihood_of
from mmdgm.estimators.parameters import check_parameters
from mmdgm.estimators.saving import read_estimator, write_estimator
from mmdgm.estimators.validation import tell_inputs, validated
from mmdgm.inference.filling import draw_by, fill_by
from mmdgm.inference.imputation import impute, rounds_of_draws
from mmdgm.inference.per_row import Values, chunk_size, in_chunks, row_noise
from mmdgm.models import VAE, ClassWeights, VAEConfig
from mmdgm.models.filler import Filler
from mmdgm.models.row_sampler import RowSampler
from mmdgm.training.filling import train_filler

Labels = NDArray[np.int64]  # class numbers; −1: unlabeled
Network = Literal["auto", "mlp", "conv"]


class GenerativeEstimator(
    SummaryInNotebooks,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
    ABC,
):
    """A deep generative model behind scikit-learn's interface.

    A fitted estimator has `model_`, the torch module; `codec_`, which turns arrays into inputs; `fill_`, the start
    values of missing entries; `filler_`, the model of a table's missing values; `sampler_`, what a table's new rows
    have beside the decoder's means; `config_`, the settings and networks of the model; `counts_`, what was trained on.
    """

    _config_class: ClassVar[type[VAEConfig]]
    _optional: ClassVar[tuple[str, ...]] = ("hidden", "z")  # None: chosen from the data
    model_: Any
    codec_: Codec
    fill_: Values
    filler_: Filler | None = None  # tables have one
    sampler_: RowSampler | None = None  # tables that are generated have one
    config_: VAEConfig
    counts_: Counts | None = None  # of the training rows; None: saved by an earlier version
    _some_rows: NDArray[Any] | None = None  # of the training rows; never written to a file

    # --- what subclasses define --------------------------------------------------------------------------

    @abstractmethod
    def _config(self, codec: Codec) -> VAEConfig:
        """Return the config of a model for this kind of data."""

    def _networks(self, codec: Codec) -> dict[str, Any]:
        """Return the network settings that all models share."""
        network: Network = self.network
        if network == "conv" and not codec.is_image:
            raise InputError("network='conv' wants images (rows, height, width[, channels]), not columns")
        size = int(np.prod(codec.shape))
        width = int(np.clip(4 * size, 128, 500))
        by_size = 50 if codec.is_image else int(np.clip(size // 2, 2, 50))
        return {
            "network": ("conv" if codec.is_image else "mlp") if network == "auto" else network,
            "hidden": (width, width) if self.hidden is None else tuple(self.hidden),
            "z": by_size if self.z is None else int(self.z),
            "likelihood": "gaussian" if codec.is_image and self.likelihood == "gaussian" else "bernoulli",
        }

    # --- users' arrays -----------------------------------------------------------------------------------

    def _validate_X(self, X: Any, *, reset: bool) -> Any:
        """Return X as an array of numbers, or unchanged if columns hold categories."""
        X = as_array(X, None if reset else self._numeric())
        if not reset and self.codec_.is_image != (len(X.shape) > 2):
            raise InputError(f"X has the shape {X.shape}, but the model was fitted on {self.codec_.fitted_on}")
        return validated(self, X, reset=reset)

    def _numeric(self) -> list[bool] | None:
        return self.codec_.numeric if isinstance(self.codec_, TableCodec) else None

    def _learn_codec(self, X: Any) -> Codec:
        if not hasattr(X, "iloc") and X.ndim > 2:
            if (line := about_bytes(X)) is not None:
                warnings.warn(line, UserWarning, stacklevel=5)
            return ImageCodec.learn(X, gaussian=self.likelihood == "gaussian")
        names = getattr(self, "feature_names_in_", range(X.shape[1]))
        codec = TableCodec.learn(X, [str(name) for name in names])
        for line in codec.oddities(X):
            warnings.warn(line, UserWarning, stacklevel=5)
        return codec

    def inputs(self, X: Any, *, filled: bool = False) -> Values:
        """Return rows as inputs of the fitted networks, `(rows, channels, height, width)`; NaN: missing.

        `filled`: impute missing values, as `predict` does.
        """
        check_is_fitted(self)
        x = self._seen(self._validate_X(X, reset=False))
        return self._impute(x, rounds=20) if filled else x

    def _seen(self, X: Any) -> Values:
        """Return validated rows as network inputs."""
        x = self.codec_.encode(X)
        if isinstance(self.codec_, ImageCodec) and (line := self.codec_.other_scale(X)) is not None:
            warnings.warn(line, UserWarning, stacklevel=4)
        return x

    def _filled(self, X: Any, *, rounds: int = 20, method: str = "auto", seed: int = 0) -> Values:
        """Return rows as network inputs, with missing values imputed."""
        return self._impute(self.inputs(X), rounds=rounds, method=method, seed=seed)

    def _impute(self, x: Values, *, rounds: int, method: str = "auto", seed: int = 0) -> Values:
        if not np.isnan(x).any():
            return x
        if method == "auto" and self.filler_ is not None:
            return fill_by(self.filler_, x)
        method = "rounds" if method == "auto" else method
        start = None if method == "draw" else self.fill_
        return impute(self.model_, x, method=method, rounds=rounds, seed=seed, start=start)

    def _ask(self, function: Any, *arrays: NDArray[Any]) -> NDArray[Any]:
        return in_chunks(self.model_, function, *arrays, size=chunk_size(self.model_, self.codec_.shape))

    # --- training ----------------------------------------------------------------------------------------

    def _build(self, config: VAEConfig, *, n_rows: int, weights: ClassWeights = ClassWeights()) -> VAE:
        """Return a new model; `n_rows`: the number of labeled rows."""
        model: VAE = config.build(
            self.codec_.shape,
            n_classes=len(getattr(self, "classes_", ())),
            n_rows=n_rows,
            weights=weights,
            likelihood=likelihood_of(self.codec_),
        )
        return model

    def _going_on(self) -> bool:
        return bool(getattr(self, "warm_start", False)) and hasattr(self, "model_")

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """A fit: restore the estimator if it fails, and let its work look at the clock if there is a `max_time`."""
        check_parameters(self.get_params(deep=False), self._config_class, optional=self._optional)
        before, end = dict(self.__dict__), math.inf if self.max_time is None else time.monotonic() + self.max_time
        try:
            with deadline.ends_at(end):
                yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _learn_inputs(self, X: Any) -> tuple[Values, int]:
        """Learn the codec and start values from X; return the rows as network inputs, and a seed."""
        check_parameters(self.get_params(deep=False), self._config_class, optional=self._optional)
        X = self._validate_X(X, reset=not self._going_on())
        self.counts_, self._some_rows = counts_of(X), some_rows(X, images=len(X.shape) > 2)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if not self._going_on():
            self.codec_ = self._learn_codec(X)
        x = self._seen(X)
        if self.codec_.is_image and (row := first_row_without_values(x)) is not None:
            raise InputError(f"row {row} of X has no observed value; leave it out")
        if not self._going_on():
            self.fill_ = column_means(x)
        return x, seed

    def _fill(self, x: Values, *, seed: int) -> Values:
        """Return training rows x with values for the missing ones. For a table, first train the model of them."""
        if isinstance(self.codec_, TableCodec):
            if not self._going_on():
                self._say("learning to fill missing values")
                columns, fabric = self.codec_.table.columns, fabric_of_one("cpu", precision="32-true")
                limits: dict[str, Any] = {"max_epochs": self.max_epochs, "stride": STRIDE}
                self.filler_ = train_filler(x.reshape(len(x), -1), columns, seed=seed, fabric=fabric, **limits)
            return x if self.filler_ is None else fill_by(self.filler_, x)
        self.filler_ = None
        if takes_long(x):
            self._say(f"filling {int(np.isnan(x).sum()):,} missing values from neighbours first")
        return fill_from_neighbours(x, self.fill_)

    @property
    def _console(self) -> Console:
        return Console(stderr=True, quiet=not self.verbose)

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    # --- uses of a fitted model ----------------------------------------------------------------------------

    def transform(self, X: Any, *, features: bool = False) -> NDArray[Any]:
        """Return E[z] of each row, `(rows, z)`; with `features`, the input of the classifier's last layer."""
        x = self._filled(X)
        codes = self._ask(self.model_.embed if features else self.model_.encode, x)
        return codes if getattr(X, "dtype", None) == np.float32 else codes.astype(np.float64)

    @property
    def _n_features_out(self) -> int:
        return int(self.model_.encoder.z)

    def impute(
        self, X: Any, n_iter: int = 100, n_draws: int = 1, *, method: str = "auto", random_state: int = 0
    ) -> Any:
        """Return X with its missing entries filled; observed entries do not change.

        Parameters
        ----------
        n_iter : int
            Rounds of the iterative inference.
        n_draws : int
            1: the best guess. More: this many draws along a new first axis, which show the uncertainty.
        method : {"auto", "rounds", "draw", "posterior"}
            auto: for tables the mean, or draws, given the observed values, by a model that sees which values are
            missing; for images as rounds. rounds: the mean over late rounds of the iterative inference. draw: the
            paper's procedure, one sample. posterior: the posterior mean from a code fitted to each row, for images
            with the least error, and with the most time. Several draws by a method other than auto are as by draw.
        random_state : int
            Seed. A row's result depends only on its values and this seed.
        """
        check_parameters({"n_iter": n_iter, "n_draws": n_draws, "method": method, "seed": random_state})
        check_is_fitted(self)
        X = as_array(X, self._numeric())
        x, missing = self.inputs(X), missing_entries(X)
        if n_draws > 1 and method == "auto" and self.filler_ is not None:
            draws = [draw_by(self.filler_, x, seed=int(random_state) + i) for i in range(n_draws)]
        else:
            method = method if n_draws == 1 else "draw"
            seeds = range(int(random_state), int(random_state) + n_draws)
            draws = [self._impute(x, rounds=n_iter, method=method, seed=seed) for seed in seeds]
        filled = [restore(X, self.codec_.decode(draw), missing) for draw in draws]
        return filled[0] if n_draws == 1 else np.stack([np.asarray(rows) for rows in filled])

    def impute_rounds(self, X: Any, n_iter: int = 20, n_draws: int = 1, *, random_state: int = 0) -> NDArray[Any]:
        """Return images `(n_iter + 1, n_draws, rows, …)` as they start and as each round fills them.

        This is `impute` by method "draw", round by round: missing pixels start as noise, and the last round is the
        draw. A mean over draws and late rounds estimates the posterior mean. It is quick for few images.
        """
        check_parameters({"n_iter": n_iter, "n_draws": n_draws, "seed": random_state})
        check_is_fitted(self)
        if not self.codec_.is_image:
            raise InputError("impute_rounds is for images; missing values of a table are filled in one step")
        x = self.inputs(X)
        rounds = rounds_of_draws(self.model_, x, rounds=n_iter, draws=n_draws, seed=int(random_state))
        decoded = self.codec_.decode(rounds.reshape(-1, *x.shape[1:])).reshape(*rounds.shape[:3], *np.shape(X)[1:])
        return np.where(missing_entries(X), decoded, np.asarray(X))

    def reconstruct(self, X: Any) -> NDArray[Any]:
        """Return the decoder's mean at E[z], on the scale of the input."""
        x = self._filled(X)
        noise = np.zeros((len(x), self.model_.encoder.z), np.float32)
        rebuilt = self._ask(lambda rows, draws: self.model_.reconstruct(rows, noise=draws), x, noise)
        return self.codec_.decode(rebuilt, exact=True)

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return the bound on the log-likelihood of each row's observed values, in nats, `(rows,)`.

        The density is that of the network inputs: columns are centred and scaled, pixels are in [0, 1].
        """
        x = self.inputs(X)
        observed = (~np.isnan(x)).astype(np.float32)
        noise = row_noise(x, self.model_.encoder.z, seed=1)

        def bound(rows: torch.Tensor, seen: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
            elbo: torch.Tensor = self.model_.elbo(rows, observed=seen, noise=draws[None])
            return elbo

        return self._ask(bound, self._impute(x, rounds=20), observed, noise).astype(np.float64)

    # --- saving -------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write a folder with config.json, model.safetensors and metrics.csv. `load` executes no code from them."""
        check_is_fitted(self)
        write_estimator(self, Path(path), {})

    @classmethod
    def load(cls, path: str | Path, *, device: str | None = None) -> Self:
        """Return the estimator that `save` wrote."""
        return read_estimator(Path(path), {cls.__name__: cls}, device=device)  # type: ignore[no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_some_rows", None)
        if "model_" in state:
            state["model_"] = copy.deepcopy(state["model_"]).cpu()
        return state

    def __sklearn_tags__(self) -> Any:
        return tell_inputs(super().__sklearn_tags__())
