"""Rows as points, such that near points tend to have the same label."""

import math

import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor
from torch.nn.functional import normalize

from mmdgm.data.augmentation import upright

DIRECTIONS = 8
BLUR, EVERY = 1.5, 3  # standard deviation, and distance of what is kept, in pixels
COMPONENTS = 60  # of outlines
WIDE, LEADING = 100, 30  # columns above which points are so many leading components
LEAST_SIDE = 16  # pixels: smaller images hold too few edges
CHUNK = 500


def has_outlines(shape: tuple[int, ...]) -> bool:
    """Whether rows `(n, channels, height, width)` are images large enough to be known by their edges."""
    return len(shape) == 4 and min(shape[2:]) >= LEAST_SIDE


def points_of(x: Tensor) -> Tensor:
    """Rows `(n, …)` as points `(n, d)`: outlines of images, leading components of wide rows, else the values.

    Among many columns all distances are alike, and most of them is length: with 784 pixels, 100 labels and 10,000
    unlabeled rows of MNIST, 9.1 % of the propagated labels are wrong; 3.3 % where pixels are known to be an image's
    (3 draws).
    """
    if has_outlines(x.shape):
        return outlines(x, straighten=False)
    flat = x.flatten(1)
    if flat.shape[1] <= WIDE or len(flat) <= LEADING:
        return flat
    return leading_directions(flat - flat.mean(dim=0), LEADING)


def outlines(x: Tensor, *, straighten: bool) -> Tensor:
    """Images as unit vectors `(n, 60)`: leading components of where there are which edges.

    `straighten` is for handwriting, light on dark.
    """
    maps = [edges(upright(part) if straighten else part) for part in x.split(CHUNK)]
    flat = normalize(torch.cat(maps).flatten(1))
    return leading_directions(flat - flat.mean(dim=0), COMPONENTS)


def leading_directions(centred: Tensor, components: int) -> Tensor:
    """Rows `(n, d)` as unit vectors of their leading components, so many at most."""
    _, directions = torch.linalg.eigh(centred.T @ centred)  # by their variances, the largest last
    return normalize(centred @ directions[:, -components:])


def edges(x: Tensor) -> Tensor:
    """Maps `(n, 8, height/3, width/3)` of how much edge there is in each direction.

    A gradient at an angle between two directions counts for both, in proportion. Maps are blurred, so that strokes
    may lie a little apart, and roots are taken, so that faint ones count.
    """
    down, right = torch.gradient(x.sum(dim=1), dim=(1, 2))
    angle = torch.atan2(down, right) * (DIRECTIONS / (2 * math.pi))  # in ± half the number of directions
    middle = torch.arange(DIRECTIONS, device=x.device)[:, None, None]
    apart = (angle[:, None] - middle + DIRECTIONS / 2).remainder(DIRECTIONS) - DIRECTIONS / 2
    maps = torch.hypot(down, right)[:, None] * (1 - apart.abs()).clamp(min=0)
    blurred = gaussian_filter(maps.cpu().numpy(), sigma=(0, 0, BLUR, BLUR))[..., 1::EVERY, 1::EVERY]
    return torch.from_numpy(blurred).to(x.device).clamp(min=0).sqrt()
