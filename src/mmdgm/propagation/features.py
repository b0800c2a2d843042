"""Map rows to points such that near points tend to have the same label."""

import math

import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor
from torch.nn.functional import normalize

from mmdgm.data.augmentation import upright

DIRECTIONS = 8
BLUR, EVERY = 1.5, 3  # standard deviation of the blur, and distance between samples, in pixels
COMPONENTS = 60  # principal components of outlines
WIDE, LEADING = 100, 30  # rows with more than WIDE columns are reduced to LEADING principal components
LEAST_SIDE = 16  # pixels: smaller images have too few edges
CHUNK = 500


def has_outlines(shape: tuple[int, ...]) -> bool:
    """Whether rows `(n, channels, height, width)` are images large enough for `outlines`."""
    return len(shape) == 4 and min(shape[2:]) >= LEAST_SIDE


def points_of(x: Tensor) -> Tensor:
    """Points `(n, d)` of rows `(n, …)`: outlines of images, leading components of wide rows, else the values.

    With many columns, distances become similar and depend mostly on the rows' lengths. With 100 labels and 10,000
    unlabeled rows of MNIST as 784 columns, 9.1 % of the propagated labels are wrong. As images, 3.3 % are wrong
    (3 draws).
    """
    if has_outlines(x.shape):
        return outlines(x, straighten=False)
    flat = x.flatten(1)
    if flat.shape[1] <= WIDE or len(flat) <= LEADING:
        return flat
    return leading_directions(flat - flat.mean(dim=0), LEADING)


def outlines(x: Tensor, *, straighten: bool) -> Tensor:
    """Unit vectors `(n, 60)` of images: the leading principal components of their maps of `edges`.

    `straighten` is for handwriting, light on dark.
    """
    maps = [edges(upright(part) if straighten else part) for part in x.split(CHUNK)]
    flat = normalize(torch.cat(maps).flatten(1))
    return leading_directions(flat - flat.mean(dim=0), COMPONENTS)


def leading_directions(centred: Tensor, components: int) -> Tensor:
    """Unit vectors of the leading principal components of rows `(n, d)`, at most `components` of them."""
    _, directions = torch.linalg.eigh(centred.T @ centred)  # sorted by variance, the largest last
    return normalize(centred @ directions[:, -components:])


def edges(x: Tensor) -> Tensor:
    """Maps `(n, 8, height/3, width/3)` of the edge strength in each direction.

    A gradient at an angle between two directions counts for both, in proportion. Maps are blurred to tolerate small
    shifts of strokes. The square root gives faint edges more weight.
    """
    down, right = torch.gradient(x.sum(dim=1), dim=(1, 2))
    angle = torch.atan2(down, right) * (DIRECTIONS / (2 * math.pi))  # in ± half the number of directions
    middle = torch.arange(DIRECTIONS, device=x.device)[:, None, None]
    apart = (angle[:, None] - middle + DIRECTIONS / 2).remainder(DIRECTIONS) - DIRECTIONS / 2
    maps = torch.hypot(down, right)[:, None] * (1 - apart.abs()).clamp(min=0)
    blurred = gaussian_filter(maps.cpu().numpy(), sigma=(0, 0, BLUR, BLUR))[..., 1::EVERY, 1::EVERY]
    return torch.from_numpy(blurred).to(x.device).clamp(min=0).sqrt()
