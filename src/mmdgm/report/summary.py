"""The summary of a fitted estimator as a piece of HTML for notebooks, without scripts."""

import warnings
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from mmdgm.data.codecs import ImageCodec, TableCodec
from mmdgm.data.masks import rect
from mmdgm.estimators import MaxMarginImputer
from mmdgm.estimators.base import GenerativeEstimator
from mmdgm.estimators.classifier_base import GenerativeClassifier
from mmdgm.models import ConditionalVAE
from mmdgm.report.image_sections import pictures
from mmdgm.report.page import Block, Cards, Code, Facts, Strips, Text, png, strip, template
from mmdgm.report.plots import GAP, image_grid
from mmdgm.report.table_sections import columns_grid, fills_note

CLASSES, OF_EACH, NAMED, COLUMNS = 20, 3, 12, 12  # pictured classes, images of each; classes in words; columns


def summary(estimator: Any) -> str:
    """Return the summary: what the estimator was trained on, the model, and what it does with a few training rows."""
    imputer = estimator if isinstance(estimator, MaxMarginImputer) else None
    inner: GenerativeEstimator = estimator.estimator_ if imputer else estimator
    blocks: list[Block] = [Facts(facts(inner))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on rows that were good enough for `fit`
        if isinstance(inner.codec_, ImageCodec):
            blocks += _images(inner, imputer)
        else:
            blocks += _table(inner)
    blocks.append(Code(repr(estimator), "Parameters"))
    style = Markup(template("summary.css").render())  # noqa: S704 - our own file
    parts = {"style": style, "title": type(estimator).__name__, "lead": _lead(inner), "blocks": blocks}
    html: str = template("summary.html").render(parts)
    return html


def _lead(estimator: GenerativeEstimator) -> str:
    """Return what was trained on, such as "of 1,797 images of 8 × 8 pixels, 20 labeled"."""
    codec, counts = estimator.codec_, estimator.counts_
    if isinstance(codec, ImageCodec):
        size = " × ".join(map(str, codec.size[:2])) + " pixels" + (" in colour" if codec.channels == 3 else "")
        kind = f"images of {size}"
    else:
        assert isinstance(codec, TableCodec)
        n = len(codec.table.columns)
        kind = f"rows of {n:,} column{'s' * (n > 1)}"
    if counts is None:
        return f"trained on {kind}"
    labeled = "" if counts.labeled_per_class is None else f", {counts.labeled:,} of them labeled"
    return f"trained on {counts.rows:,} {kind}{labeled}"


def facts(estimator: GenerativeEstimator) -> list[tuple[str, str]]:
    """Return what the data, the model and the training were, as names with values."""
    found, counts = [], estimator.counts_
    if isinstance(estimator, GenerativeClassifier):
        names = [str(name) for name in estimator.classes_.tolist()]
        per_class = None if counts is None else counts.labeled_per_class
        if per_class is not None:
            names = [f"{name} ({n:,})" for name, n in zip(names, per_class, strict=False)]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        found.append(("Classes" + (" (labels)" if per_class else ""), ", ".join(names[:NAMED]) + more))
    if counts is not None and counts.missing_values:
        share = 100 * counts.missing_values / counts.values
        found.append(("Missing", f"{counts.missing_values:,} values, {share:.1f} %"))
    model, config = estimator.model_, estimator.config_
    weights = sum(parameter.numel() for parameter in model.parameters())
    kind = {"conv": "conv nets", "mlp": "MLPs"}.get(str(config.network), str(config.network))
    found.append(("Model", f"{type(model).__name__}: {kind}, codes of {config.z} numbers, {weights:,} weights"))
    if history := estimator.history_:
        last = history[-1]
        steps = f"{estimator.n_iter_:,} epochs, {last['step']:,} steps in {last['seconds']:,.0f} s"
        found.append(("Training", f"{steps}; loss {last['loss']:.4g}"))
    return found


def _images(estimator: GenerativeEstimator, imputer: MaxMarginImputer | None) -> list[Block]:
    """New images, and training images with what the model makes of them."""
    found: list[Block] = []
    if not estimator.model_.generates:
        return found
    if isinstance(estimator, GenerativeClassifier):
        found += _samples(estimator)
    if (X := estimator._some_rows) is not None:
        lines = {"image": X, "reconstruction": estimator.reconstruct(X)}
        if imputer is not None:
            holes = _with_holes(X)
            lines = {"with a hole": holes, "hole filled": estimator.impute(holes, n_iter=20)}
        rows = [
            (name, strip(pictures(estimator, images)), f"{len(X)} images: {name}") for name, images in lines.items()
        ]
        found.append(Strips("Training images", rows))
    return found


def _samples(estimator: GenerativeClassifier) -> list[Block]:
    """A few new images, of each class if the model is conditional."""
    if not isinstance(estimator.model_, ConditionalVAE):
        images = pictures(estimator, estimator.sample(8, random_state=0))
        return [Strips("New images", [("generated", strip(images), f"{len(images)} generated images")])]
    cards = []
    for name in estimator.classes_[:CLASSES]:
        images = pictures(estimator, estimator.sample(OF_EACH, y=name, random_state=0))
        picture = png(image_grid(images[:, None])[GAP:-GAP, GAP:-GAP])
        cards.append((picture, f"{OF_EACH} generated images of class {name}", str(name), ()))
    few = len(estimator.classes_) > CLASSES
    return [Text(f"New images of {'the first ' * few}{len(cards)} classes"), Cards(cards)]


def _with_holes(X: NDArray[Any]) -> NDArray[Any]:
    """Return images `(rows, height, width, …)` with a hole in the middle; NaN: missing."""
    height, width = X.shape[1:3]
    hole = rect((len(X), 1, height, width), height * 3 // 7, width * 3 // 7)[:, 0]
    return np.where(hole.reshape(hole.shape + (1,) * (X.ndim - 3)), np.nan, X.astype(np.float64))


def _table(estimator: GenerativeEstimator) -> list[Block]:
    """The columns: what they hold, and how well hidden values are filled."""
    X = estimator._some_rows
    found: list[Block] = [columns_grid(estimator, X, most=COLUMNS)]
    if X is not None:
        found.append(Text(fills_note(f"{len(X)} training rows")))
    return found
