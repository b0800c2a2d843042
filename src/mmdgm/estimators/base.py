"""What all estimators share: arrays in, arrays out, and a model in between. No mathematics."""

import copy
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    check_array,
    check_is_fitted,
    validate_data,
)

from mmdgm.data.codecs import (
    Codec,
    ImageCodec,
    TableCodec,
    as_array,
    codec_from_json,
    first_row_without_values,
    has_categories,
    missing_entries,
    restore,
)
from mmdgm.data.labels import is_nan
from mmdgm.devices import pick_device
from mmdgm.errors import InputError
from mmdgm.estimators.fitting import EarlyStopping, FitSettings, Labels, fit_model
from mmdgm.estimators.parameters import check_parameters
from mmdgm.files import read_json, read_tensors, write_json, write_tensors
from mmdgm.inference.per_row import impute_rows, in_chunks, row_noise
from mmdgm.models import VAE, MaxMarginConditionalVAEConfig, VAEConfig
from mmdgm.progress import Display
from mmdgm.propagation.start import fill_from_neighbours, takes_long

Values = NDArray[np.float32]
Network = Literal["auto", "mlp", "conv"]
CONFIG, WEIGHTS = "config.json", "model.safetensors"
NAN, ITEMS = "(no number)", "(items)"  # in config.json


class GenerativeEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """A deep generative model behind scikit-learn's interface."""

    model_: Any
    codec_: Codec
    fill_: Values

    # --- what subclasses say -----------------------------------------------------------------------------

    @abstractmethod
    def _config(self, codec: Codec) -> VAEConfig | MaxMarginConditionalVAEConfig:
        """How a model for such data is built."""

    def _kind(self, codec: Codec) -> Literal["mlp", "conv"]:
        network: Network = self.network
        if network == "auto":
            return "conv" if codec.is_image else "mlp"
        if network == "conv" and not codec.is_image:
            raise InputError("network='conv' wants images (rows, height, width[, channels]), not columns")
        return network

    def _hidden(self, codec: Codec) -> tuple[int, ...]:
        if self.hidden is not None:
            return tuple(self.hidden)
        width = int(np.clip(4 * np.prod(codec.shape), 128, 500))
        return (width, width)

    def _z(self, codec: Codec) -> int:
        if self.z is not None:
            return int(self.z)
        return 50 if codec.is_image else int(np.clip(np.prod(codec.shape) // 2, 2, 50))

    # --- users' arrays -----------------------------------------------------------------------------------

    def _validate_X(self, X: Any, *, reset: bool) -> Any:
        """X as an array of numbers, or, where columns hold categories, as it came."""
        X = as_array(X, None if reset else self.codec_)
        if not reset and self.codec_.is_image != (len(X.shape) > 2):
            raise InputError(f"X has the shape {X.shape}, but the model was fitted on {self.codec_.fitted_on}")
        if has_categories(X):
            X = X if hasattr(X, "iloc") else X.astype(object)
            if not len(X):
                raise InputError("X is empty: it has no rows")
            _check_feature_names(self, X, reset=reset)
            _check_n_features(self, X, reset=reset)
            return X
        if isinstance(X, np.ndarray) and X.ndim in (3, 4):
            kinds = [np.uint8, np.float32, np.float64]
            X = check_array(X, allow_nd=True, ensure_all_finite="allow-nan", dtype=kinds)
            if reset:
                self.n_features_in_ = math.prod(X.shape[1:])
            return X
        return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite="allow-nan")

    def _learn_codec(self, X: Any) -> Codec:
        if not hasattr(X, "iloc") and X.ndim > 2:
            return ImageCodec.learn(X, gaussian=self.likelihood == "gaussian")
        names = getattr(self, "feature_names_in_", range(X.shape[1]))
        return TableCodec.learn(X, [str(name) for name in names])

    def _encode(self, X: Any) -> Values:
        """A fitted estimator's view of rows."""
        check_is_fitted(self)
        return self._seen(self._validate_X(X, reset=False))

    def _seen(self, X: Any) -> Values:
        """Validated rows as networks see them."""
        x = self.codec_.encode(X)
        if isinstance(self.codec_, ImageCodec) and (line := self.codec_.other_scale(X)) is not None:
            warnings.warn(line, UserWarning, stacklevel=4)
        return x

    def _filled(self, X: Any) -> Values:
        """The same with missing values imputed."""
        return self._impute(self._encode(X), rounds=20)

    def _impute(self, x: Values, *, rounds: int, mean: bool = True, seed: int = 0) -> Values:
        return impute_rows(self.model_, x, self.fill_, rounds=rounds, seed=seed, mean=mean, size=self._chunk)

    @property
    def _chunk(self) -> int:
        return 64 if self.codec_.is_image else 256

    def _ask(self, function: Any, *arrays: NDArray[Any]) -> NDArray[Any]:
        return in_chunks(self.model_, function, *arrays, size=self._chunk)

    # --- training ----------------------------------------------------------------------------------------

    def _build(self, n_rows: int) -> VAE:
        """A new model by the parameters; `n_rows` are labeled."""
        n_classes = len(getattr(self, "classes_", ()))
        model = self._config(self.codec_).build(self.codec_.shape, n_classes=n_classes, n_rows=n_rows)
        model.likelihood = self.codec_.likelihood()
        return model

    def _going_on(self) -> bool:
        return bool(getattr(self, "warm_start", False)) and hasattr(self, "model_")

    def _prepare(self, X: Any) -> tuple[Values, int]:
        """Learn how X is to be seen; its rows so, and a seed."""
        check_parameters(self.get_params(deep=False))
        X = self._validate_X(X, reset=not self._going_on())
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if not self._going_on():
            self.codec_ = self._learn_codec(X)
        x = self._seen(X)
        if (row := first_row_without_values(x)) is not None:
            raise InputError(f"row {row} of X has no observed value; leave it out")
        if not self._going_on():
            observed = ~np.isnan(x)
            counts = np.maximum(observed.sum(axis=0), 1)
            self.fill_ = (np.where(observed, x, 0).sum(axis=0) / counts).astype(np.float32)
        return x, seed

    def _fill(self, x: Values) -> Values:
        """First guesses of missing values."""
        if takes_long(x):
            self._say(f"filling {int(np.isnan(x).sum()):,} missing values from neighbours first")
        return fill_from_neighbours(x, self.fill_)

    @property
    def _console(self) -> Console:
        return Console(stderr=True, quiet=not self.verbose)

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _settings(self, n_rows: int) -> FitSettings:
        image = self.codec_.is_image
        precision = self.precision
        if precision == "auto" and image and pick_device(self.device).type == "cpu" and bf16_is_fast_here():
            precision = "bf16-mixed"
        return FitSettings(
            max_epochs=self.max_epochs,
            max_time=self.max_time,
            batch_size=self.batch_size or (150 if image else None),
            learning_rate=self.learning_rate,
            weight_decay=0.0 if image else 1e-5,
            steps=1000 if image else int(np.clip(2.5 * n_rows, 2000, 3000)),
            first=0.5,
            hide=0.0 if image else 0.2,
            device=self.device,
            precision=precision,
        )

    def _train(
        self,
        x: Values,
        filled: Values,
        y: Labels,
        seed: int,
        *,
        began: float,
        weights: Mapping[str, Values | None] = MappingProxyType({}),
        guesses: Labels | None = None,
        held_out: Labels | None = None,
    ) -> None:
        """Train on rows with classes y; labels of the rows numbered `held_out` are for early stopping alone.

        `filled`: the rows with first guesses of their missing values. `began`: when fit did, by `time.monotonic`.
        The objective is that of parameters and labels as they are now, also where networks go on from a last fit.
        `weights`: attributes of the model that the labels decide on, `(K,)` each; None: as the model has them.
        """
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = self._build(max(int((y >= 0).sum()), 1))
            for name, weight in weights.items():
                if weight is not None:
                    setattr(model, name, torch.from_numpy(weight).to(pick_device(self.device)))
            if self._going_on():
                self._take_over_networks(model)
            stopping = None
            if held_out is not None:
                x_held, y_held = x[held_out], y[held_out]
                y = y.copy()
                y[held_out] = -1
                self.model_ = model

                def accuracy() -> float:
                    scores = self._ask(model.scores, self._impute(x_held, rounds=10))
                    return float((scores.argmax(axis=1) == y_held).mean())

                stopping = EarlyStopping(model, accuracy, patience=self.n_iter_no_change)
            with Display(type(self).__name__, self._console) as display:
                fitted = fit_model(
                    model,
                    filled,
                    y,
                    observed=~np.isnan(x),
                    guesses=guesses,
                    settings=self._settings(len(x)),
                    began=began,
                    seed=seed,
                    on_log=[display],
                    stopping=stopping,
                )
        self.model_ = model.eval()
        self.history_, self.n_iter_, self.n_iter_planned_ = fitted.history, fitted.epochs, fitted.planned_epochs
        if fitted.out_of_time:
            self._say(f"max_time: ended after {fitted.epochs} of {fitted.planned_epochs} epochs")

    def _take_over_networks(self, model: VAE) -> None:
        try:
            model.load_state_dict(self.model_.state_dict())
        except RuntimeError:
            raise InputError(
                "warm_start: the parameters ask for other networks than the last fit's; make a new estimator"
            ) from None

    # --- what a fitted model is asked ----------------------------------------------------------------------

    def transform(self, X: Any, *, features: bool = False) -> NDArray[Any]:
        """E[z] of each row, `(rows, z)`; with `features`, what the classifier's last layer sees."""
        x = self._filled(X)
        codes = self._ask(self.model_.embed if features else self.model_.encode, x)
        return codes if getattr(X, "dtype", None) == np.float32 else codes.astype(np.float64)

    @property
    def _n_features_out(self) -> int:
        return int(self.model_.encoder.z)

    def impute(self, X: Any, n_iter: int = 100, n_draws: int = 1) -> Any:
        """X with its missing entries filled; observed ones stay as they are.

        One draw: the mean over late rounds, the best guess in squared error. More: so many single draws, along a
        new first axis, that show how uncertain the guess is.
        """
        for name, value in (("n_iter", n_iter), ("n_draws", n_draws)):
            if value < 1:
                raise InputError(f"{name}={value}: give 1 or more")
        check_is_fitted(self)
        X = as_array(X, self.codec_)
        x, missing = self._encode(X), missing_entries(X)
        draws = [
            restore(X, self.codec_.decode(self._impute(x, rounds=n_iter, mean=n_draws == 1, seed=i)), missing)
            for i in range(n_draws)
        ]
        return draws[0] if n_draws == 1 else np.stack([np.asarray(draw) for draw in draws])

    def reconstruct(self, X: Any) -> NDArray[Any]:
        """The decoder's mean at E[z], on the input's scale."""
        x = self._filled(X)
        noise = np.zeros((len(x), self.model_.encoder.z), np.float32)
        rebuilt = self._ask(lambda rows, draws: self.model_.reconstruct(rows, noise=draws), x, noise)
        return self.codec_.decode(rebuilt)

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """The bound on the log-likelihood of each row's observed values, in nats, `(rows,)`.

        It is the density of the values as networks see them: columns centred and scaled, pixels in [0, 1].
        """
        x = self._encode(X)
        observed = (~np.isnan(x)).astype(np.float32)
        noise = row_noise(x, self.model_.encoder.z, seed=1)

        def bound(rows: torch.Tensor, seen: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
            elbo: torch.Tensor = self.model_.elbo(rows, observed=seen, noise=draws[None])
            return elbo

        return self._ask(bound, self._impute(x, rounds=20), observed, noise).astype(np.float64)

    def _codes(self, n: int, random_state: Any) -> Values:
        if n < 1:
            raise InputError(f"sample {n} rows: give 1 or more")
        rng = check_random_state(random_state)
        return np.asarray(rng.standard_normal((n, self.model_.encoder.z)), np.float32)

    # --- saving -------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write a folder with config.json and model.safetensors; nothing in them is executed by `load`."""
        check_is_fitted(self)
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        write_tensors(folder / WEIGHTS, {**self.model_.state_dict(), "fill": torch.from_numpy(self.fill_)})
        names = getattr(self, "feature_names_in_", None)
        write_json(
            folder / CONFIG,
            {
                "estimator": type(self).__name__,
                "parameters": {name: _plain(value) for name, value in self.get_params(deep=False).items()},
                "codec": self.codec_.to_json(),
                "n_features_in": self.n_features_in_,
                "feature_names_in": None if names is None else list(names),
                "n_iter": self.n_iter_,
                "n_iter_planned": self.n_iter_planned_,
                "history": self.history_,
                **self._more_to_save(),
            },
        )

    def _more_to_save(self) -> dict[str, Any]:
        return {}

    def _load_more(self, saved: dict[str, Any]) -> None:
        pass

    @classmethod
    def load(cls, path: str | Path, *, device: str | None = None) -> Self:
        """The estimator that `save` wrote."""
        folder = Path(path)
        if not (folder / CONFIG).exists():
            raise InputError(f"{folder} holds no saved estimator ({CONFIG} is missing)")
        saved = read_json(folder / CONFIG)
        if saved.get("estimator") != cls.__name__:
            raise InputError(f"{folder} holds {saved.get('estimator', 'a run')}, not {cls.__name__}")
        parameters = {name: _restored(value) for name, value in saved["parameters"].items()}
        if device is not None:
            parameters["device"] = device
        estimator = cls(**parameters)
        estimator.codec_ = codec_from_json(saved["codec"])
        estimator.n_features_in_ = saved["n_features_in"]
        if saved["feature_names_in"] is not None:
            estimator.feature_names_in_ = np.array(saved["feature_names_in"], dtype=object)
        estimator.n_iter_, estimator.history_ = saved["n_iter"], saved["history"]
        estimator.n_iter_planned_ = saved.get("n_iter_planned", saved["n_iter"])  # not in files from before it
        estimator._load_more(saved)
        tensors = read_tensors(folder / WEIGHTS)[0]
        estimator.fill_ = tensors.pop("fill").numpy()
        model = estimator._build(n_rows=1)  # the objective waits for the next fit
        model.load_state_dict(tensors)
        estimator.model_ = model.to(pick_device(estimator.device)).eval()
        return estimator

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "model_" in state:
            state["model_"] = copy.deepcopy(state["model_"]).cpu()
        return state

    def __sklearn_tags__(self) -> Any:
        return tell_inputs(super().__sklearn_tags__())


def tell_inputs(tags: Any) -> Any:
    """scikit-learn's tags, with what all estimators here take: holes, images, categories."""
    tags.input_tags.allow_nan = True
    tags.input_tags.three_d_array = True
    tags.input_tags.categorical = True
    tags.input_tags.string = True
    tags.transformer_tags.preserves_dtype = ["float64", "float32"]
    return tags


def bf16_is_fast_here() -> bool:
    """Whether this CPU multiplies in bf16: conv nets then train in two thirds of the time."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _plain(value: Any) -> Any:
    """A parameter as JSON holds it."""
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if is_nan(value):
        return NAN
    if isinstance(value, dict):  # JSON's keys are text, labels may be numbers
        return {ITEMS: [[_plain(key), _plain(item)] for key, item in value.items()]}
    return value


def _restored(value: Any) -> Any:
    """A parameter from what `_plain` made of it."""
    if value == NAN:
        return math.nan
    if isinstance(value, dict):
        return {_restored(key): _restored(item) for key, item in value[ITEMS]}
    return tuple(value) if isinstance(value, list) else value
