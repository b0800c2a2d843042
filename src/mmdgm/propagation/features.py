"""Map rows to points such that near points tend to have the same label."""

import math

import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor
from torch.nn.functional import normalize

from mmdgm.data import deadline

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
        return outlines(x)
    flat = x.flatten(1)
    if flat.shape[1] <= WIDE or len(flat) <= LEADING:
        return flat
    return leading_directions(flat, LEADING)


def outlines(x: Tensor, *, like: Tensor | None = None) -> Tensor:
    """Unit vectors `(n, 60)` of images: the leading principal components of their maps of `edges`.

    The components are those of the images `like`, by default of x itself.
    """
    return leading_directions(edge_maps(x), COMPONENTS, like=None if like is None else edge_maps(like))


def edge_maps(x: Tensor) -> Tensor:
    """Maps of `edges` of images `(n, channels, height, width)` as unit vectors `(n, d)`."""
    maps = []
    for part in x.split(CHUNK):
        deadline.look()
        maps.append(edges(part))
    return normalize(torch.cat(maps).flatten(1))


def leading_directions(rows: Tensor, components: int, *, like: Tensor | None = None) -> Tensor:
    """Unit vectors of rows `(n, d)` along the leading principal components, at most `components`, of `like`."""
    like = rows if like is None else like
    mean = like.mean(dim=0)
    return normalize((rows - mean) @ principal_directions(like - mean, components))


def principal_directions(centred: Tensor, components: int) -> Tensor:
    """The leading right singular vectors `(d, components)` of rows `(n, d)`, the largest last.

    They are eigenvectors of AᵀA, or for wide rows Aᵀu/|Aᵀu| of the eigenvectors u of AAᵀ: min(n, d)³ operations.
    """
    n, d = centred.shape
    if d <= n:
        vectors: Tensor = torch.linalg.eigh(centred.T @ centred)[1]
        return vectors[:, -components:]
    values, vectors = torch.linalg.eigh(centred @ centred.T)
    rank = max(1, int((values > values[-1] * n * torch.finfo(values.dtype).eps).sum()))
    directions: Tensor = normalize(centred.T @ vectors[:, -min(components, rank) :], dim=0)
    return directions


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
