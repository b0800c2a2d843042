"""Train and measure what a table needs, and make the table from the result.json files.

    OUT/runs/PRESET/seed-N/                a run with its weights and its result.json; several tables read it
    OUT/missing/CELL/seed-N/result.json    a model or a baseline on images with missing pixels: Tables 4, 5
    OUT/TABLE.md                           the table; some have a picture too, OUT/TABLE.png

A command does only the work that is missing, so an interrupted command continues when it is repeated. A run that
was stopped, for example at a trivial solution, is not trained again. Tables do not count it, and a note says so.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from mmdgm.data import datasets
from mmdgm.data.datasets import Dataset
from mmdgm.devices import Machine, device_name, pick_device
from mmdgm.errors import InputError, TrainingStopped
from mmdgm.experiments.configs import Config, differing_settings
from mmdgm.experiments.paper.baselines import IMPUTERS
from mmdgm.experiments.paper.patterns import mask_of, missing_pixels, unit_images
from mmdgm.experiments.paper.printed import TABLE_4
from mmdgm.experiments.paper.sheets import MISSING, RUNS, SEEDS, Sheet, Table, markdown, origins
from mmdgm.experiments.presets import find_preset
from mmdgm.experiments.provenance import software
from mmdgm.experiments.run_folder import Estimator, RunFolder, load
from mmdgm.experiments.training_runs import train_runs
from mmdgm.files import read_json, write_json, write_whole
from mmdgm.inference.imputation import missing_mse
from mmdgm.settings import replace_settings

QUICK_ROWS = 500
DONE, STOPPED = "done", "stopped"
# Settings for minutes on two CPU cores, by preset or by class of training. Conv nets need small batches and little
# dropout to leave the trivial solution quickly: with the preset's settings, Conv-MMVA has a hinge of 1 after three
# epochs. The narrow classifier starts slowly: after one epoch its error is 12 to 26 %
WIDE = {"epochs": 1, "unlabeled_batch": 150, "narrow": False}
QUICK: dict[str, dict[str, Any]] = {
    "mnist-va": {"epochs": 10},
    "mnist-mmva": {"pretrain_epochs": 0, "epochs": 10, "batch": 200},
    "mnist-conv-va": {"epochs": 2, "batch": 100, "warmup_steps": 400},
    "mnist-conv-mmva-100": {"epochs": 1, "unlabeled_batch": 200, "warmup_steps": 100, "dropout": 0.2},
    "mnist-mmcva-1000": WIDE,
    "mnist-mmcva-1000-modern": WIDE,
    "mnist-mmcva-all": {"epochs": 1, "batch": 200},
    "mnist-mmcva-all-modern": {"epochs": 1},
    "mnist-mmcva-100-labels-alone": {"epochs": 300},
    "svhn-conv-va": {"epochs": 1, "batch": 100},
    "svhn-mmcva-1000-modern-labels-alone": {"epochs": 30},
    "norb-mmcva-1000-modern-labels-alone": {"epochs": 30},
    "svhn-mmcva-1000-labels-alone": {"epochs": 300},
    "norb-mmcva-1000-labels-alone": {"epochs": 300},
    "norb-mmcva-all-modern": {"epochs": 1},
    "svhn-conv-mmva-modern": {"epochs": 1},
    "ClassifierFirstTraining": {"classifier_epochs": 1, "epochs": 1, "batch": 100},
    "Training": {"epochs": 2, "batch": 100, "warmup_steps": 400, "dropout": 0.2},
    "GenerativeLastTraining": {"epochs": 1, "bound_epochs": 1, "unlabeled_batch": 200},
    "SemiSupervisedTraining": {"epochs": 1, "unlabeled_batch": 200},
}


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """The place of results, and the options for making them."""

    out: Path
    seeds: int | None  # per model; None: the table's own number, or 1 if quick
    quick: bool
    console: Console
    data_dir: Path | None = None
    device: str = "auto"

    def run_folder(self, preset: str, seed: int) -> RunFolder:
        return RunFolder(self.out / RUNS / preset / f"seed-{seed}")

    def missing_file(self, cell: str, seed: int) -> Path:
        return self.out / MISSING / cell / f"seed-{seed}" / "result.json"

    # --- work ------------------------------------------------------------------------------------------------

    def make(self, table: Table) -> tuple[list[Sheet], list[Path]]:
        """Train and measure what the table lacks; return the table and its files."""
        self.check_results(table)
        if count := self.seeds or (1 if self.quick else None):
            table = replace(table, seeds=dict.fromkeys(table.presets, count))
        for preset in table.presets:
            seeds = list(range(table.seeds.get(preset, SEEDS)))
            if table.folder == MISSING:
                self.measure_runs(preset, [s for s in seeds if not self.missing_file(preset, s).exists()])
            else:
                self.train_or_explain(preset, seeds)
        for name in table.baselines:
            if not (file := self.missing_file(name, 0)).exists():
                write_json(file, self.measure_baseline(name))
        sheets = [*lay_out(self.out, table), origins(table.title, read_results(self.out, table))]
        files = [self.out / f"{table.name}.md"]
        write_whole(files[0], markdown(sheets).encode())
        if table.draw:
            files.append(self.out / f"{table.name}.png")
            table.draw(files[-1], read_results(self.out, table))
        return sheets, files

    def measure_runs(self, preset: str, seeds: list[int]) -> None:
        """Train these runs if they do not exist, and measure the finished ones."""
        self.train_or_explain(preset, seeds)
        for seed in seeds:
            result = read_json(self.run_folder(preset, seed).result)
            if result["status"] == DONE:
                write_json(self.missing_file(preset, seed), self.measure(preset, seed, result))

    def train_or_explain(self, preset: str, seeds: list[int]) -> None:
        """Train these runs; if training is stopped, print the reason."""
        try:
            self.train(preset, seeds)
        except TrainingStopped as error:
            self.console.print(f"{preset}: {error}", markup=False, highlight=False, soft_wrap=True)

    def train(self, preset: str, seeds: list[int]) -> None:
        """Train these runs of a preset, or resume them."""
        pairs = [(seed, self.run_folder(preset, seed)) for seed in seeds]
        for folder in [folder for _, folder in pairs if folder.config.exists()]:
            self.check_same(preset, folder.about()["config"], folder.path)
        pairs = [(seed, folder) for seed, folder in pairs if folder.status() not in (DONE, STOPPED)]
        if not pairs:
            return
        config, overrides = self.config(preset)
        train_runs(
            config,
            pairs,
            overrides=overrides,
            console=self.console,
            data_dir=self.data_dir,
            machine=Machine(self.device),
            resume=any(folder.config.exists() for _, folder in pairs),
        )

    def trained(self, preset: str, seed: int = 0) -> Estimator:
        """Return the estimator of a run; train it first if it does not exist."""
        self.train(preset, [seed])
        return load(self.run_folder(preset, seed).path, device=self.device)

    def check_results(self, table: Table) -> None:
        """Raise InputError if existing results were made with other settings."""
        for preset in table.presets:
            for folder in dict.fromkeys((RUNS, table.folder)):
                cell = self.out / folder / preset
                for seed, result in results_by_seed(cell).items():
                    saved = result.get("trained", result).get("config", {})
                    self.check_same(preset, saved, cell / f"seed-{seed}" / "result.json")

    def check_same(self, preset: str, saved: dict[str, Any], where: Path) -> None:
        """Raise InputError if a result was made with other settings: a quick run, or an older preset."""
        for key, before, now in differing_settings(saved, self.config(preset)[0]):
            if key != "checkpoint_seconds":
                raise InputError(f"{where}: made with {key}={before}, not {now}; choose another --out")

    def config(self, preset: str) -> tuple[Config, dict[str, Any]]:
        """Return a preset's config, shortened if quick, and the changed settings."""
        config = find_preset(preset).config
        if not self.quick:
            return config, {}
        changes = QUICK.get(preset) or QUICK[type(config.training).__name__]
        return replace_settings(config, changes), changes

    def measure(self, preset: str, seed: int, trained: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a trained model on images with missing pixels."""
        estimator = self.trained(preset, seed)
        began = time.monotonic()
        with self.console.status(f"{preset} seed {seed}: test images with missing pixels"):
            figures = missing_pixels(estimator.model_, self.dataset(), rows=self.rows, seed=seed)
        return {
            **self.about(preset, seed),
            "rows": self.rows or len(self.dataset().x_test),
            "missing": figures,
            "seconds": round(time.monotonic() - began, 2),
            "trained": {
                name: trained[name]
                for name in ("config", "overrides", "git_commit", "error_percent", "elbo", "seconds", "steps")
            },
        }

    def measure_baseline(self, name: str) -> dict[str, Any]:
        """Return the result of an imputer without a deep model on the same masks."""
        dataset = self.dataset()
        device = str(pick_device(self.device))
        train = (dataset.x_train / dataset.scale).astype(np.float32)
        train = train[: 10 * QUICK_ROWS] if self.quick else train
        x = unit_images(dataset, self.rows)
        began = time.monotonic()
        with self.console.status(f"{name}: test images with missing pixels"):
            fill = IMPUTERS[name](train, device=device)
            masks = {pattern: mask_of(pattern, x.shape) for pattern in TABLE_4}
            figures = {p: {"mean": {"mse": missing_mse(x, fill(x, mask), mask)}} for p, mask in masks.items()}
        return {
            **self.about(name, 0),
            "rows": len(x),
            "missing": figures,
            "seconds": round(time.monotonic() - began, 2),
            "train_rows": len(train),
        }

    def about(self, cell: str, seed: int) -> dict[str, Any]:
        return {
            "status": "done",
            "preset": cell,
            "seed": seed,
            "quick": self.quick,
            "device": device_name(pick_device(self.device)),
            **software(),
        }

    @property
    def rows(self) -> int | None:
        """The number of test images that get holes; None: all."""
        return QUICK_ROWS if self.quick else None

    def dataset(self, name: str = "mnist") -> Dataset:
        return datasets.load(name, self.data_dir)


def lay_out(out: Path, table: Table) -> list[Sheet]:
    """Return the table of the results in `out`, with a note on stopped runs, which are not counted."""
    *sheets, last = table.lay_out(read_results(out, table))
    stopped = [
        f"{preset} seed {seed} was stopped and is not counted: {result['reason'].partition(';')[0]}."
        for preset in table.presets
        for seed, result in results_by_seed(out / RUNS / preset, table.seeds.get(preset)).items()
        if result["status"] == STOPPED
    ]
    return [*sheets, replace(last, notes=[*last.notes, *stopped])]


def read_results(out: Path, table: Table) -> dict[str, list[dict[str, Any]]]:
    """Return the results of each cell's finished runs, in the order of seeds."""
    cells = {
        cell: results_by_seed(out / table.folder / cell, table.seeds.get(cell)).values()
        for cell in (*table.presets, *table.baselines)
    }
    return {cell: [result for result in results if result["status"] == DONE] for cell, results in cells.items()}


def results_by_seed(cell: Path, count: int | None = None) -> dict[int, dict[str, Any]]:
    """Return the result.json files of a cell by seed, in order, for the seeds below `count` or for all."""
    files = {seed_of(file): file for file in cell.glob("seed-*/result.json")}
    return {seed: read_json(files[seed]) for seed in sorted(files) if count is None or seed < count}


def seed_of(file: Path) -> int:
    """Return the seed from the name of a result.json's folder."""
    try:
        return int(file.parent.name.removeprefix("seed-"))
    except ValueError:
        raise InputError(f"{file.parent}: is no seed-N; move it away") from None
