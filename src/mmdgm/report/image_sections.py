"""The sections of a report on images: samples, reconstructions, imputation, single rows with their scores."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mmdgm.data.codecs import ImageCodec
from mmdgm.data.masks import rect
from mmdgm.estimators.base import GenerativeEstimator
from mmdgm.inference.imputation import impute, missing_mse
from mmdgm.report import charts
from mmdgm.report.figures import as_pictures, sample_grid
from mmdgm.report.page import Block, Cards, Charts, Section, Strips, Text, png, strip, svg
from mmdgm.report.plots import GAP, image_grid
from mmdgm.report.subject import Estimator, Judgement

COLUMNS, CLASSES, SHOWN = 8, 12, 12
ROUNDS = (1, 2, 5, 20)
QUICK_VALUES = 32 * 32 * 3  # for images of more values, the posterior mean takes minutes on a CPU
LARGEST_SIDE = 48  # larger images are made smaller, so that the report stays small


def pictures(estimator: GenerativeEstimator, X: NDArray[Any]) -> NDArray[np.float32]:
    """Return images on the scale of the data as `(rows, 1 or 3, height, width)` in [0, 1]; NaN: missing."""
    assert isinstance(estimator.codec_, ImageCodec)
    return np.stack([_small(picture) for picture in as_pictures(estimator.codec_, X[None])[0]])


def _small(picture: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a picture whose sides are LARGEST_SIDE at most."""
    height, width = picture.shape[1:]
    factor = LARGEST_SIDE / max(height, width)
    if factor >= 1:
        return picture
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    return np.stack([np.asarray(Image.fromarray(part).resize(size, Image.Resampling.BOX)) for part in picture])


def samples(estimator: Estimator) -> Section | None:
    """New images; of a conditional model, a line per class with the same codes in each."""
    if not estimator.model_.generates:
        return None
    found = sample_grid(estimator, columns=COLUMNS, rows=4)
    conditional = "y" in found
    rows = []
    for number, line in enumerate(found["x"][:CLASSES]):
        name = str(found["y"][number, 0]) if conditional else ""
        alt = f"{COLUMNS} generated images" + (f" of class {name}" if conditional else "")
        rows.append((name, strip(pictures(estimator, line)), alt))
    note = "A line per class; a column is one style (code z) in all classes." if conditional else "Codes are random."
    if conditional and len(found["x"]) > CLASSES:
        note += f" The first {CLASSES} of {len(found['x'])} classes."
    return Section("Generated images", [Strips(note, rows)])


def reconstructions(estimator: Estimator, judged: Judgement) -> Section | None:
    """Images above what the model makes of their codes."""
    if not estimator.model_.generates:
        return None
    X = judged.rows.x[:COLUMNS]
    lines = {"image": X, "reconstruction": estimator.reconstruct(X)}
    note = f"The first {len(X)} of {judged.rows.place}, and the decoder's mean at the mean code"
    return Section("Reconstructions", [Strips(note, _lines(estimator, lines))])


def imputation(estimator: Estimator, judged: Judgement) -> Section | None:
    """A hole in some images, filled round by round, and by the posterior mean."""
    whole = ~np.isnan(judged.rows.x.reshape(len(judged.rows.x), -1)).any(axis=1)
    if not estimator.model_.generates or not whole.any():
        return None
    truth = estimator.inputs(judged.rows.x[whole][:COLUMNS])
    height, width = truth.shape[2:]
    holes = np.where(rect(truth.shape, height * 3 // 7, width * 3 // 7), np.float32(np.nan), truth)
    missing = np.isnan(holes) & ~np.isnan(truth)
    model, fill = estimator.model_, estimator.fill_
    filled = {0: np.where(np.isnan(holes), fill, holes)}
    filled |= {n: impute(model, holes, method="draw", rounds=n, start=fill) for n in ROUNDS}
    shown = {"image": truth, "with a hole": holes, "start": filled[0]}
    shown |= {f"round {n}": filled[n] for n in ROUNDS}
    means = {"posterior mean": impute(model, holes, method="posterior")} if truth[0].size <= QUICK_VALUES else {}
    shown |= means
    lines = {name: estimator.codec_.decode(rows) for name, rows in shown.items()}
    errors = {n: missing_mse(truth, rows, missing) for n, rows in filled.items()}
    levels = {name: missing_mse(truth, rows, missing) for name, rows in means.items()}
    axes = charts.rounds(errors, levels)
    said = ", ".join(
        [
            f"Mean squared error of the missing pixels of these {len(truth)} images: {errors[0]:.4f} at the start",
            f"{errors[ROUNDS[-1]]:.4f} after {ROUNDS[-1]} rounds",
            *(f"{level:.4f} for the {name}" for name, level in levels.items()),
        ]
    )
    note = "Each round draws a code for the filled image, and fills the hole with the decoder's mean."
    return Section("Imputation", [Strips(note, _lines(estimator, lines)), Charts([(svg(axes, said), said)])])


def _lines(estimator: Estimator, lines: dict[str, NDArray[Any]]) -> list[tuple[str, str, str]]:
    return [(name, strip(pictures(estimator, X)), f"{len(X)} images: {name}") for name, X in lines.items()]


def rows_to_look_at(estimator: Estimator, judged: Judgement) -> Section:
    """The rows with the smallest lead, and the wrong rows with the largest."""
    order = np.argsort(judged.leads, kind="stable")
    blocks: list[Block] = [
        Text(f"The least sure of {judged.rows.place}: the two largest scores are close. Scores are no probabilities."),
        _cards(estimator, judged, order[:SHOWN]),
    ]
    if judged.truth is not None:
        wrong = order[judged.predicted[order] != judged.truth[order]][::-1]
        blocks.append(Text(f"Wrong: {len(wrong):,} rows" + (", the surest first." if len(wrong) else ".")))
        if len(wrong):
            blocks.append(_cards(estimator, judged, wrong[:SHOWN]))
    return Section("Rows to look at", blocks)


def _cards(estimator: Estimator, judged: Judgement, rows: Sequence[int] | NDArray[np.intp]) -> Cards:
    images = pictures(estimator, judged.rows.x[rows])
    cards = []
    for row, image in zip(rows, images, strict=True):
        first, second = np.argsort(-judged.scores[row], kind="stable")[:2]
        roles = {"predicted": first, "second": second}
        if judged.truth is not None:
            roles["true class"] = judged.truth[row]
        lines = [f"{role} {judged.names[k]} ({judged.scores[row, k]:.2f})" for role, k in roles.items()]
        title = f"row {judged.rows.number(row)}"
        picture = png(image_grid(image[None, None])[GAP:-GAP, GAP:-GAP])
        cards.append((picture, f"image of {title}, predicted {judged.names[first]}", title, lines))
    return Cards(cards)
