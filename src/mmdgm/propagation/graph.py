"""First guesses of the labels of unlabeled rows, spread from the labeled ones along a graph of neighbours.

A classifier that has seen few labels errs in whole groups of images, of which no labeled one exists, such as
sevens with a bar. Between such a group and its class there are images in plenty, and labels that go from neighbour
to neighbour find their way through them (Zhou et al. 2004, Learning with local and global consistency).

    d_ij    squared distance: of points, or of images the `bending` distance, between those with like `outlines`
    v_ij    exp(−d_ij/r_i) where j is one of i's nearest, the farthest of which lies at r_i; else 0
    W       V + Vᵀ
    S       D^(−1/2) W D^(−1/2), D the diagonal of W's row sums
    F       (I − κ S)^(−1) B, shape (n, K); B holds the given labels one-hot, and zeros for the others
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.sparse import csr_matrix, diags, eye
from scipy.sparse.linalg import cg
from torch import Tensor
from torch.nn.functional import normalize

from mmdgm.data.augmentation import upright
from mmdgm.data.datasets import Labels
from mmdgm.propagation.deformation import bent_distance, gradients

DIRECTIONS = 8
BLUR, EVERY = 1.5, 3  # standard deviation, and distance of what is kept, in pixels
COMPONENTS = 60
NEIGHBOURS = 10
CANDIDATES, BENT_NEIGHBOURS = 40, 5
CHUNK = 500


def first_guesses(graph: csr_matrix, y: Labels, *, surest: float) -> Labels:
    """Labels `(n,)` for unlabeled rows of a graph; given ones as they are, −1 for those that are not sure enough.

    Of y, −1 is unlabeled. Of the rows that come to a class, the share `surest` gets it: those with the largest
    (F₁ − F₂)/ΣF, where F₁ and F₂ are the largest two of a row of F.
    """
    reached = spread(graph, y, kept=0.998)
    first_two = np.partition(reached, -2, axis=1)[:, -2:]
    lead = (first_two[:, 1] - first_two[:, 0]) / reached.sum(axis=1).clip(1e-300)
    guess, guesses = reached.argmax(axis=1), y.copy()
    for k in range(reached.shape[1]):
        rows = np.flatnonzero((guess == k) & (y < 0) & (lead > 0))
        rows = rows[np.argsort(-lead[rows], kind="stable")]
        guesses[rows[: math.floor(surest * len(rows))]] = k
    return guesses


def handwriting_graph(x: Tensor) -> csr_matrix:
    """S `(n, n)` of images `(n, channels, height, width)`, light on dark, each with five neighbours.

    Of the 40 with the nearest outlines they are those that come nearest when they are bent.
    """
    _, candidates = nearest_rows(outlines(x, straighten=True), CANDIDATES)
    slopes = torch.cat([gradients(upright(part)) for part in x.split(CHUNK)])
    rows_at_once = CHUNK if x.is_cuda else 8  # what stays in the cache of a CPU
    distance = torch.cat(
        [
            bent_distance(own.repeat_interleave(others.shape[1], dim=0), slopes[others.flatten()]).view(
                others.shape
            )
            for own, others in zip(slopes.split(rows_at_once), candidates.split(rows_at_once), strict=True)
        ]
    )
    distance, order = distance.topk(min(BENT_NEIGHBOURS, distance.shape[1]), dim=1, largest=False)
    return graph_of(distance, candidates.gather(1, order))


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


def neighbour_graph(points: Tensor, *, neighbours: int = NEIGHBOURS) -> csr_matrix:
    """S `(n, n)` of points `(n, d)`."""
    return graph_of(*nearest_rows(points, neighbours))


def nearest_rows(points: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Squared distances and numbers, `(n, k)` each, of the k points `(n, d)` nearest to each, in order."""
    n, k = len(points), min(k, len(points) - 1)
    length = points.square().sum(dim=1)
    # Made beforehand: small pieces, kept one by one between large ones that are freed, would break the heap up
    distance, number = points.new_empty(n, k), torch.empty(n, k, dtype=torch.int64, device=points.device)
    for start in range(0, n, CHUNK):
        rows = slice(start, start + CHUNK)
        squared = torch.addmm(length, points[rows], points.T, alpha=-2).add_(length[rows, None])
        squared.diagonal(start).fill_(torch.inf)  # none is its own neighbour
        distance[rows], number[rows] = squared.topk(k, dim=1, largest=False)
    return distance.clamp_(min=0), number


def graph_of(distance: Tensor, number: Tensor) -> csr_matrix:
    """S `(n, n)` of the squared distances and numbers, `(n, k)` each, of neighbours, the nearest first."""
    n, k = number.shape
    distance = distance.double()
    weights = (-distance / distance[:, -1:].clamp(min=1e-12)).exp().cpu().numpy()
    one_way = csr_matrix((weights.ravel(), (np.repeat(np.arange(n), k), number.cpu().numpy().ravel())), (n, n))
    w = one_way + one_way.T
    scale = diags(np.asarray(w.sum(axis=1)).ravel().clip(1e-12) ** -0.5)
    return csr_matrix(scale @ w @ scale)


def nearest(points: Tensor, others: Tensor) -> NDArray[np.int64]:
    """Of each point `(n, d)` the number of the nearest of others `(m, d)`."""
    numbers = [torch.cdist(part, others).argmin(dim=1).cpu() for part in points.split(CHUNK)]
    return torch.cat(numbers).numpy() if numbers else np.empty(0, np.int64)


def spread(graph: csr_matrix, y: Labels, *, kept: float) -> NDArray[np.float64]:
    """F `(n, K)`: how much of each class's labels has come to each row.

    `kept` is κ, what a label keeps of its strength from neighbour to neighbour: the fewer labels there are for
    many rows, the farther they have to go.
    """
    system = (eye(len(y)) - kept * graph).tocsr()
    classes = range(int(y.max()) + 1)
    return np.stack([cg(system, (y == k).astype(float), rtol=1e-6)[0] for k in classes], axis=1).clip(0)
