"""Labels for all rows of a data set, along the graph that suits it."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmdgm.propagation.choose import choose_graph
from mmdgm.propagation.features import points_of
from mmdgm.propagation.graph import nearest_rows
from mmdgm.propagation.propagate import KAPPA, Labels, propagate

ROWS = 20_000  # largest number of labeled rows, and of unlabeled rows, in a graph


def propagate_to_all(
    x: Tensor, y: Labels, *, rng: np.random.RandomState, share: float = 1.0, prior: NDArray[Any] | None = None
) -> Labels | None:
    """Labels for all rows x `(n, …)`: given labels (≥ 0) stay, others (−1) are propagated, see `propagate`.

    Rows beyond `ROWS` take the label of the nearest row of the graph. None: no graph suits the rows.
    """
    rows = np.concatenate(
        [
            part if len(part) <= ROWS else rng.choice(part, ROWS, replace=False)
            for part in (np.flatnonzero(y >= 0), np.flatnonzero(y < 0))
        ]
    )
    build = choose_graph(x, y, kappa=KAPPA, rng=rng)
    if build is None:
        return None
    labels = y.copy()
    labels[rows] = propagate(build(x[torch.from_numpy(rows)]), y[rows], kappa=KAPPA, share=share, prior=prior)
    others = np.setdiff1d(np.flatnonzero(y < 0), rows, assume_unique=True)
    if len(others):
        points = points_of(x)
        nearest = nearest_rows(points[others], 1, points[rows]).number[:, 0]
        labels[others] = labels[rows][nearest.numpy()]
    return labels
