"""Local contrast normalisation, as for the paper's supervised SVHN (after Sermanet et al. and Goodfellow et al.).

First globally, over all values of an image:  x ← (x − mean) / ‖x − mean‖
Then in each channel, with a 7×7 Gaussian window G (σ = 2, summing to 1, zeros beyond the border):

    x ← (x − G∗x) / max( r, mean of r over the image, 10⁻⁴ ),   r = √(G∗x²)

Multiplying an image by a factor does not change the result.
"""

import hashlib
import logging
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mmdgm.errors import InputError
from mmdgm.files import read_tensors, write_tensors

WINDOW, SIGMA, LEAST = 7, 2.0, 1e-4
BATCH = 1000
logger = logging.getLogger("mmdgm")


def local_contrast(images: NDArray[Any]) -> NDArray[np.float32]:
    """Normalised copies of images `(rows, channels, height, width)`."""
    out = np.empty(images.shape, np.float32)
    for start in range(0, len(images), BATCH):
        rows = slice(start, start + BATCH)
        out[rows] = contrast_of(torch.from_numpy(images[rows].astype(np.float32))).numpy()
    return out


def contrast_of(x: Tensor) -> Tensor:
    """Normalised images `(rows, channels, height, width)`."""
    rounding = torch.finfo(x.dtype).eps * x.abs().amax(dim=(1, 2, 3), keepdim=True) * x[0].numel() ** 0.5
    x = x - x.mean(dim=(1, 2, 3), keepdim=True)
    norm = x.square().sum(dim=(1, 2, 3), keepdim=True).sqrt()
    x = torch.where(norm > 4 * rounding, x / norm, 0.0)  # a constant image becomes 0
    root = _blurred(x.square()).sqrt()
    return (x - _blurred(x)) / root.maximum(root.mean(dim=(2, 3), keepdim=True)).clamp_min(LEAST)


def _blurred(x: Tensor) -> Tensor:
    """G∗x, computed as products with one band matrix per direction."""
    return _band(x.shape[2]) @ x @ _band(x.shape[3])


def _band(size: int) -> Tensor:
    """The symmetric matrix `(size, size)` that blurs a line of pixels."""
    place = torch.arange(size, dtype=torch.float32)
    distance = (place[:, None] - place).abs()
    weights = torch.exp(-distance.square() / (2 * SIGMA**2)) * (distance <= WINDOW // 2)
    around = torch.arange(-(WINDOW // 2), WINDOW // 2 + 1)
    return weights / torch.exp(-around.square() / (2 * SIGMA**2)).sum()


def cached_contrast(images: NDArray[Any], cache: Path) -> NDArray[np.float32]:
    """`local_contrast` with a cache on disk, keyed by a hash of the images."""
    parameters = (images.shape, str(images.dtype), WINDOW, SIGMA, LEAST)
    key = hashlib.blake2b(np.ascontiguousarray(images).data, digest_size=16, salt=b"lcn 1")
    key.update(repr(parameters).encode())
    path = cache / f"lcn-{key.hexdigest()}.safetensors"
    if path.exists():
        try:
            kept: NDArray[np.float32] = read_tensors(path)[0]["x"].numpy()
            return kept
        except (InputError, KeyError):  # a damaged file is written again
            pass
    normalised = local_contrast(images)
    try:
        write_tensors(path, {"x": torch.from_numpy(normalised)})
    except InputError as error:
        logger.warning("mmdgm: %s; normalised images are not kept", error)
    return normalised
