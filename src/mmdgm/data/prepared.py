"""Data as the networks see them: grey values in [0, 1], or contrast-normalised images, kept on disk once made."""

import hashlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from mmdgm.data import contrast
from mmdgm.data.datasets import Dataset
from mmdgm.errors import InputError
from mmdgm.files import read_tensors, write_tensors

logger = logging.getLogger("mmdgm")
Preprocessing = Literal["unit", "lcn"]


def prepare(dataset: Dataset, preprocessing: Preprocessing, *, cache: Path) -> Dataset:
    """A data set after preprocessing; divided by its `scale`, its images are what networks see."""
    if preprocessing == "unit":
        return dataset
    return replace(
        dataset,
        x_train=_cached_contrast(dataset.x_train, cache),
        x_test=_cached_contrast(dataset.x_test, cache),
        scale=1.0,
    )


def _cached_contrast(images: NDArray[Any], cache: Path) -> NDArray[np.float32]:
    """`local_contrast`, read where these images were normalised before with the same window."""
    parameters = (images.shape, str(images.dtype), contrast.WINDOW, contrast.SIGMA, contrast.LEAST)
    key = hashlib.blake2b(np.ascontiguousarray(images).data, digest_size=16, salt=b"lcn 1")
    key.update(repr(parameters).encode())
    path = cache / f"lcn-{key.hexdigest()}.safetensors"
    if path.exists():
        try:
            kept: NDArray[np.float32] = read_tensors(path)[0]["x"].numpy()
            return kept
        except (InputError, KeyError):  # a damaged file is made anew
            pass
    normalised = contrast.local_contrast(images)
    try:
        write_tensors(path, {"x": torch.from_numpy(normalised)})
    except InputError as error:
        logger.warning("mmdgm: %s; normalised images are not kept", error)
    return normalised


def seen(unit: NDArray[np.float32], preprocessing: Preprocessing) -> NDArray[np.float32]:
    """Images in [0, 1] `(rows, channels, height, width)`, NaN where missing, as a network sees them."""
    if preprocessing == "unit":
        return unit
    if np.isnan(unit).any():
        raise InputError("contrast normalisation takes whole images: this model cannot take missing values")
    return contrast.local_contrast(unit)


def shown(values: NDArray[Any], preprocessing: Preprocessing) -> NDArray[Any]:
    """What a network sees or returns, as grey values or colours in [0, 1] for a picture."""
    return values if preprocessing == "unit" else (0.5 + values / 3).clip(0, 1)
