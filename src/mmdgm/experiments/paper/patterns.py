"""Tables 4 and 5: test images with missing pixels, and the results of trained models on them.

Every model gets the same masks. "draw" is the paper's procedure, 100 rounds of the iterative inference. "mean"
fills in the posterior mean.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.datasets import Dataset
from mmdgm.data.masks import Mask, rand_drop, rect
from mmdgm.experiments.paper.printed import TABLE_4
from mmdgm.inference.evaluation import predict_scores
from mmdgm.inference.imputation import impute, missing_mse

Values = NDArray[np.float32]
Figures = dict[str, dict[str, dict[str, float]]]  # by pattern, method, and measure
MASK_SEED = 0
METHODS = {"draw": "draw", "mean": "posterior"}  # names in the results, and names of `impute`


def mask_of(pattern: str, shape: tuple[int, ...]) -> Mask:
    """Return the mask of a pattern such as `Rand-Drop 0.6` or `Rect 12`."""
    kind, size = pattern.split()
    return rand_drop(shape, float(size), seed=MASK_SEED) if kind == "Rand-Drop" else rect(shape, int(size), int(size))


def unit_images(dataset: Dataset, rows: int | None = None) -> Values:
    """Return the first test images in [0, 1]."""
    return (dataset.x_test[:rows] / dataset.scale).astype(np.float32)


def missing_pixels(model: Any, dataset: Dataset, *, rows: int | None, seed: int) -> Figures:
    """Return the squared error over missing pixels and the percentage of wrong predictions, by pattern and method.

    A model that cannot impute gets uniform noise in the missing pixels ("noise").
    """
    x, y = unit_images(dataset, rows), dataset.y_test[:rows]
    noise = np.random.default_rng(seed).random(x.shape, dtype=np.float32)
    figures: Figures = {}
    for pattern in TABLE_4:
        missing = mask_of(pattern, x.shape)
        holes = np.where(missing, np.float32(np.nan), x)
        filled = (
            {name: impute(model, holes, seed=seed, method=method) for name, method in METHODS.items()}
            if model.generates
            else {"noise": np.where(missing, noise, x)}
        )
        figures[pattern] = {
            method: {
                "mse": missing_mse(x, images, missing),
                "error_percent": float(100 * (predict_scores(model, images).argmax(1) != y).mean()),
            }
            for method, images in filled.items()
        }
    return figures
