"""The training and evaluation rows of a preset's run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_matrix

from mmdgm.data import datasets
from mmdgm.data.batches import Reading, Store, to_unit
from mmdgm.data.codecs import ImageCodec
from mmdgm.data.contrast import cached_contrast
from mmdgm.data.datasets import Dataset, Images, Labels, channels_last
from mmdgm.data.splits import group_split, labeled_draw, validation_split
from mmdgm.experiments.configs import Config
from mmdgm.propagation.graph import handwriting_graph
from mmdgm.propagation.propagate import KAPPA_HANDWRITING, propagate


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


def graph_of(store: Store, reading: Reading, device: torch.device) -> csr_matrix:
    """Return the graph of neighbours of all training rows. The rows are the same for every seed."""
    return handwriting_graph(to_unit(store.x.to(device), reading.scale))


def with_propagated(store: Store, graph: csr_matrix, *, share: float) -> Store:
    """Return the store with labels propagated along the graph; −1 where they are too uncertain."""
    guess = propagate(graph, store.y.numpy(), kappa=KAPPA_HANDWRITING, share=share)
    return store._replace(guess=torch.from_numpy(guess))


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
