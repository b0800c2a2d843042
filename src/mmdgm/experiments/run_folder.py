"""A run: one preset, one seed, one folder with what it leaves behind.

config.json          everything resolved: enough, with the weights, to use the model
model.safetensors    the trained weights
result.json          figures, seed, counts, versions; status "done" when it is
metrics.csv          the objective's terms along training
figures/             samples, imputations, learning curves
checkpoints/         what `--resume` goes on from
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mmdgm.data import datasets
from mmdgm.data.datasets import Dataset, Images, Labels
from mmdgm.data.prepared import prepare
from mmdgm.data.splits import Indices, complement, labeled_draw, validation_split
from mmdgm.devices import pick_device
from mmdgm.errors import InputError
from mmdgm.experiments.configs import Config, config_from_json
from mmdgm.files import read_json, read_tensors
from mmdgm.inference.evaluation import error_percent, mean_elbo, mean_log_likelihood
from mmdgm.models import VAE
from mmdgm.networks.likelihoods import BernoulliPixels
from mmdgm.networks.stacks import Shape


@dataclass(frozen=True)
class RunFolder:
    """The paths of a run's leavings."""

    path: Path

    @property
    def config(self) -> Path:
        return self.path / "config.json"

    @property
    def weights(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.csv"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoints" / "last.safetensors"

    @property
    def figures(self) -> Path:
        return self.path / "figures"

    def status(self) -> str | None:
        """ "running", "stopped", "done", or None where no run has begun."""
        return str(read_json(self.result).get("status")) if self.result.exists() else None


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A data set's rows as a run uses them; `labeled` and `unlabeled` number them among those not held out."""

    x: Images
    y: Labels
    x_unlabeled: Images
    labeled: Indices
    unlabeled: Indices
    x_validation: Images
    y_validation: Labels


def load_data(config: Config, data_dir: Path | None) -> tuple[Dataset, float]:
    """The config's data set as networks see it, and the scale of the values in its files."""
    raw = datasets.load(config.data.dataset, data_dir, extra=config.data.extra)
    cache = (data_dir or datasets.default_data_dir()) / "cache"
    return prepare(raw, config.data.preprocessing, cache=cache), raw.scale


def split_rows(dataset: Dataset, config: Config, seed: int) -> Rows:
    """Hold out validation rows (the same for every seed), then draw the labeled ones."""
    training, held_out = validation_split(dataset.y_train, config.data.validation)
    x, y = dataset.x_train[training], dataset.y_train[training]
    labeled = np.arange(len(y)) if config.data.labels is None else labeled_draw(y, config.data.labels, seed=seed)
    unlabeled = complement(labeled, len(y)) if config.data.unlabeled else labeled[:0]
    return Rows(
        x=x[labeled],
        y=y[labeled],
        x_unlabeled=x[unlabeled],
        labeled=labeled,
        unlabeled=unlabeled,
        x_validation=dataset.x_train[held_out],
        y_validation=dataset.y_train[held_out],
    )


def evaluate(model: VAE, dataset: Dataset, rows: Rows, *, draws: int = 0) -> dict[str, float | None]:
    """Error and bound on the test rows, and on the validation rows where some are held out.

    `draws`: with so many draws of z, the importance-weighted log-likelihood of the test rows too.
    """
    figures = _figures(model, dataset.x_test, dataset.y_test, dataset.scale, draws)
    if len(rows.x_validation):
        held_out = _figures(model, rows.x_validation, rows.y_validation, dataset.scale, 0)
        figures |= {f"validation_{name}": value for name, value in held_out.items()}
    return figures


def _figures(model: VAE, x: Images, y: Labels, scale: float, draws: int) -> dict[str, float | None]:
    """Figures named `…_binarised` are of Bernoulli draws of grey values, the others of the values themselves."""
    figures: dict[str, float | None] = {"error_percent": error_percent(model, x, y, scale=scale), "elbo": None}
    if not model.generates:
        return figures
    kinds = {"": False, "_binarised": True} if isinstance(model.likelihood, BernoulliPixels) else {"": False}
    for suffix, binarised in kinds.items():
        figures[f"elbo{suffix}"] = mean_elbo(model, x, scale=scale, binarised=binarised)
        if draws:
            figures[f"log_likelihood{suffix}"] = mean_log_likelihood(
                model, x, scale=scale, binarised=binarised, draws=draws
            )
    return figures


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """A run's model, ready to use."""

    folder: RunFolder
    config: Config
    seed: int
    model: VAE
    shape: Shape
    n_classes: int
    class_names: tuple[str, ...]
    scale: float  # what takes values as they lie in the training data's files into [0, 1]


def load_run(path: Path | str, *, device: str = "auto") -> TrainedRun:
    """Read the model that a run left."""
    folder = RunFolder(Path(path))
    if inside := sorted(folder.path.glob("seed-*/config.json")):
        raise InputError(f"{path} holds several runs; choose one, for example {inside[0].parent}")
    if not folder.config.exists():
        raise InputError(
            f"{path} holds no run (config.json is missing); `mmdgm train PRESET --run-dir {path}` makes one"
        )
    if folder.status() == "stopped":
        raise InputError(f"{path}: training {read_json(folder.result)['reason']}; train again in another folder")
    if not folder.weights.exists():
        raise InputError(
            f"{path}: training has not finished; go on with it by `mmdgm train … --run-dir {path} --resume`"
        )
    saved = read_run_config(folder)
    config = config_from_json(saved["config"])
    shape: Shape = tuple(saved["shape"])
    model = config.model.build(shape, n_classes=saved["n_classes"], n_rows=saved["n_rows"])
    try:
        model.load_state_dict(read_tensors(folder.weights)[0])
    except RuntimeError:
        raise InputError(f"{folder.weights}: its weights do not fit the model of {folder.config}") from None
    return TrainedRun(
        folder=folder,
        config=config,
        seed=saved["seed"],
        model=model.to(pick_device(device), memory_format=torch.channels_last).eval(),  # type: ignore[call-overload]
        shape=shape,
        n_classes=saved["n_classes"],
        class_names=tuple(saved["class_names"]),
        scale=saved["scale"],
    )


def load_classifier(path: Path | str, *, device: str = "auto") -> TrainedRun:
    """The same of a model that must classify."""
    trained = load_run(path, device=device)
    if not hasattr(trained.model, "scores"):
        raise InputError(
            f"{path}: the model of {trained.config.preset} does not classify; give a run of one that does"
        )
    return trained


def read_run_config(folder: RunFolder) -> dict[str, Any]:
    """A run's config.json."""
    saved = read_json(folder.config)
    keys = ("config", "overrides", "seed", "shape", "n_classes", "class_names", "n_rows", "scale")
    if missing := [key for key in keys if key not in saved]:
        raise InputError(f"{folder.config}: is no run's config ({', '.join(missing)} missing)")
    return saved
