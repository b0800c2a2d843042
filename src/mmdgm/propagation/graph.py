"""Graphs of neighbours, one builder for each kind of data.

d_ij    squared distance of points (`features`), or `deformation` distance of images
v_ij    exp(−d_ij/r_i) if j is one of i's nearest neighbours, else 0; r_i is d_ij of the farthest of them
W       V + Vᵀ
S       D^(−1/2) W D^(−1/2), where D is the diagonal matrix of W's row sums
"""

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags
from torch import Tensor

from mmdgm.data.augmentation import upright
from mmdgm.propagation.deformation import deformation_distance, gradients
from mmdgm.propagation.features import outlines

NEIGHBOURS = 10
CANDIDATES, DEFORMED_NEIGHBOURS = 40, 5
CHUNK = 500


def handwriting_graph(x: Tensor) -> csr_matrix:
    """S `(n, n)` of images `(n, channels, height, width)`, light on dark, each with five neighbours.

    The candidates are the 40 images with the nearest outlines. The five with the smallest deformation distance are
    the neighbours.
    """
    _, candidates = nearest_rows(outlines(x, straighten=True), CANDIDATES)
    slopes = torch.cat([gradients(upright(part)) for part in x.split(CHUNK)])
    rows_at_once = CHUNK if x.is_cuda else 8  # fits into a CPU's cache
    distance = torch.cat(
        [
            deformation_distance(own.repeat_interleave(others.shape[1], dim=0), slopes[others.flatten()]).view(
                others.shape
            )
            for own, others in zip(slopes.split(rows_at_once), candidates.split(rows_at_once), strict=True)
        ]
    )
    distance, order = distance.topk(min(DEFORMED_NEIGHBOURS, distance.shape[1]), dim=1, largest=False)
    return graph_of(distance, candidates.gather(1, order))


def neighbour_graph(points: Tensor, *, neighbours: int = NEIGHBOURS) -> csr_matrix:
    """S `(n, n)` of points `(n, d)`."""
    return graph_of(*nearest_rows(points, neighbours))


def nearest_rows(points: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Squared distances and indices, `(n, k)` each, of the k nearest neighbours of points `(n, d)`, nearest first."""
    n, k = len(points), min(k, len(points) - 1)
    length = points.square().sum(dim=1)
    # allocated in advance: small results between large freed blocks would fragment the heap
    distance, number = points.new_empty(n, k), torch.empty(n, k, dtype=torch.int64, device=points.device)
    for start in range(0, n, CHUNK):
        rows = slice(start, start + CHUNK)
        squared = torch.addmm(length, points[rows], points.T, alpha=-2).add_(length[rows, None])
        squared.diagonal(start).fill_(torch.inf)  # no point is its own neighbour
        distance[rows], number[rows] = squared.topk(k, dim=1, largest=False)
    return distance.clamp_(min=0), number


def graph_of(distance: Tensor, number: Tensor) -> csr_matrix:
    """S `(n, n)` from the squared distances and indices, `(n, k)` each, of neighbours, nearest first."""
    n, k = number.shape
    distance = distance.double()
    weights = (-distance / distance[:, -1:].clamp(min=1e-12)).exp().cpu().numpy()
    one_way = csr_matrix((weights.ravel(), (np.repeat(np.arange(n), k), number.cpu().numpy().ravel())), (n, n))
    w = one_way + one_way.T
    scale = diags(np.asarray(w.sum(axis=1)).ravel().clip(1e-12) ** -0.5)
    return csr_matrix(scale @ w @ scale)
