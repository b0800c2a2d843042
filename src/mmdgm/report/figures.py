"""The pictures of a trained estimator: learning curves, samples, and imputed images."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.codecs import ImageCodec
from mmdgm.data.masks import rand_drop, rect
from mmdgm.estimators import MMCVAClassifier, MMVAClassifier
from mmdgm.inference.imputation import impute
from mmdgm.report import plots

Estimator = MMCVAClassifier | MMVAClassifier
ROUNDS = 20  # of imputation


def save_figures(folder: Path, estimator: Estimator, X: NDArray[Any] | None = None) -> None:
    """Save learning curves; for images, also samples, and X with two kinds of holes before and after imputation."""
    if estimator.history_:
        plots.save_curves(folder / "curves.png", estimator.history_)
    if not isinstance(estimator.codec_, ImageCodec) or not estimator.model_.generates:
        return
    samples = sample_grid(estimator, columns=10, rows=10)["x"]
    plots.save_grid(folder / "samples.png", as_pictures(estimator.codec_, samples))
    if X is None:
        return
    truth = estimator.inputs(X)
    height, width = truth.shape[2:]
    masks = (rect(truth.shape, height * 3 // 7, width * 3 // 7), rand_drop(truth.shape, 0.6, seed=0))
    holes = [np.where(missing, np.float32(np.nan), truth) for missing in masks]
    filled = impute(estimator.model_, np.concatenate(holes), rounds=ROUNDS, start=estimator.fill_)
    lines = [truth, holes[0], filled[: len(truth)], holes[1], filled[len(truth) :]]
    decoded = np.stack([estimator.codec_.decode(rows) for rows in lines])
    plots.save_grid(folder / "imputations.png", as_pictures(estimator.codec_, decoded))


def sample_grid(estimator: Estimator, *, columns: int, rows: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Return samples `x` `(rows, columns, …)` on the scale of the data, with their codes `z`.

    For a conditional model, there is one row per class and one code per column, and `y` holds the classes.
    """
    if isinstance(estimator, MMVAClassifier):
        x, z = estimator.sample(rows * columns, random_state=seed, return_codes=True)
        return {"x": x.reshape(rows, columns, *x.shape[1:]), "z": z.reshape(rows, columns, -1)}
    parts = [estimator.sample(columns, y=label, random_state=seed, return_codes=True) for label in estimator.classes_]
    x, z = (np.stack(arrays) for arrays in zip(*parts, strict=True))
    return {"x": x, "z": z, "y": np.repeat(estimator.classes_[:, None], columns, axis=1)}


def as_pictures(codec: ImageCodec, X: NDArray[Any]) -> NDArray[np.float32]:
    """Return images `(rows, columns, …)` as `(rows, columns, 1 or 3, height, width)` in [0, 1]; NaN: missing."""
    rows, columns = X.shape[:2]
    unit = codec.unit(X.reshape(rows * columns, *codec.size))
    shown = unit if codec.channels in (1, 3) else unit.mean(axis=1, keepdims=True)
    return shown.reshape(rows, columns, *shown.shape[1:])


def before_after(before: NDArray[Any], after: NDArray[Any]) -> NDArray[Any]:
    """Return up to 64 images in pairs of lines of 16: `before` (NaN: missing) above `after`."""
    n = min(len(before), 64)
    columns = min(n, 16)
    lines = -(-n // columns)
    padded = np.zeros((2, lines * columns, *before.shape[1:]), np.float32)
    padded[0, :n], padded[1, :n] = before[:n], after[:n]
    pairs = padded.reshape(2, lines, columns, *before.shape[1:]).swapaxes(0, 1)
    return pairs.reshape(2 * lines, columns, *before.shape[1:])
