"""50 labels, 1,247 unlabeled images: the semi-supervised model beside what scikit-learn offers for the same task.

Trains `digits-mmcva-50` (scikit-learn's 8×8 digits, nothing to download) with three seeds, compares the test error
with classifiers that see the same labels, and leaves run folders with pictures. `make demo` runs it.
"""

import shutil
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC, LinearSVC

from mmdgm.data import datasets
from mmdgm.experiments.presets import find_preset
from mmdgm.experiments.rows import Rows, split_rows
from mmdgm.experiments.run_folder import RunFolder
from mmdgm.experiments.training_runs import train_runs

SEEDS = (0, 1, 2)
RUNS = Path("runs/demo")


def baseline_errors(dataset: datasets.Dataset, rows: Rows) -> dict[str, float]:
    """Test errors in percent, each on the run's own labels (and, for LabelSpreading, its unlabeled rows)."""
    x, test = (images.reshape(len(images), -1) / dataset.scale for images in (rows.x, dataset.x_test))
    labeled = rows.y >= 0
    fitted = {
        "linear SVM": LinearSVC(random_state=0).fit(x[labeled], rows.y[labeled]),
        "RBF SVM": SVC(C=10.0).fit(x[labeled], rows.y[labeled]),
        "LabelSpreading": LabelSpreading(kernel="knn", n_neighbors=7).fit(x, rows.y),
    }
    return {name: float(100 * np.mean(model.predict(test) != dataset.y_test)) for name, model in fitted.items()}


def main() -> None:
    console = Console()
    config = find_preset("digits-mmcva-50").config
    folders = [(seed, RunFolder(RUNS / f"seed-{seed}")) for seed in SEEDS]
    for _, folder in folders:
        shutil.rmtree(folder.path, ignore_errors=True)  # the demo always starts anew
    results = train_runs(config, folders, overrides={}, console=console)

    dataset = datasets.load("digits")
    errors = [baseline_errors(dataset, split_rows(dataset, config, seed)) for seed in SEEDS]
    columns = {name: [error[name] for error in errors] for name in errors[0]}
    columns["mmdgm"] = [result["error_percent"] for result in results]
    table = Table("test error %", *(f"seed {seed}" for seed in SEEDS), "mean", title="Digits, 50 labels")
    for name, values in columns.items():
        cells = [f"{value:.1f}" for value in (*values, np.mean(values))]
        table.add_row(name, *cells, style="bold" if name == "mmdgm" else None)
    console.print(table)
    for _, folder in folders:
        console.print(f"to look at: {folder.report}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
