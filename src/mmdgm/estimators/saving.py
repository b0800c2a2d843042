"""Saving a fitted estimator in a folder: config.json, model.safetensors, metrics.csv. Reading executes no code.

config.json   the estimator's parameters, the codec from arrays to inputs, the settings and networks of its model; and
              the SHA-256 of the other two files, which belong to it
"""

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mmdgm.data.codecs import TableCodec, codec_from_json
from mmdgm.data.labels import is_nan
from mmdgm.devices import pick_device, seeded
from mmdgm.errors import InputError
from mmdgm.estimators.display import Counts
from mmdgm.files import FILES, read_together, tensor_bytes, tensors_from, write_together
from mmdgm.models.configs import from_plain, to_plain
from mmdgm.models.filler import Filler
from mmdgm.models.row_sampler import RowSampler
from mmdgm.progress import metrics_bytes, parse_metrics
from mmdgm.settings import from_json

CONFIG, WEIGHTS, METRICS = "config.json", "model.safetensors", "metrics.csv"
FILLER, SAMPLER = "filler.", "sampler."  # prefixes of their tensors
NAN, ITEMS = "(no number)", "(items)"  # in config.json


def write_estimator(estimator: Any, folder: Path, more: Mapping[str, Any]) -> None:
    """Write a fitted estimator's files, all or none of them; `more` also goes into config.json."""
    tensors = {**estimator.model_.state_dict(), "fill": torch.from_numpy(estimator.fill_)}
    if estimator.filler_ is not None:
        tensors |= {FILLER + name: tensor for name, tensor in estimator.filler_.state_dict().items()}
    if estimator.sampler_ is not None:
        tensors |= {SAMPLER + name: tensor for name, tensor in estimator.sampler_.state_dict().items()}
    files = {WEIGHTS: tensor_bytes(tensors), METRICS: metrics_bytes(estimator.history_)}
    write_together(folder / CONFIG, files, {**describe(estimator), **more})


def describe(estimator: Any) -> dict[str, Any]:
    """Return the content of config.json for an estimator; if it is not fitted, only a part."""
    described = {
        "estimator": type(estimator).__name__,
        "parameters": {name: _plain(value) for name, value in estimator.get_params(deep=False).items()},
    }
    if not hasattr(estimator, "codec_"):
        return described
    names, classes = (getattr(estimator, name, None) for name in ("feature_names_in_", "classes_"))
    return {
        **described,
        "codec": estimator.codec_.to_json(),
        "model": to_plain(estimator.config_),
        "classes": None if classes is None else classes.tolist(),
        "classes_dtype": None if classes is None else classes.dtype.str,
        "n_features_in": estimator.n_features_in_,
        "feature_names_in": None if names is None else list(names),
        "counts": None if estimator.counts_ is None else asdict(estimator.counts_),
        "n_iter": estimator.n_iter_,
        "n_iter_planned": estimator.n_iter_planned_,
    }


def read_estimator(folder: Path, kinds: Mapping[str, Any], *, device: str | None) -> Any:
    """Return the estimator that `write_estimator` wrote; `kinds`: the allowed classes by name."""
    if not (folder / CONFIG).exists():
        raise InputError(f"{folder} holds no saved estimator ({CONFIG} is missing)")
    saved, files = read_together(folder / CONFIG, (WEIGHTS, METRICS))
    if WEIGHTS not in files:
        raise InputError(f"{folder / WEIGHTS} is missing")
    name = str(saved.get("estimator"))
    if name not in kinds:
        raise InputError(f"{folder / CONFIG}: the estimator is {name}, not {' or '.join(kinds)}")
    try:
        with seeded(0):  # new networks draw weights, which the saved ones replace
            return _restore(kinds[name], saved, files, folder, device)
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError):
        # wrong values, or weights that do not fit
        raise InputError(f"{folder}: {CONFIG} and {WEIGHTS} do not make a {name}") from None


def _restore(kind: Any, saved: Mapping[str, Any], files: Mapping[str, bytes], folder: Path, device: str | None) -> Any:
    parameters = {name: _restored(value) for name, value in saved["parameters"].items()}
    if device is not None:
        parameters["device"] = device
    estimator = kind(**parameters)
    place = pick_device(estimator.device)
    estimator.codec_, estimator.config_ = codec_from_json(saved["codec"]), from_plain(saved["model"])
    if saved["classes"] is not None:
        estimator.classes_ = np.array(saved["classes"], dtype=np.dtype(saved["classes_dtype"]))
    estimator.n_features_in_ = saved["n_features_in"]
    if saved["feature_names_in"] is not None:
        estimator.feature_names_in_ = np.array(saved["feature_names_in"], dtype=object)
    estimator.n_iter_, estimator.n_iter_planned_ = saved["n_iter"], saved["n_iter_planned"]
    if saved.get("counts") is not None:
        estimator.counts_ = from_json(Counts, saved["counts"])
    estimator.history_ = parse_metrics(files.get(METRICS, b""), folder / METRICS)
    tensors = tensors_from(files[WEIGHTS], folder / WEIGHTS, checked=FILES in saved)
    if broken := next((name for name, tensor in tensors.items() if not tensor.isfinite().all()), None):
        raise InputError(f"{folder / WEIGHTS}: {broken} is not finite; take it from a backup, or train again")
    estimator.fill_ = tensors.pop("fill").numpy()
    estimator.filler_ = estimator.sampler_ = None
    if isinstance(estimator.codec_, TableCodec):
        of_filler = {name: tensors.pop(name) for name in list(tensors) if name.startswith(FILLER)}
        estimator.filler_ = Filler(estimator.codec_.table.columns).eval()
        estimator.filler_.load_state_dict({name.removeprefix(FILLER): part for name, part in of_filler.items()})
        if of_sampler := {name: tensors.pop(name) for name in list(tensors) if name.startswith(SAMPLER)}:
            sizes = {"z": estimator.config_.z, "n_classes": len(estimator.classes_)}
            estimator.sampler_ = RowSampler(estimator.codec_.table.columns, **sizes).eval()
            estimator.sampler_.load_state_dict({k.removeprefix(SAMPLER): part for k, part in of_sampler.items()})
    model = estimator._build(estimator.config_, n_rows=1)  # n_rows matters only for training
    model.load_state_dict(tensors)
    estimator.model_ = model.to(place, memory_format=torch.channels_last).eval()
    return estimator


def _plain(value: Any) -> Any:
    """Return a parameter as a JSON value."""
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if is_nan(value):
        return NAN
    if isinstance(value, dict):  # keys in JSON are text, but labels may be numbers
        return {ITEMS: [[_plain(key), _plain(item)] for key, item in value.items()]}
    return value


def _restored(value: Any) -> Any:
    """Return a parameter from the result of `_plain`."""
    if value == NAN:
        return math.nan
    if isinstance(value, dict):
        return {_restored(key): _restored(item) for key, item in value[ITEMS]}
    return tuple(value) if isinstance(value, list) else value
