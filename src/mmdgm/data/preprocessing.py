"""From the pixels in the files to the numbers that the networks see, and back."""

import torch
from torch import Tensor


def to_unit(pixels: Tensor, scale: float) -> Tensor:
    """Pixels as they are read to what networks see: grey values to [0, 1]."""
    return pixels.to(torch.get_default_dtype()) / scale


def binarise(x: Tensor) -> Tensor:
    """A Bernoulli draw of each grey value, new at every call: for the MLPs it acts as augmentation."""
    return (torch.rand(x.shape, device=x.device) < x).to(x.dtype)
