"""Pegasos beside scikit-learn's LinearSVC on frozen features of a VAE, at the size of the paper's experiment.

    .venv/bin/python benchmarks/pegasos.py --data-dir FOLDER    (FOLDER/mnist holds the four official files)

Trains `mnist-va` for a few epochs on the CPU. The features are its encoder's hidden layers, 1,000 numbers per
image; both solvers get the same rows, with a constant, and the same C, for two shrinkages of the features' axes.
Takes three to five minutes on two cores.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from sklearn.svm import LinearSVC
from torch import Tensor

from mmdgm.data import datasets
from mmdgm.data.datasets import Dataset, channels_last
from mmdgm.devices import Machine
from mmdgm.experiments import run_folder, training_runs
from mmdgm.experiments.presets import find_preset
from mmdgm.models.linear_svm import Axes, fit_linear_svm, pegasos
from mmdgm.models.losses import hinge
from mmdgm.settings import override

C = 1.0
STEPS = 50_000
SHRINKAGES = (1.0, 0.001)


def train_vae(epochs: int, *, data_dir: Path | None, console: Console) -> run_folder.Estimator:
    config, overrides = override(find_preset("mnist-va").config, [f"epochs={epochs}"])
    with tempfile.TemporaryDirectory() as folder:
        run = run_folder.RunFolder(Path(folder) / "mnist-va")
        training_runs.train_runs(
            config, [(0, run)], overrides=overrides, console=console, data_dir=data_dir, machine=Machine("cpu")
        )
        return run_folder.load(run.path, device="cpu")


def by_pegasos(x: Tensor, y: Tensor) -> Tensor:
    return pegasos(x, y, n_classes=10, penalties=[1 / (C * len(x))], steps=STEPS)[0]


def by_liblinear(x: Tensor, y: Tensor) -> Tensor:
    svm = LinearSVC(C=C, multi_class="crammer_singer", fit_intercept=False, tol=0.01, random_state=0)
    return torch.from_numpy(svm.fit(x.numpy(), y.numpy()).coef_).float()


def accuracy(scores: Tensor, y: Tensor) -> float:
    return 100 * (scores.argmax(dim=1) == y).double().mean().item()


def compare(features: Tensor, test_features: Tensor, dataset: Dataset) -> Table:
    y, y_test = (torch.from_numpy(labels.copy()) for labels in (dataset.y_train, dataset.y_test))
    table = Table(
        "shrinkage", "solver", "objective", "test accuracy %", "seconds", title=f"{len(y):,} rows, C = {C:g}"
    )
    solvers: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"Pegasos": by_pegasos, "LinearSVC": by_liblinear}
    axes = Axes.of(features)
    for shrinkage in SHRINKAGES:
        x, x_test = (axes.rows(f, shrinkage=shrinkage) for f in (features, test_features))
        for name, solve in solvers.items():
            started = time.monotonic()
            weights = solve(x, y)
            seconds = time.monotonic() - started
            objective = weights.square().sum() / (2 * C * len(x)) + hinge(x @ weights.T, y, margin=1.0).mean()
            cells = (f"{objective:.4f}", f"{accuracy(x_test @ weights.T, y_test):.2f}", f"{seconds:.0f}")
            table.add_row(f"{shrinkage:g}", name, *cells)
    started = time.monotonic()
    svm = fit_linear_svm(features, y, n_classes=10)
    seconds = time.monotonic() - started
    found = f"{accuracy(svm.scores(test_features), y_test):.2f}"
    table.add_row("chosen", "fit_linear_svm", "", found, f"{seconds:.0f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="the folder that holds mnist/")
    parser.add_argument("--epochs", type=int, default=5, help="of the VAE's training")
    arguments = parser.parse_args()
    console = Console()
    dataset = datasets.load("mnist", arguments.data_dir)
    vae = train_vae(arguments.epochs, data_dir=arguments.data_dir, console=console)
    features, test_features = (
        torch.from_numpy(vae.transform(channels_last(images), features=True)).float()
        for images in (dataset.x_train, dataset.x_test)
    )
    console.print(compare(features, test_features, dataset))


if __name__ == "__main__":
    main()
