"""The training and evaluation rows of a preset's run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from mmdgm.data import datasets
from mmdgm.data.batches import Reading, Store, to_unit
from mmdgm.data.codecs import ImageCodec
from mmdgm.data.contrast import cached_contrast
from mmdgm.data.datasets import Dataset, Images, Labels, channels_last
from mmdgm.data.splits import group_split, labeled_draw, validation_split
from mmdgm.estimators.display import Counts
from mmdgm.experiments.configs import Config
from mmdgm.propagation.graph import HANDWRITING, Neighbours, weights
from mmdgm.propagation.propagate import (
    KAPPA_HANDWRITING,
    chances_of_others,
    class_chances,
    class_strength,
    surest_labels,
)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Training rows, labeled or not, and validation rows."""

    x: Images  # (rows, channels, height, width)
    y: Labels  # −1: unlabeled
    x_validation: Images
    y_validation: Labels


def load_dataset(config: Config, data_dir: Path | None) -> Dataset:
    """Return the config's data set, unchanged from its files."""
    return datasets.load(config.data.dataset, data_dir, extra=config.data.extra)


def split_rows(dataset: Dataset, config: Config, seed: int) -> Rows:
    """Hold out validation rows (the same for every seed), then draw the labeled rows; return them all."""
    if config.data.validation_group is None:
        training, held_out = validation_split(dataset.y_train, config.data.validation)
    else:
        training, held_out = group_split(dataset.groups, config.data.validation_group)
    x, y = dataset.x_train[training], dataset.y_train[training].copy()
    if config.data.labels is not None:
        labeled = labeled_draw(y, config.data.labels, seed=seed)
        if config.data.unlabeled:
            y[np.setdiff1d(np.arange(len(y)), labeled, assume_unique=True)] = -1
        else:
            x, y = x[labeled], y[labeled]
    return Rows(x=x, y=y, x_validation=dataset.x_train[held_out], y_validation=dataset.y_train[held_out])


def codec_of(dataset: Dataset, config: Config) -> ImageCodec:
    """Return the codec that turns the images of a data set into inputs."""
    return ImageCodec.learn(
        channels_last(dataset.x_train),
        gaussian=config.model.likelihood == "gaussian",
        normalised=config.data.preprocessing == "lcn",
        scale=dataset.scale,
    )


def store_of(rows: Rows, dataset: Dataset, config: Config, data_dir: Path | None) -> tuple[Store, Reading]:
    """Return the rows for training: bytes, or contrast-normalised images, which are cached on disk."""
    x, scale = rows.x, dataset.scale
    if config.data.preprocessing == "lcn":
        cache = (data_dir or datasets.default_data_dir()) / "cache"
        x, scale = cached_contrast(x, cache), 1.0
    store = Store(torch.from_numpy(np.ascontiguousarray(x)), torch.from_numpy(rows.y))
    return store, Reading(scale, config.data.binarised)


@dataclass(frozen=True, kw_only=True)
class ImageGraph:
    """A graph of all training images, and the neighbours in it of images that are kept out of it, by name."""

    graph: csr_matrix
    others: Mapping[str, Neighbours]


def image_graph(store: Store, reading: Reading, others: Mapping[str, Images], device: torch.device) -> ImageGraph:
    """Return the graph of the training images. They are the same for every seed."""

    def pixels(images: Tensor) -> Tensor:
        return to_unit(images.to(device), reading.scale)

    x = pixels(store.x)
    near = {name: HANDWRITING(pixels(torch.from_numpy(images.copy())), x) for name, images in others.items()}
    return ImageGraph(graph=HANDWRITING.graph(x), others=near)


def with_propagated(store: Store, images: ImageGraph, *, share: float) -> tuple[Store, dict[str, Labels]]:
    """Return the store with labels propagated along the graph, −1 where they are too uncertain; and predictions.

    The predictions are those that the graph alone makes for the images outside it, by their names.
    """
    y = store.y.numpy()
    strength = class_strength(images.graph, y, kappa=KAPPA_HANDWRITING)
    chances = class_chances(strength, y)
    guess = surest_labels(strength, chances, y, share=share)
    predicted = {
        name: chances_of_others(chances, weights(near).cpu().numpy(), near.number.cpu().numpy()).argmax(axis=1)
        for name, near in images.others.items()
    }
    return store._replace(guess=torch.from_numpy(guess)), predicted


def training_counts(rows: Rows, n_classes: int) -> Counts:
    """Return what the estimator of a run says of its training rows."""
    per_class = np.bincount(rows.y[rows.y >= 0], minlength=n_classes)
    return Counts(rows=len(rows.y), values=rows.x.size, missing_values=0, labeled_per_class=tuple(per_class.tolist()))


def counts(dataset: Dataset, rows: Rows) -> dict[str, Any]:
    """Return the number of rows of each kind."""
    labeled = rows.y[rows.y >= 0]
    return {
        "name": dataset.name,
        "labeled": len(labeled),
        "labeled_per_class": np.bincount(labeled, minlength=dataset.n_classes).tolist(),
        "unlabeled": int((rows.y < 0).sum()),
        "validation": len(rows.x_validation),
        "test": len(dataset.x_test),
    }
