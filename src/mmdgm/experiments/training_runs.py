"""Runs of a preset: load the data, split, build, train, evaluate, write the results."""

from collections.abc import Iterable, Iterator
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from mmdgm.data.batches import Reading, Store
from mmdgm.data.datasets import Dataset, Labels, channels_last
from mmdgm.devices import Machine, device_name, keep_freed_memory, make_fabric
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.estimators import MMCVAClassifier, MMVAClassifier
from mmdgm.estimators.saving import describe, write_estimator
from mmdgm.experiments.configs import Config, check, config_to_json, differing_settings
from mmdgm.experiments.evaluation import evaluate
from mmdgm.experiments.presets import find_preset
from mmdgm.experiments.provenance import data_files
from mmdgm.experiments.reports import dataset_rows, write_report
from mmdgm.experiments.rows import (
    ImageGraph,
    Rows,
    codec_of,
    counts,
    image_graph,
    load_dataset,
    split_rows,
    store_of,
    training_counts,
    with_propagated,
)
from mmdgm.experiments.run_folder import Estimator, Recording, RunFolder, check_folder, claimed_by_first_rank
from mmdgm.files import read_json
from mmdgm.models import MaxMarginVAE
from mmdgm.models.conditional import ConditionalVAEConfig
from mmdgm.progress import Display
from mmdgm.report.figures import save_figures
from mmdgm.training.feature_svm import fit_feature_svm
from mmdgm.training.loop import Summary
from mmdgm.training.trainer import Trainer


def train_runs(
    config: Config,
    runs: Iterable[tuple[int, RunFolder]],
    *,
    overrides: dict[str, Any],
    console: Console,
    data_dir: Path | None = None,
    machine: Machine = Machine(),
    resume: bool = False,
) -> list[dict[str, Any]]:
    """Train one run per (seed, folder), one after the other, with one compilation; return their result.json.

    With several devices, every rank calls this function, but only the first rank writes.
    """
    check(config)
    runs = list(runs)
    for seed, folder in runs:
        check_run(config, seed, folder, resume)
    dataset = load_dataset(config, data_dir)
    keep_freed_memory()
    training = _PresetRuns(config, dataset, overrides, console, data_dir, machine, len(runs))
    results, stopped = [], []
    for seed, folder in runs:
        if folder.is_done():
            results.append(read_json(folder.result))
            continue
        try:
            results.append(training.train(seed, folder, resume=resume))
        except TrainingStopped as error:
            stopped.append(f"seed {seed} {error}")
    if stopped:
        raise TrainingStopped("; ".join(stopped))
    return results


def check_run(config: Config, seed: int, folder: RunFolder, resume: bool) -> None:
    """Raise InputError if a folder holds a run that must not be overwritten, or cannot be resumed like this."""

    def differences(about: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        if "config" not in about:
            raise InputError(f"{folder.path} holds a run of own data; go on with it by `mmdgm fit --resume`")
        return differing_settings(about["config"], config)

    check_folder(folder, seed, resume, differences)


def estimator_of(config: Config, dataset: Dataset, seed: int) -> Estimator:
    """Return the estimator of a preset's run before training."""
    kind = MMCVAClassifier if isinstance(config.model, ConditionalVAEConfig) else MMVAClassifier
    known = {**vars(config.model), **vars(config.training)}
    parameters = {name: known[name] for name in kind().get_params(deep=False) if name in known}
    parameters["likelihood"] = "gaussian" if config.model.likelihood == "gaussian" else "auto"
    batch = getattr(config.training, "unlabeled_batch", config.training.batch)
    estimator: Estimator = kind(**parameters, max_epochs=config.training.epochs, batch_size=batch, random_state=seed)
    estimator.codec_, estimator.config_, estimator.classes_ = (
        codec_of(dataset, config),
        config.model,
        dataset.classes,
    )
    estimator.n_features_in_ = int(torch.Size(dataset.shape).numel())
    estimator.n_iter_, estimator.n_iter_planned_ = 0, sum(stage.epochs for stage in config.training.stages())
    return estimator


class _PresetRuns:
    """Runs of one config that share the data set, the trainer and the graph of neighbours."""

    def __init__(
        self,
        config: Config,
        dataset: Dataset,
        overrides: dict[str, Any],
        console: Console,
        data_dir: Path | None,
        machine: Machine,
        runs: int,
    ):
        self.config, self.dataset, self.overrides = config, dataset, overrides
        self.console, self.data_dir, self.runs = console, data_dir, runs
        self.fabric = make_fabric(machine, precision=config.training.precision)
        self.files = data_files(config.data.dataset, data_dir, extra=config.data.extra)
        self.trainer: Trainer | None = None
        self.graph: ImageGraph | None = None

    def train(self, seed: int, folder: RunFolder, *, resume: bool) -> dict[str, Any]:
        """Train one run, write its results, and return its result.json."""
        config, dataset = self.config, self.dataset
        torch.manual_seed(seed)
        rows = split_rows(dataset, config, seed)
        n_rows = int((rows.y >= 0).sum())
        model = config.model.build(dataset.shape, n_classes=dataset.n_classes, n_rows=n_rows)
        if self.trainer is None:
            self.trainer = Trainer(model, config.training, fabric=self.fabric, runs=self.runs)
        else:
            self.trainer.model.load_state_dict(model.state_dict())
        store, reading = store_of(rows, dataset, config, self.data_dir)
        self._check(store)
        of_graph: dict[str, Labels] = {}
        if config.data.propagate:
            graph = self._graph(store, reading, rows)
            store, of_graph = with_propagated(store, graph, share=config.data.propagate)
        look_again = partial(check_run, config, seed, folder, resume)
        with claimed_by_first_rank(folder.path, look_again, self.fabric):
            if self.fabric.is_global_zero:
                return self._recorded(seed, folder, rows, store, reading, of_graph, resume=resume)
            self.fabric.barrier()  # before the first rank writes
            self.trainer.fit(store, seed=seed, reading=reading, checkpoint=folder.checkpoint, resume=resume)
            self.fabric.barrier()  # the first rank evaluates
            result = read_json(folder.result)
            if result["status"] == "stopped":
                raise TrainingStopped(result["reason"])
            return result

    def _check(self, store: Store) -> None:
        assert self.trainer is not None
        if bool((store.y < 0).any()) and not self.config.training.stages()[-1].unlabeled_batch:
            raise InputError(
                f"labels={self.config.data.labels}: {self.config.preset} is trained on labeled rows alone; leave "
                f"the others out with --set unlabeled=false"
            )
        self.trainer.check(store)

    def _graph(self, store: Store, reading: Reading, rows: Rows) -> ImageGraph:
        if self.graph is None:
            if self.fabric.is_global_zero:
                self.console.print("looking for every image's neighbours, minutes on a CPU …", highlight=False)
            others = {"": self.dataset.x_test, "validation_": rows.x_validation}
            others = {prefix: images for prefix, images in others.items() if len(images)}
            self.graph = image_graph(store, reading, others, self.fabric.device)
        return self.graph

    def _recorded(
        self,
        seed: int,
        folder: RunFolder,
        rows: Rows,
        store: Store,
        reading: Reading,
        of_graph: dict[str, Labels],
        *,
        resume: bool,
    ) -> dict[str, Any]:
        """Train, evaluate and write the results on the first rank. `of_graph`: what the graph alone predicts."""
        assert self.trainer is not None
        trainer, config, dataset = self.trainer, self.config, self.dataset
        about = {"config": config_to_json(config), "overrides": self.overrides, "seed": seed}
        recording = Recording(folder, {"preset": config.preset, **about, **self._start(rows)}, resume, self.console)
        self.fabric.barrier()  # before the first rank writes
        estimator = estimator_of(config, dataset, seed)
        estimator.counts_ = training_counts(rows, dataset.n_classes)
        recording.begin({**describe(estimator), "run": about})
        if trainer.compiles_next(store):
            self.console.print("compiling the training step, which takes up to a minute …", highlight=False)
        with recording.training(), Display(f"{config.preset} seed {seed}", self.console) as display:
            summary = trainer.fit(
                store,
                seed=seed,
                reading=reading,
                checkpoint=folder.checkpoint,
                resume=resume,
                on_log=[display, *recording.listeners],
            )
        if isinstance(trainer.model, MaxMarginVAE) and not trainer.model.settings.C:
            self.console.print("training the classifier on the frozen features (Pegasos) …", highlight=False)
            assert trainer.store is not None
            fit_feature_svm(trainer.model, trainer.store, reading)
        estimator.model_, estimator.history_ = trainer.model.eval(), recording.rows
        estimator.fill_ = (store.x.mean(dim=0, dtype=torch.float32) / reading.scale).numpy()
        estimator.n_iter_ = summary.epochs
        write_estimator(estimator, folder.path, {"run": about})
        found = self._evaluate(estimator, rows, of_graph)
        if broken := [name for name, value in found.items() if value is not None and not isfinite(value)]:
            reason = f"stopped at its end: {', '.join(broken)} not finite; try a lower learning_rate"
            recording.stop(reason)
            self.fabric.barrier()
            raise TrainingStopped(reason)
        save_figures(folder.figures, estimator, channels_last(dataset.x_test[:16]))
        result = recording.finish({**found, **costs(summary)})
        write_report(folder, estimator, dataset_rows(dataset))
        self.fabric.barrier()
        return result

    def _start(self, rows: Rows) -> dict[str, Any]:
        """Return what result.json says of a run before training, beside its config."""
        assert self.trainer is not None
        return {
            "quick": is_shortened(self.config),
            "dataset": {**counts(self.dataset, rows), "files": self.files},
            "device": device_name(self.trainer.device),
            "processes": self.fabric.world_size,
            "precision": self.fabric.strategy.precision.precision,
        }

    def _evaluate(self, estimator: Estimator, rows: Rows, of_graph: dict[str, Labels]) -> dict[str, float | None]:
        """Return figures on the test rows, and on the validation rows if there are any."""
        names, dataset = self.dataset.classes, self.dataset
        found = evaluate(estimator, channels_last(dataset.x_test), names[dataset.y_test])
        if len(rows.x_validation):
            held_out = evaluate(estimator, channels_last(rows.x_validation), names[rows.y_validation])
            found |= {f"validation_{name}": value for name, value in held_out.items()}
        truth = {"": dataset.y_test, "validation_": rows.y_validation}
        graph_errors = {prefix: 100 * float((y != truth[prefix]).mean()) for prefix, y in of_graph.items()}
        return found | {f"{prefix}graph_error_percent": value for prefix, value in graph_errors.items()}


def costs(summary: Summary) -> dict[str, Any]:
    """Return the costs of training for result.json."""
    return {
        "steps": summary.steps,
        "epochs": summary.epochs,
        "seconds": round(summary.seconds, 2),
        "start_seconds": round(summary.start_seconds, 2),
        "images_per_second": round(summary.images_per_second, 1),
        "execution": summary.execution,
    }


def is_shortened(config: Config) -> bool:
    """Return whether a config has fewer epochs, over all stages, than its preset."""
    now, preset = (
        sum(stage.epochs for stage in c.training.stages()) for c in (config, find_preset(config.preset).config)
    )
    return now < preset
