"""Training of a table's `Filler`: the Gaussian, the network, and their weights per column."""

from collections.abc import Mapping
from contextlib import suppress

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor

from mmdgm.data import deadline
from mmdgm.data.batches import Store
from mmdgm.data.deadline import TimeIsOver
from mmdgm.data.tables import Column
from mmdgm.devices import random_state_kept, seeded
from mmdgm.models.filler import Filler
from mmdgm.training.plan import Stage, StagedTraining
from mmdgm.training.trainer import Trainer

Values = NDArray[np.float32]
HIDDEN = 0.1  # fraction of the observed values that weights are fitted to
ROWS = 5_000  # largest number of rows that the Gaussian and the weights are fitted to
ROUNDS = 5  # of EM
STEPS, LEAST_STEPS, PER_ROW = 1500, 100, 10
BATCH, RATE, DECAY = 128, 5e-3, 1e-2
WORK = 1_000_000_000  # largest number of steps × weights
PRIOR = 3.0  # the weights' penalty: so many standard deviations² of squared distance from 1/2
COVERED = 0.9  # the quantile of absolute errors that draws reproduce
OTHERS = 10  # errors of all columns that count among a column's own
MOST_ERRORS = 1_000  # quantiles that stand for the errors of all columns
LEAST = 5  # hidden values of a column that can tell its weights


def train_filler(
    x: Values,
    columns: tuple[Column, ...],
    *,
    seed: int,
    fabric: Fabric,
    max_epochs: int | None = None,
    stride: int | None = None,
) -> Filler:
    """Return the filler of encoded rows x `(n, d)`, in which NaN is a missing value.

    `max_epochs` bounds the network's passes over the rows.

    A part of the observed values is hidden from both models while the weights are fitted to it. Then the Gaussian is
    fitted again to all observed values.
    """
    with seeded(seed):
        filler = Filler(columns)
        hidden = filler.groups.of_each(torch.rand(len(x), len(columns))) < HIDDEN
        some = torch.randperm(len(x))[:ROWS]
    rows, known = torch.from_numpy(np.nan_to_num(x)), torch.from_numpy(~np.isnan(x)).float()
    kept = known * ~hidden
    filler.means.copy_((rows * known).sum(dim=0) / known.sum(dim=0).clamp(min=1))
    scaled = rows[some] / filler.groups.scale
    if filler.gaussian is not None:
        with suppress(TimeIsOver):
            filler.gaussian.fit(scaled, kept[some], rounds=ROUNDS)
    plan = plan_of(filler, len(rows), max_epochs)
    store = Store(rows[:, :, None, None], torch.full((len(rows),), -1), kept[:, :, None, None] > 0)
    with random_state_kept():
        Trainer(filler.network, plan, fabric=fabric, stride=stride).fit(store, seed=seed, is_over=deadline.is_over)
    filler.network.cpu()
    filler.eval()
    with torch.no_grad(), suppress(TimeIsOver):
        learn_weights(filler, rows[some], known[some], kept[some])
        deadline.look()
        if filler.gaussian is not None:
            filler.gaussian.fit(scaled, known[some], rounds=ROUNDS)
    return filler


def plan_of(filler: Filler, n_rows: int, max_epochs: int | None) -> StagedTraining:
    """Return the training of the network: fewer steps for few rows, and for very wide tables."""
    weights = sum(parameter.numel() for parameter in filler.network.parameters())
    steps = int(np.clip(PER_ROW * n_rows, LEAST_STEPS, max(LEAST_STEPS, min(STEPS, WORK // weights))))
    epochs = max(1, round(steps / max(1, n_rows // BATCH)))
    stage = Stage(
        name="fill",
        epochs=epochs if max_epochs is None else min(epochs, max_epochs),
        learning_rate=RATE,
        batch=BATCH,
        unlabeled_batch=BATCH,
        warmup_steps=steps // 10,
        log_every=max(1, steps // 4),
    )
    return StagedTraining(planned=(stage,), weight_decay=DECAY, decoupled_decay=True, precision="32-true", patience=0)


def learn_weights(filler: Filler, rows: Tensor, known: Tensor, kept: Tensor) -> None:
    """Fit weights and the spread of errors to the values that are `known`, but not `kept` visible; `(n, d)` each."""
    groups, hidden = filler.groups, ((known - kept) > 0).numpy()
    apart = (filler.predictions(rows * kept, kept) - filler.means).numpy()
    truth, scale = (rows - filler.means).numpy(), groups.scale.numpy()
    seen = [np.where(hidden, part / scale, 0).astype(np.float64) for part in (*apart, truth)]
    starts = np.flatnonzero(np.diff(groups.column.numpy(), prepend=-1))  # each column's first encoded column

    def summed(product: NDArray[np.float64]) -> NDArray[np.float64]:
        total: NDArray[np.float64] = np.add.reduceat(product.sum(axis=0), starts)
        return total

    gram = np.stack([[summed(a * b) for b in seen[:2]] for a in seen[:2]])
    found = nonnegative_weights(gram, np.stack([summed(part * seen[2]) for part in seen[:2]]))
    tells = hidden.sum(axis=0)[starts] >= LEAST
    filler.weights[:, torch.from_numpy(tells)] = torch.from_numpy(found[:, tells]).float()
    expected = filler.deviations(kept).clamp(min=1e-6).numpy() / scale
    relative: dict[int, NDArray[np.float64]] = {}  # errors of a column's hidden values in expected deviations
    for j in np.flatnonzero(groups.number.numpy()[starts]).tolist():
        cells, weights = hidden[:, starts[j]], filler.weights[:, j].double().numpy()
        first, second, wished = (part[cells, starts[j]] for part in seen)
        relative[j] = np.abs(wished - weights[0] * first - weights[1] * second) / expected[cells, starts[j]]
    learn_spread(filler, relative)


def nonnegative_weights(gram: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """w ≥ 0 `(2, columns)` that minimise |truth − w₁ a − w₂ b|² + PRIOR |w − 1/2|², for every column.

    `gram` `(2, 2, columns)`: the sums aa, ab, ba, bb; `target` `(2, columns)`: the sums of a and b times the truth.
    """
    (aa, ab), (_, bb) = gram + PRIOR * np.eye(2)[:, :, None]
    at, bt = target + PRIOR / 2
    both = np.stack([bb * at - ab * bt, aa * bt - ab * at]) / (aa * bb - ab * ab)
    first, second = at.clip(0) / aa, bt.clip(0) / bb  # one of them alone: the objective falls by first² aa
    one = np.where(first**2 * aa > second**2 * bb, np.stack([first, 0 * first]), np.stack([0 * second, second]))
    return np.where((both >= 0).all(axis=0), both, one)


def learn_spread(filler: Filler, relative: Mapping[int, NDArray[np.float64]]) -> None:
    """Set the spread of each column of numbers, from the sizes of its errors relative to their expected deviations.

    The quantile COVERED of the sizes becomes that of normal errors. It is the quantile of a column's own errors, of
    OTHERS errors like those of all columns, and of one that is infinite, as in conformal prediction. The errors of
    all columns include some of N(0, 1), as if the Gaussian were right.
    """
    gaussian = norm.ppf(0.5 + (np.arange(OTHERS) + 0.5) / (2 * OTHERS))
    others = np.concatenate([*relative.values(), gaussian])
    others = np.quantile(others, np.linspace(0, 1, min(len(others), MOST_ERRORS)))
    for j, own in relative.items():
        deadline.look()
        sizes = np.concatenate([own, others])
        weights = np.concatenate([np.ones(len(own)), np.full(len(others), OTHERS / len(others))])
        order = sizes.argsort()
        level = weights[order].cumsum() / (weights.sum() + 1)
        wide = sizes[order][min(int(np.searchsorted(level, COVERED)), len(sizes) - 1)]
        filler.spread[j] = float(np.clip(wide / norm.ppf((1 + COVERED) / 2), 0.1, 10.0))
