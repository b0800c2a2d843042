"""The grid over α_U and α_B of paper §4.1: validation errors of shallow S3VMs on MNIST with 100 labels.

    OUT/s3vm-grid/errors.json    errors in % of held-out training images, for each draw of labels
    OUT/s3vm-grid/grid.png       their means over the draws as heat maps

No test image is used. Each cell is trained with the objective of means and with that of sums, from random weights and
from a training on the labels alone.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from mmdgm.data.batches import Batch, Batches, Reading, Store, gather, to_unit
from mmdgm.data.datasets import Dataset, Images, Labels
from mmdgm.data.splits import labeled_draw, validation_split
from mmdgm.devices import pick_device
from mmdgm.errors import InputError
from mmdgm.experiments.paper.runner import Reproduction
from mmdgm.files import read_json, write_json
from mmdgm.models.s3vm import Reduction, TermWeights, s3vm_network, s3vm_predictions, term_weights, train_s3vms
from mmdgm.report import plots
from mmdgm.training.schedule import Schedule

NAME = "s3vm-grid"
LABELS, HELD_OUT = 100, 10_000
FIRST_SEED, DRAWS = 10, 3  # the published runs of presets have seeds from 0 on
BATCH, RATE = 100, 1e-3  # labeled rows in a step, and as many unlabeled ones
STEPS, QUICK_STEPS = 600, 60
NETWORKS = {"linear": 0, "one layer": 50}  # hidden units
STARTS = {"from the start": 0.0, "after the labels": 1 / 3}  # fraction of the steps on the labels alone
ALPHAS_HAT: dict[Reduction, tuple[float, ...]] = {
    "means": (0.01, 0.03, 0.1, 0.3, 1, 3, 10),
    "sums": (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1, 3),
}
ALPHAS_BALANCE: dict[Reduction, tuple[float, ...]] = {
    "means": (0.001, 0.01, 0.1, 1, 10),
    "sums": (0.001, 0.1, 1, 10, 100),
}
PAPER = (3, 0.001)


class Rows(NamedTuple):
    """Training images with their labels, and held-out ones."""

    x: Images
    y: Labels
    x_validation: Images
    y_validation: Labels
    scale: float


def make_s3vm_grid(work: Reproduction) -> list[Path]:
    """Measure what is missing of the grid, and draw it; return the files."""
    folder = work.out / NAME
    file, picture = folder / "errors.json", folder / "grid.png"
    draws, steps = work.seeds or (1 if work.quick else DRAWS), QUICK_STEPS if work.quick else STEPS
    settings = {
        "steps": steps,
        "labels": LABELS,
        "held_out": HELD_OUT,
        "batch": [BATCH, BATCH],
        "learning_rate": RATE,
        "alpha_hat": {reduction: list(alphas) for reduction, alphas in ALPHAS_HAT.items()},
        "alpha_balance": {reduction: list(alphas) for reduction, alphas in ALPHAS_BALANCE.items()},
    }
    result = read_json(file) if file.exists() else {**work.about(NAME, FIRST_SEED), "settings": settings, "errors": []}
    for name, value in settings.items():
        if (before := result["settings"].get(name)) != value:
            raise InputError(f"{file}: made with {name}={before}, not {value}; choose another --out")
    measure_missing(work, file, result, draws=draws, steps=steps)
    plots.save_heat_maps(picture, panels(result), x="α_B", y="α_U", values="validation error %")
    return [file, picture]


def measure_missing(work: Reproduction, file: Path, result: dict[str, Any], *, draws: int, steps: int) -> None:
    """Add the errors of grids that the result lacks, one after the other, and write the file after each."""
    done = {(errors["seed"], errors["network"], errors["unlabeled rows"]) for errors in result["errors"]}
    missing = [c for c in product(range(FIRST_SEED, FIRST_SEED + draws), NETWORKS, STARTS) if c not in done]
    if not missing:
        return
    rows = rows_of(work.dataset())
    for seed, network, start in missing:
        with work.console.status(f"S3VMs: {network}, unlabeled rows {start}, seed {seed}"):
            errors = errors_of_draw(
                rows,
                hidden=NETWORKS[network],
                labels_alone=round(STARTS[start] * steps),
                steps=steps,
                seed=seed,
                device=pick_device(work.device),
            )
        result["errors"].append({"seed": seed, "network": network, "unlabeled rows": start, **errors})
        write_json(file, result)


def rows_of(dataset: Dataset) -> Rows:
    """Return the training images without the held-out ones, which are the same for all draws."""
    held_out = min(HELD_OUT, len(dataset.x_train) // 3)
    inside, outside = validation_split(dataset.y_train, held_out)
    x, y = dataset.x_train, dataset.y_train
    return Rows(x[inside], y[inside], x[outside], y[outside], dataset.scale)


def errors_of_draw(
    rows: Rows, *, hidden: int, labels_alone: int, steps: int, seed: int, device: torch.device
) -> dict[str, Any]:
    """Return the errors in % for one draw of labels: of the labels alone, and `(α_U, α_B)` of each objective."""
    y = np.full(len(rows.y), -1)
    labeled = labeled_draw(rows.y, LABELS, seed=seed)
    y[labeled] = rows.y[labeled]
    store = Store(torch.from_numpy(np.ascontiguousarray(rows.x)), torch.from_numpy(y)).to(device)
    torch.manual_seed(seed)
    network = s3vm_network(rows.x.shape[1:], len(np.unique(rows.y)), hidden=hidden).to(device)
    weights = weights_of_grid(labeled=LABELS, unlabeled=len(y) - LABELS)
    rate = Schedule(name="cosine", base=RATE, total_steps=steps, steps_per_epoch=1).rate
    batches = batches_of(store, Reading(rows.scale), steps=steps, seed=seed)
    on_device = TermWeights(*(weight.to(device) for weight in weights))
    trained = train_s3vms(network, on_device, batches, rate=rate, labels_alone=labels_alone)
    wrong = torch.zeros(len(weights.hat))
    for start in range(0, len(rows.x_validation), 500):
        part = slice(start, start + 500)
        x = to_unit(torch.from_numpy(rows.x_validation[part].copy()).to(device), rows.scale)
        truth = torch.from_numpy(rows.y_validation[part].astype(np.int64)).to(device)
        wrong += (s3vm_predictions(network, trained, x) != truth).sum(dim=1).cpu()
    alone, *others = (100 * wrong / len(rows.x_validation)).double().round(decimals=2).tolist()
    errors: dict[str, Any] = {"labels alone": alone}
    for reduction, alphas in ALPHAS_HAT.items():
        width = len(ALPHAS_BALANCE[reduction])
        errors[reduction] = [[others.pop(0) for _ in range(width)] for _ in alphas]
    return errors


def weights_of_grid(*, labeled: int, unlabeled: int) -> TermWeights:
    """Return the weights of all cells: first of the labels alone, then of each objective's grid, row by row."""
    parts = [TermWeights(torch.zeros(1), torch.zeros(1))]
    for reduction, alphas in ALPHAS_HAT.items():
        grid = torch.cartesian_prod(torch.tensor(alphas), torch.tensor(ALPHAS_BALANCE[reduction]))
        parts.append(term_weights(*grid.unbind(1), reduction=reduction, labeled=labeled, unlabeled=unlabeled))
    return TermWeights(*(torch.cat(of_all) for of_all in zip(*parts, strict=True)))


def batches_of(store: Store, reading: Reading, *, steps: int, seed: int) -> Iterator[Batch]:
    """Yield the batch of each step."""
    batches = Batches(store.y, labeled_batch=BATCH, unlabeled_batch=BATCH, seed=seed)
    for rows in batches.rows(range(steps)):
        yield gather(store, rows, labeled=batches.sizes[0], reading=reading)


def panels(result: dict[str, Any]) -> list[plots.HeatMap]:
    """Return one heat map per objective, network and start: means over the draws, with the paper's choice marked."""
    maps = []
    for reduction, network, start in product(ALPHAS_HAT, NETWORKS, STARTS):
        of_draws = [e for e in result["errors"] if (e["network"], e["unlabeled rows"]) == (network, start)]
        alone = np.mean([errors["labels alone"] for errors in of_draws])
        maps.append(
            plots.HeatMap(
                title=f"{reduction}, {network}, unlabeled rows\n{start} (labels alone: {alone:.1f})",
                values=np.mean([errors[reduction] for errors in of_draws], axis=0),
                rows=[f"{alpha:g}" for alpha in ALPHAS_HAT[reduction]],
                columns=[f"{alpha:g}" for alpha in ALPHAS_BALANCE[reduction]],
                marked=(ALPHAS_HAT[reduction].index(PAPER[0]), ALPHAS_BALANCE[reduction].index(PAPER[1])),
            )
        )
    return maps
