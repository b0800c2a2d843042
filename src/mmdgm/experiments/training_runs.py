"""From a config to trained runs: load, split, build, train, evaluate, leave the results."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning_fabric import Fabric
from rich.console import Console
from scipy.sparse import csr_matrix

from mmdgm.data.batches import Batches
from mmdgm.data.datasets import Dataset
from mmdgm.data.masks import rand_drop, rect
from mmdgm.data.prepared import Preprocessing, shown
from mmdgm.data.preprocessing import to_unit
from mmdgm.devices import keep_freed_memory, make_fabric
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.experiments.configs import Config, check, config_to_json
from mmdgm.experiments.presets import find_preset
from mmdgm.experiments.provenance import device_name, git_commit, versions
from mmdgm.experiments.run_folder import Rows, RunFolder, evaluate, load_data, read_run_config, split_rows
from mmdgm.files import claimed, read_json, write_json, write_tensors
from mmdgm.inference.frozen import fit_frozen_classifier
from mmdgm.inference.imputation import impute
from mmdgm.inference.sampling import sample_grid
from mmdgm.models import VAE, MaxMarginVAE
from mmdgm.progress import Display, MetricsFile, Record, read_metrics, tensorboard
from mmdgm.propagation.graph import first_guesses, handwriting_graph
from mmdgm.report import plots
from mmdgm.settings import defaults
from mmdgm.training.plan import SemiSupervisedTraining
from mmdgm.training.trainer import Trainer, checkpoint_step


def train_runs(
    config: Config,
    runs: Iterable[tuple[int, RunFolder]],
    *,
    overrides: dict[str, Any],
    console: Console,
    data_dir: Path | None = None,
    device: str = "auto",
    devices: int | None = None,
    num_nodes: int | None = None,
    resume: bool = False,
) -> list[dict[str, Any]]:
    """Train one run per (seed, folder), one after the other with one compilation; returns their result.json.

    With several devices, every rank comes through here; only the first writes.
    """
    check(config)
    runs = list(runs)
    for seed, folder in runs:
        _check_folder(config, seed, folder, resume)
    dataset, file_scale = load_data(config, data_dir)
    keep_freed_memory()
    fabric = make_fabric(device, precision=config.training.precision, devices=devices, num_nodes=num_nodes)
    trainer: Trainer | None = None
    graph: csr_matrix | None = None  # of the training rows, which are the same for every seed
    results, stopped = [], []
    for seed, folder in runs:
        if folder.status() == "done":
            results.append(read_json(folder.result))
            continue
        torch.manual_seed(seed)
        rows = split_rows(dataset, config, seed)
        model = config.model.build(dataset.shape, n_classes=dataset.n_classes, n_rows=len(rows.x))
        if trainer is None:
            trainer = Trainer(model, config.training, fabric=fabric, runs=len(runs))
        else:
            trainer.model.load_state_dict(model.state_dict())
        batches = _batches(config, seed, dataset, rows, trainer.device)
        trainer.check(batches)
        if config.data.spread:
            if graph is None:
                if fabric.is_global_zero:
                    console.print("looking for every image's neighbours, minutes on a CPU …", highlight=False)
                graph = _graph(dataset, rows, trainer.device)
            batches.begin_with(_first_guess(graph, rows, surest=config.data.spread))
        try:
            look_again = partial(_check_folder, config, seed, folder, resume)
            with _claimed_by_first_rank(fabric, folder.path, look_again):
                result = _train_run(
                    config,
                    seed,
                    folder,
                    dataset=dataset,
                    file_scale=file_scale,
                    rows=rows,
                    trainer=trainer,
                    batches=batches,
                    overrides=overrides,
                    console=console,
                    resume=resume,
                )
            results.append(result)
        except TrainingStopped as error:
            stopped.append(f"seed {seed} {error}")
    if stopped:
        raise TrainingStopped("; ".join(stopped))
    return results


@contextmanager
def _claimed_by_first_rank(fabric: Fabric, folder: Path, look_again: Callable[[], None]) -> Iterator[None]:
    """The first rank claims the folder; where it cannot, or another run has got in, all ranks fail together."""
    with ExitStack() as stack:
        error = None
        if fabric.is_global_zero:
            try:
                stack.enter_context(claimed(folder))
                look_again()
            except InputError as failure:
                error = str(failure)
        if error := fabric.broadcast(error):
            raise InputError(error)
        yield


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
    for key, before, now in differing_settings(saved["config"], config):
        raise InputError(f"{folder.path} holds a run with {key}={before}, not {now}; resume it as it was")


def differing_settings(saved: dict[str, Any], config: Config) -> Iterator[tuple[str, Any, Any]]:
    """The settings (key, saved, now) in which a saved config, as `config_to_json` makes it, is another one.

    A setting that the saved config does not name is younger; it had its default (see `from_json`).
    """
    now = config_to_json(config)
    for part in ("data", "model", "training"):
        before = defaults(getattr(config, part)) | saved.get(part, {})
        for key, value in now[part].items():
            if before.get(key) != value:
                yield key, before.get(key), value


def _train_run(
    config: Config,
    seed: int,
    folder: RunFolder,
    *,
    dataset: Dataset,
    file_scale: float,
    rows: Rows,
    trainer: Trainer,
    batches: Batches,
    overrides: dict[str, Any],
    console: Console,
    resume: bool,
) -> dict[str, Any]:
    fabric = trainer.fabric
    kept = checkpoint_step(folder.checkpoint) if resume else 0
    fabric.barrier()  # before the first rank writes
    if not fabric.is_global_zero:
        trainer.fit(batches, checkpoint=folder.checkpoint, resume=resume)
        fabric.barrier()  # the first rank evaluates
        result = read_json(folder.result)
        if result["status"] == "stopped":
            raise TrainingStopped(result["reason"])
        return result
    write_json(
        folder.config,
        {
            "config": config_to_json(config),
            "overrides": overrides,
            "seed": seed,
            "shape": list(dataset.shape),
            "n_classes": dataset.n_classes,
            "class_names": list(dataset.class_names or map(str, range(dataset.n_classes))),
            "n_rows": len(rows.x),
            "scale": file_scale,
        },
    )
    result = {
        "status": "running",
        "preset": config.preset,
        "seed": seed,
        "config": config_to_json(config),
        "overrides": overrides,
        "quick": is_shortened(config),
        "dataset": _counts(dataset, rows),
        "device": device_name(trainer.device),
        "processes": fabric.world_size,
        "precision": fabric.strategy.precision.precision,
        "versions": versions(),
        "git_commit": git_commit(),
    }
    write_json(folder.result, result)
    if resume:
        console.print(f"{folder.path}: going on from step {kept}", markup=False, highlight=False, soft_wrap=True)
    listeners: list[Callable[[Record], None] | None] = [
        MetricsFile(folder.metrics, keep_steps=kept),
        tensorboard(folder.path / "tensorboard", keep_steps=kept),
    ]
    if trainer.compiles_next(batches):
        console.print("compiling the training step, which takes up to a minute …", highlight=False)
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
        except KeyboardInterrupt:
            step = checkpoint_step(folder.checkpoint)
            console.print(f"{folder.path}: --resume goes on from step {step}", markup=False, soft_wrap=True)
            raise
    model = trainer.model
    if isinstance(model, MaxMarginVAE) and not model.C:
        console.print("training the classifier on the frozen features (Pegasos) …", highlight=False)
        fit_frozen_classifier(model, rows.x, rows.y, scale=dataset.scale)
    write_tensors(folder.weights, model.state_dict())
    figures = evaluate(model, dataset, rows)
    if broken := [name for name, value in figures.items() if value is not None and not isfinite(value)]:
        reason = f"stopped at its end: {', '.join(broken)} not finite; try a lower learning_rate"
        write_json(folder.result, {**result, "status": "stopped", "reason": reason})
        fabric.barrier()
        raise TrainingStopped(reason)
    save_figures(folder, model, dataset, config.data.preprocessing)
    result |= {
        "status": "done",
        **figures,
        "steps": summary.steps,
        "epochs": summary.epochs,
        "seconds": round(summary.seconds, 2),
        "start_seconds": round(summary.start_seconds, 2),
        "images_per_second": round(summary.images_per_second, 1),
        "execution": summary.execution,
    }
    write_json(folder.result, result)
    fabric.barrier()
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


def _graph(dataset: Dataset, rows: Rows, device: torch.device) -> csr_matrix:
    """The graph of neighbours of all training rows, in the order of the data set."""
    images = np.empty((len(rows.labeled) + len(rows.unlabeled), *dataset.shape), rows.x.dtype)
    images[rows.labeled], images[rows.unlabeled] = rows.x, rows.x_unlabeled
    return handwriting_graph(to_unit(torch.from_numpy(images).to(device), dataset.scale))


def _first_guess(graph: csr_matrix, rows: Rows, *, surest: float) -> torch.Tensor:
    """Labels `(m,)` of the unlabeled rows, spread along their graph; −1 where they are not sure enough."""
    labels = np.full(graph.shape[0], -1)
    labels[rows.labeled] = rows.y
    return torch.from_numpy(first_guesses(graph, labels, surest=surest)[rows.unlabeled])


def _batches(config: Config, seed: int, dataset: Dataset, rows: Rows, device: torch.device) -> Batches:
    training = config.training
    if len(rows.x_unlabeled) and not isinstance(training, SemiSupervisedTraining):
        raise InputError(
            f"labels={config.data.labels}: {config.preset} is trained on labeled rows alone; leave the others out "
            f"with --set unlabeled=false"
        )
    x, y, x_unlabeled = (torch.from_numpy(part.copy()).to(device) for part in (rows.x, rows.y, rows.x_unlabeled))
    return Batches(
        x,
        y,
        x_unlabeled,
        scale=dataset.scale,
        labeled_batch=training.batch,
        unlabeled_batch=training.unlabeled_batch if isinstance(training, SemiSupervisedTraining) else 0,
        seed=seed,
        binarised=config.data.binarised,
    )


def save_figures(folder: RunFolder, model: VAE, dataset: Dataset, preprocessing: Preprocessing) -> None:
    """Learning curves; of a generative model also samples, and test images with two kinds of holes, filled."""
    if metrics := read_metrics(folder.metrics):
        plots.save_curves(folder.figures / "curves.png", metrics)
    if not model.generates:
        return
    samples = sample_grid(model, columns=10, rows=10)["x"]
    plots.save_grid(folder.figures / "samples.png", shown(samples, preprocessing))
    truth = (dataset.x_test[:16] / dataset.scale).astype(np.float32)
    _, height, width = dataset.shape
    lines = [truth]
    for missing in (rect(truth.shape, height * 3 // 7, width * 3 // 7), rand_drop(truth.shape, 0.6, seed=0)):
        lines += [np.where(missing, np.nan, truth), impute(model, truth, missing)]
    plots.save_grid(folder.figures / "imputations.png", shown(np.stack(lines), preprocessing))
