"""A run: one preset, one seed, one folder. Load, split, build, train, evaluate, leave the results.

config.json          everything resolved: enough, with the weights, to use the model
model.safetensors    the trained weights
result.json          figures, seed, counts, versions; status "done" when it is
metrics.csv          the objective's terms along training
figures/             samples, imputations, learning curves
checkpoints/         what `--resume` goes on from
"""

import json
import platform
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

import mmdgm
from mmdgm import datasets, plots
from mmdgm.batches import Batches
from mmdgm.corruption import rand_drop, rect
from mmdgm.datasets import Dataset, Images, Labels
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.evaluation import error_percent, inference, mean_elbo
from mmdgm.imputation import impute
from mmdgm.models import VAE, MaxMarginConditionalVAE
from mmdgm.networks import Shape
from mmdgm.persistence import read_json, read_tensors, write_json, write_tensors
from mmdgm.presets import Config, config_from_json, config_to_json, find_preset
from mmdgm.progress import Display, MetricsFile, read_metrics, tensorboard
from mmdgm.splits import complement, labeled_draw, validation_split
from mmdgm.training import Record, SemiSupervisedTraining, Trainer, checkpoint_step


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
    """A data set's rows as a run uses them."""

    x: Images
    y: Labels
    x_unlabeled: Images
    x_validation: Images
    y_validation: Labels


def split_rows(dataset: Dataset, config: Config, seed: int) -> Rows:
    """Hold out validation rows (the same for every seed), then draw the labeled ones."""
    training, held_out = validation_split(dataset.y_train, config.data.validation)
    x, y = dataset.x_train[training], dataset.y_train[training]
    labeled = np.arange(len(y)) if config.data.labels is None else labeled_draw(y, config.data.labels, seed=seed)
    unlabeled = complement(labeled, len(y))
    return Rows(
        x=x[labeled],
        y=y[labeled],
        x_unlabeled=x[unlabeled],
        x_validation=dataset.x_train[held_out],
        y_validation=dataset.y_train[held_out],
    )


def train_runs(
    config: Config,
    runs: Iterable[tuple[int, RunFolder]],
    *,
    overrides: dict[str, Any],
    console: Console,
    data_dir: Path | None = None,
    device: str = "auto",
    resume: bool = False,
) -> list[dict[str, Any]]:
    """Train one run per (seed, folder), in one process with one compilation; returns their result.json."""
    runs = list(runs)
    for seed, folder in runs:
        _check_folder(config, seed, folder, resume)
    dataset = datasets.load(config.data.dataset, data_dir)
    trainer: Trainer | None = None
    results, stopped = [], []
    for seed, folder in runs:
        if folder.status() == "done":
            results.append(read_json(folder.result))
            continue
        torch.manual_seed(seed)
        rows = split_rows(dataset, config, seed)
        model = config.model.build(dataset.shape, n_classes=dataset.n_classes, n_rows=len(rows.x))
        if trainer is None:
            trainer = Trainer(model, config.training, device=pick_device(device).type)
        else:
            trainer.model.load_state_dict(model.state_dict())
        try:
            results.append(_train_run(config, seed, folder, dataset, rows, trainer, overrides, console, resume))
        except TrainingStopped as error:
            stopped.append(f"seed {seed} {error}")
    if stopped:
        raise TrainingStopped("; ".join(stopped))
    return results


def _check_folder(config: Config, seed: int, folder: RunFolder, resume: bool) -> None:
    """Refuse to write over a run, or to resume one of another config or seed."""
    if not folder.config.exists():
        return
    if not resume:
        raise InputError(
            f"{folder.path} already holds a run; go on with it by --resume, or choose another --run-dir"
        )
    saved = read_run_config(folder)
    if saved["seed"] != seed:
        raise InputError(
            f"{folder.path} holds a run of seed {saved['seed']}, not {seed}; use --seed {saved['seed']}"
        )
    now = json.loads(json.dumps(config_to_json(config)))
    for part in ("data", "model", "training"):
        for key, value in now[part].items():
            before = saved["config"][part].get(key)
            if before != value:
                raise InputError(
                    f"{folder.path} holds a run with {key}={before}, not {value}; resume it as it was"
                )


def _train_run(
    config: Config,
    seed: int,
    folder: RunFolder,
    dataset: Dataset,
    rows: Rows,
    trainer: Trainer,
    overrides: dict[str, Any],
    console: Console,
    resume: bool,
) -> dict[str, Any]:
    batches = _batches(config, seed, dataset, rows, trainer.device)
    write_json(
        folder.config,
        {
            "config": config_to_json(config),
            "overrides": overrides,
            "seed": seed,
            "shape": list(dataset.shape),
            "n_classes": dataset.n_classes,
            "n_rows": len(rows.x),
            "scale": dataset.scale,
        },
    )
    result: dict[str, Any] = {
        "status": "running",
        "preset": config.preset,
        "seed": seed,
        "config": config_to_json(config),
        "overrides": overrides,
        "quick": is_shortened(config),
        "dataset": _counts(dataset, rows),
        "device": device_name(trainer.device),
        "versions": versions(),
        "git_commit": git_commit(),
    }
    write_json(folder.result, result)
    kept = checkpoint_step(folder.checkpoint) if resume else 0
    listeners: list[Callable[[Record], None] | None] = [
        MetricsFile(folder.metrics, keep_steps=kept),
        tensorboard(folder.path / "tensorboard", keep_steps=kept),
    ]
    with Display(f"{config.preset} seed {seed}", console) as display:
        try:
            summary = trainer.fit(
                batches,
                checkpoint=folder.checkpoint,
                resume=resume,
                on_log=[display, *(listener for listener in listeners if listener)],
            )
        except TrainingStopped as error:
            write_json(folder.result, {**result, "status": "stopped", "reason": str(error)})
            raise
    model = trainer.model
    figures = evaluate(model, dataset, rows)
    save_figures(folder, model, dataset)
    write_tensors(folder.weights, model.state_dict())
    result |= {
        "status": "done",
        **figures,
        "steps": summary.steps,
        "epochs": summary.epochs,
        "seconds": round(summary.seconds, 2),
        "images_per_second": round(summary.images_per_second, 1),
    }
    write_json(folder.result, result)
    return result


def is_shortened(config: Config) -> bool:
    """Whether a config has fewer epochs, over all stages, than its preset."""
    now, preset = (
        sum(stage.epochs for stage in c.training.stages()) for c in (config, find_preset(config.preset).config)
    )
    return now < preset


def _counts(dataset: Dataset, rows: Rows) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "labeled": len(rows.x),
        "labeled_per_class": np.bincount(rows.y, minlength=dataset.n_classes).tolist(),
        "unlabeled": len(rows.x_unlabeled),
        "validation": len(rows.x_validation),
        "test": len(dataset.x_test),
    }


def _batches(config: Config, seed: int, dataset: Dataset, rows: Rows, device: torch.device) -> Batches:
    training = config.training
    if len(rows.x_unlabeled) and not isinstance(training, SemiSupervisedTraining):
        raise InputError(f"labels={config.data.labels}: {config.preset} is trained on labeled rows alone")
    return Batches(
        torch.from_numpy(rows.x.copy()).to(device),
        torch.from_numpy(rows.y.copy()).to(device),
        torch.from_numpy(rows.x_unlabeled.copy()).to(device),
        scale=dataset.scale,
        labeled_batch=training.batch,
        unlabeled_batch=training.unlabeled_batch if isinstance(training, SemiSupervisedTraining) else 0,
        seed=(seed,),
        binarised=config.data.binarised,
    )


def evaluate(model: VAE, dataset: Dataset, rows: Rows) -> dict[str, float | None]:
    """Error and bound on the test rows, and on the validation rows where some are held out."""
    scale = dataset.scale
    figures: dict[str, float | None] = {
        "error_percent": error_percent(model, dataset.x_test, dataset.y_test, scale=scale),
        "elbo": mean_elbo(model, dataset.x_test, scale=scale),
    }
    if len(rows.x_validation):
        figures["validation_error_percent"] = error_percent(
            model, rows.x_validation, rows.y_validation, scale=scale
        )
        figures["validation_elbo"] = mean_elbo(model, rows.x_validation, scale=scale)
    return figures


# --- a trained run ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """A run's model, ready to use."""

    folder: RunFolder
    config: Config
    seed: int
    model: VAE
    shape: Shape
    n_classes: int
    scale: float


def load_run(path: Path | str, *, device: str = "auto") -> TrainedRun:
    """Read the model that a run left."""
    folder = RunFolder(Path(path))
    if not folder.config.exists():
        raise InputError(
            f"{path} holds no run (config.json is missing); `mmdgm train PRESET --run-dir {path}` makes one"
        )
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
        model=model.to(pick_device(device)).eval(),
        shape=shape,
        n_classes=saved["n_classes"],
        scale=saved["scale"],
    )


def read_run_config(folder: RunFolder) -> dict[str, Any]:
    """A run's config.json."""
    saved = read_json(folder.config)
    keys = ("config", "overrides", "seed", "shape", "n_classes", "n_rows", "scale")
    if missing := [key for key in keys if key not in saved]:
        raise InputError(f"{folder.config}: is no run's config ({', '.join(missing)} missing)")
    return saved


def sample_grid(model: VAE, *, columns: int, rows: int, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    """Decoder means for codes from the prior: `x` `(rows, columns, channels, height, width)` and `z`.

    A conditional model gives one row per class and one code per column, and `y` beside them.
    """
    with inference(model, seed=seed) as device:
        if isinstance(model, MaxMarginConditionalVAE):
            rows = model.n_classes
            z = torch.randn(columns, model.encoder.z, device=device).repeat(rows, 1)
            y = torch.arange(rows, device=device).repeat_interleave(columns)
            x = model.generate(z, y)
        else:
            z = torch.randn(rows * columns, model.encoder.z, device=device)
            x = model.generate(z)
    grid = {"x": x.reshape(rows, columns, *x.shape[1:]), "z": z.reshape(rows, columns, -1)}
    if isinstance(model, MaxMarginConditionalVAE):
        grid["y"] = y.reshape(rows, columns)
    return {name: tensor.cpu().numpy() for name, tensor in grid.items()}


def save_figures(folder: RunFolder, model: VAE, dataset: Dataset) -> None:
    """Samples, imputations of test images with two kinds of holes, and learning curves."""
    plots.save_grid(folder.figures / "samples.png", sample_grid(model, columns=10, rows=10)["x"])
    truth = (dataset.x_test[:16] / dataset.scale).astype(np.float32)
    _, height, width = dataset.shape
    lines = [truth]
    for missing in (rect(truth.shape, height * 3 // 7, width * 3 // 7), rand_drop(truth.shape, 0.6, seed=0)):
        lines += [np.where(missing, np.nan, truth), impute(model, truth, missing)]
    plots.save_grid(folder.figures / "imputations.png", np.stack(lines))
    if metrics := read_metrics(folder.metrics):
        plots.save_curves(folder.figures / "curves.png", metrics)


# --- where and with what a run was made ------------------------------------------------------------------


def pick_device(name: str) -> torch.device:
    """A device by the name that the command line takes."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda"):
        raise InputError(f"--device {name}: use auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: torch sees no GPU here; use --device cpu")
    return torch.device(name)


def device_name(device: torch.device) -> str:
    """The device in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {torch.get_num_threads()} threads"


def versions() -> dict[str, str]:
    """Versions of what the figures depend on."""
    packages = {name: version(name) for name in ("torch", "numpy", "scikit-learn")}
    return {"mmdgm": mmdgm.__version__, "python": platform.python_version(), **packages}


def git_commit() -> str | None:
    """The commit of this source tree, marked where it has changes; None outside a checkout of it."""
    root = Path(__file__).resolve().parents[2]
    commands = (
        ["rev-parse", "--show-toplevel"],
        ["rev-parse", "HEAD"],
        ["status", "--porcelain", "--", "src"],
    )
    try:
        top, commit, changes = (
            subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
            for command in commands
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    if Path(top).resolve() != root:
        return None
    return f"{commit}+changes" if changes else commit
