"""Graphs of neighbours, one builder for each kind of data.

d_ij    squared distance of points (`features`), or `deformation` distance of images
v_ij    exp(−d_ij/r_i) if j is one of i's nearest neighbours, else 0; r_i is d_ij of the farthest of them
W       V + Vᵀ
S       D^(−1/2) W D^(−1/2), where D is the diagonal matrix of W's row sums
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags
from torch import Tensor

from mmdgm.data import deadline
from mmdgm.data.augmentation import upright
from mmdgm.propagation.deformation import RADIUS, deformation_distance, gradients
from mmdgm.propagation.features import outlines

NEIGHBOURS = 10
CHUNK = 500


class Neighbours(NamedTuple):
    """The neighbours of n rows, nearest first."""

    distance: Tensor  # (n, k), squared
    number: Tensor  # (n, k): indices


@dataclass(frozen=True, kw_only=True)
class DeformationSearch:
    """Neighbours by the deformation distance, among the candidates with the nearest outlines."""

    straighten: bool  # images are deslanted and centred first, for handwriting
    neighbours: int = 5
    candidates: int = 40
    radius: int = RADIUS  # of the windows that are compared

    def __call__(self, x: Tensor, among: Tensor | None = None) -> Neighbours:
        """Neighbours of images x `(n, channels, height, width)` in `among` `(m, …)`; by default in x itself."""
        x = self._upright(x)
        among = x if among is None else self._upright(among)
        _, near = nearest_rows(outlines(x, like=among), self.candidates, None if among is x else outlines(among))
        slopes, others = (torch.cat([gradients(part) for part in images.split(CHUNK)]) for images in (x, among))
        rows_at_once = CHUNK if x.is_cuda else 8  # fits into a CPU's cache
        distance = torch.cat(
            [
                self._distance(own, others[numbers.flatten()]).view(numbers.shape)
                for own, numbers in zip(slopes.split(rows_at_once), near.split(rows_at_once), strict=True)
            ]
        )
        distance, order = distance.topk(min(self.neighbours, distance.shape[1]), dim=1, largest=False)
        return Neighbours(distance, near.gather(1, order))

    def graph(self, x: Tensor) -> csr_matrix:
        """S `(n, n)` of images."""
        return graph_of(self(x))

    def _upright(self, x: Tensor) -> Tensor:
        return torch.cat([upright(part) for part in x.split(CHUNK)]) if self.straighten else x

    def _distance(self, own: Tensor, others: Tensor) -> Tensor:
        deadline.look()
        own = own.repeat_interleave(len(others) // len(own), dim=0)
        return deformation_distance(own, others, radius=self.radius)


HANDWRITING = DeformationSearch(straighten=True)


def neighbour_graph(points: Tensor, *, neighbours: int = NEIGHBOURS) -> csr_matrix:
    """S `(n, n)` of points `(n, d)`."""
    return graph_of(nearest_rows(points, neighbours))


def nearest_rows(points: Tensor, k: int, among: Tensor | None = None) -> Neighbours:
    """The k nearest of points `among` `(m, d)` to each of `points` `(n, d)`; by default of the other points."""
    alone = among is None
    among = points if among is None else among
    n, k = len(points), min(k, len(among) - alone)
    length = among.square().sum(dim=1)
    # allocated in advance: small results between large freed blocks would fragment the heap
    distance, number = points.new_empty(n, k), torch.empty(n, k, dtype=torch.int64, device=points.device)
    for start in range(0, n, CHUNK):
        deadline.look()
        rows = points[start : start + CHUNK]
        squared = torch.addmm(length, rows, among.T, alpha=-2).add_(rows.square().sum(dim=1, keepdim=True))
        if alone:  # no point is its own neighbour
            squared.diagonal(start).fill_(torch.inf)
        some = slice(start, start + CHUNK)
        distance[some], number[some] = squared.topk(k, dim=1, largest=False)
    return Neighbours(distance.clamp_(min=0), number)


def weights(neighbours: Neighbours) -> Tensor:
    """v `(n, k)` in float64."""
    distance = neighbours.distance.double()
    v: Tensor = (-distance / distance[:, -1:].clamp(min=1e-12)).exp()
    return v


def graph_of(neighbours: Neighbours) -> csr_matrix:
    """S `(n, n)` from the neighbours of n rows among themselves."""
    n, k = neighbours.number.shape
    v, number = weights(neighbours).cpu().numpy(), neighbours.number.cpu().numpy()
    one_way = csr_matrix((v.ravel(), (np.repeat(np.arange(n), k), number.ravel())), (n, n))
    w = one_way + one_way.T
    scale = diags(np.asarray(w.sum(axis=1)).ravel().clip(1e-12) ** -0.5)
    return csr_matrix(scale @ w @ scale)
