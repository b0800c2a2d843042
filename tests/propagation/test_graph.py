"""Graphs of neighbours against scikit-learn's, and against all pairs."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

from mmdgm.data.augmentation import upright
from mmdgm.propagation.deformation import deformation_distance, gradients
from mmdgm.propagation.graph import graph_of, handwriting_graph, nearest_rows, neighbour_graph


def random_points():
    return torch.rand(1203, 5, generator=torch.Generator().manual_seed(0))


def test_the_graph_is_that_of_scikit_learn_s_neighbours_normalised():
    points = random_points()
    distance = kneighbors_graph(points.double().numpy(), 7, mode="distance").toarray()
    near, farthest = distance > 0, distance.max(axis=1, keepdims=True)
    one_way = near * np.exp(-((distance / farthest) ** 2))
    w = one_way + one_way.T
    scale = w.sum(axis=1) ** -0.5
    np.testing.assert_allclose(neighbour_graph(points, neighbours=7).toarray(), scale[:, None] * w * scale, atol=1e-5)


def test_neighbours_in_handwriting_are_the_nearest_when_deformed():
    x = torch.tensor(load_digits().images[:30], dtype=torch.float32)[:, None] / 16
    x = torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
    slopes = gradients(upright(x))
    n = len(x)  # fewer than the candidates, so all are
    pairs = (
        deformation_distance(slopes.repeat_interleave(n, dim=0), slopes.repeat(n, 1, 1, 1))
        .view(n, n)
        .fill_diagonal_(torch.inf)
    )
    expected = graph_of(*pairs.topk(5, dim=1, largest=False))
    np.testing.assert_allclose(handwriting_graph(x).toarray(), expected.toarray(), rtol=1e-5)


def test_nearest_rows_are_those_of_all_pairs():
    points = random_points()[:700].double()  # more than a chunk
    pairs = torch.cdist(points, points).square().fill_diagonal_(torch.inf)
    distance, number = nearest_rows(points, 4)
    expected = pairs.topk(4, dim=1, largest=False)
    assert torch.equal(number, expected.indices)
    torch.testing.assert_close(distance, expected.values)
    assert nearest_rows(points[:3], 4)[1].shape == (3, 2)  # there are no more
