"""Graphs of neighbours against scikit-learn's, and against all pairs."""

from dataclasses import replace

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

from mmdgm.data.augmentation import upright
from mmdgm.propagation.deformation import deformation_distance, gradients
from mmdgm.propagation.graph import HANDWRITING, Neighbours, graph_of, nearest_rows, neighbour_graph


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
    expected = graph_of(Neighbours(*pairs.topk(5, dim=1, largest=False)))
    np.testing.assert_allclose(HANDWRITING.graph(x).toarray(), expected.toarray(), rtol=1e-5)


def test_nearest_rows_are_those_of_all_pairs():
    points = random_points()[:700].double()  # more than a chunk
    pairs = torch.cdist(points, points).square().fill_diagonal_(torch.inf)
    distance, number = nearest_rows(points, 4)
    expected = pairs.topk(4, dim=1, largest=False)
    assert torch.equal(number, expected.indices)
    torch.testing.assert_close(distance, expected.values)
    assert nearest_rows(points[:3], 4)[1].shape == (3, 2)  # there are no more


def test_nearest_of_other_rows():
    others = torch.tensor([[0.0], [10.0], [4.0]])
    found = nearest_rows(torch.tensor([[1.0], [6.9], [7.1], [99.0]]), 2, others)
    assert found.number[:, 0].tolist() == [0, 2, 1, 1]
    torch.testing.assert_close(found.distance[0], torch.tensor([1.0, 9.0]))
    assert nearest_rows(torch.empty(0, 1), 1, others).number.shape == (0, 1)


def test_neighbours_of_new_handwriting_are_those_in_the_other_images():
    x = torch.tensor(load_digits().images[:60], dtype=torch.float32)[:, None] / 16
    x = torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
    a, b = gradients(upright(x[:10])), gradients(upright(x[10:]))
    pairs = deformation_distance(a.repeat_interleave(50, dim=0), b.repeat(10, 1, 1, 1)).view(10, 50)
    distance, number = pairs.topk(5, dim=1, largest=False)
    found = replace(HANDWRITING, candidates=50)(x[:10], x[10:])
    assert torch.equal(found.number, number)
    torch.testing.assert_close(found.distance, distance, rtol=1e-5, atol=1e-5)
