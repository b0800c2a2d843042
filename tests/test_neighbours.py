"""Labels spread along neighbours: the graph, what comes where, and what is sure."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits, make_moons
from sklearn.neighbors import kneighbors_graph

from mmdgm.data.augmentation import upright
from mmdgm.data.splits import labeled_draw
from mmdgm.estimators import neighbours
from mmdgm.propagation.deformation import bent_distance, gradients
from mmdgm.propagation.graph import (
    edges,
    first_guesses,
    graph_of,
    handwriting_graph,
    neighbour_graph,
    outlines,
    spread,
)
from mmdgm.propagation.start import places, spread_labels


@pytest.fixture(scope="module", name="points")
def make_points():
    return torch.rand(1203, 5, generator=torch.Generator().manual_seed(0))


def test_the_graph_is_that_of_scikit_learn_s_neighbours_normalised(points):
    distance = kneighbors_graph(points.double().numpy(), 7, mode="distance").toarray()
    near, farthest = distance > 0, distance.max(axis=1, keepdims=True)
    one_way = near * np.exp(-((distance / farthest) ** 2))
    w = one_way + one_way.T
    scale = w.sum(axis=1) ** -0.5
    np.testing.assert_allclose(
        neighbour_graph(points, neighbours=7).toarray(), scale[:, None] * w * scale, atol=1e-5
    )


def test_spreading_solves_the_linear_system(points):
    graph = neighbour_graph(points, neighbours=7)
    y = np.full(len(points), -1)
    y[:6] = [0, 1, 2, 0, 1, 2]
    given = np.eye(3)[y] * (y >= 0)[:, None]
    expected = np.linalg.solve(np.eye(len(points)) - 0.99 * graph.toarray(), given)
    np.testing.assert_allclose(spread(graph, y, kept=0.99), expected, rtol=1e-3, atol=1e-6)


def test_a_label_goes_along_a_chain_and_no_further():
    angles = torch.tensor([0.0, 0.2, 0.4, 0.6, 2.0, 2.2, 2.4, 4.5, 4.6])  # three arcs of a circle
    points = torch.stack([angles.cos(), angles.sin()], dim=1)
    y = np.array([0, -1, -1, -1, 1, -1, -1, -1, -1])
    reached = spread(neighbour_graph(points, neighbours=1), y, kept=0.99)
    assert (reached[:4, 0] > 0).all()
    assert (reached[4:, 0] == 0).all()
    assert (reached[4:7, 1] > 0).all()
    assert (reached[7:] == 0).all()


def test_edges_lie_where_light_begins_and_in_its_direction():
    x = torch.zeros(1, 1, 12, 12)
    x[..., 7:] = 1  # light begins at 6.5, and the gradient points to the right, direction 0
    maps = edges(x)
    assert maps.shape == (1, 8, 4, 4)
    assert (maps[0, 1:] == 0).all()
    assert maps[0, 0].argmax(dim=1).tolist() == [2] * 4  # kept are pixels 1, 4, 7 and 10
    below = edges(x.mT)  # light begins below: down is a quarter turn on
    torch.testing.assert_close(below[0, 2], maps[0, 0].mT)
    assert (below[0, [0, 1, 3, 4, 5, 6, 7]] == 0).all()


def test_an_edge_between_two_directions_counts_for_both():
    v, u = torch.meshgrid(torch.arange(12.0), torch.arange(12.0), indexing="ij")
    angle = 0.75 * torch.pi / 4  # three quarters of the way from direction 0 to direction 1
    plane = (u * np.cos(angle) + v * np.sin(angle))[None, None]
    maps = edges(plane)[0].square()
    torch.testing.assert_close(maps[0], torch.full((4, 4), 0.25), atol=1e-4, rtol=0)
    torch.testing.assert_close(maps[1], torch.full((4, 4), 0.75), atol=1e-4, rtol=0)
    assert maps[2:].abs().max() < 1e-4


def test_outlines_hardly_see_how_an_image_is_slanted_and_where_it_lies():
    digits = torch.zeros(200, 1, 20, 20)
    digits[..., 6:14, 6:14] = torch.tensor(load_digits().images[:200], dtype=torch.float32)[:, None] / 16
    moved = digits.roll((2, -3), dims=(2, 3))
    both = outlines(torch.cat([digits, moved]), straighten=True)
    assert (both[:200] * both[200:]).sum(dim=1).min() > 0.99
    assert (both[:199] * both[1:200]).sum(dim=1).median() < 0.5


def test_guesses_for_digits():
    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    x = torch.nn.functional.interpolate(x, scale_factor=3, mode="bilinear")
    labeled = labeled_draw(digits.target, 50, seed=0)
    y = np.full(len(x), -1)
    y[labeled] = digits.target[labeled]
    graph = handwriting_graph(x)
    everyone, surest = (first_guesses(graph, y, surest=share) for share in (1.0, 0.8))
    assert (everyone[labeled] == digits.target[labeled]).all()
    assert (everyone >= 0).all()
    known = surest >= 0
    assert (surest[known] == everyone[known]).all()
    assert known[y < 0].mean() == pytest.approx(0.8, abs=0.005)
    wrong, wrong_of_surest = (everyone != digits.target).mean(), (surest != digits.target)[known].mean()
    assert wrong < 0.04
    assert wrong_of_surest < wrong / 2


def test_the_surest_are_those_with_the_largest_share_of_their_labels_ahead():
    graph = np.zeros((8, 8))
    graph[[0, 1], [1, 2]] = 0.5, 0.3  # row 1 lies between two labels
    graph[[3, 4, 5, 6], [4, 5, 6, 7]] = 0.2  # to row 7 comes little, but nothing else
    y = np.array([0, -1, 1, 0, -1, -1, -1, -1])
    symmetric = csr_matrix(graph + graph.T)
    assert first_guesses(symmetric, y, surest=1.0).tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    assert first_guesses(symmetric, y, surest=0.8).tolist() == [0, -1, 1, 0, 0, 0, 0, 0]


def test_neighbours_in_handwriting_are_the_nearest_when_bent():
    x = torch.tensor(load_digits().images[:30], dtype=torch.float32)[:, None] / 16
    x = torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
    slopes = gradients(upright(x))
    n = len(x)  # fewer than the candidates, so all are
    pairs = (
        bent_distance(slopes.repeat_interleave(n, dim=0), slopes.repeat(n, 1, 1, 1))
        .view(n, n)
        .fill_diagonal_(torch.inf)
    )
    expected = graph_of(*pairs.topk(5, dim=1, largest=False))
    np.testing.assert_allclose(handwriting_graph(x).toarray(), expected.toarray(), rtol=1e-5)


def test_rows_that_no_label_reaches_get_no_guess():
    upright, lying, square = (torch.zeros(30, 1, 12, 12) for _ in range(3))
    generator = torch.Generator().manual_seed(0)
    upright[..., 3:9, 5:7] = 0.8 + 0.2 * torch.rand(30, 1, 6, 2, generator=generator)
    lying[..., 5:7, 3:9] = 0.8 + 0.2 * torch.rand(30, 1, 2, 6, generator=generator)
    square[..., 2:10, 2:10] = 0.8 + 0.2 * torch.rand(30, 1, 8, 8, generator=generator)
    y = np.full(90, -1)
    y[[0, 30]] = 0, 1
    guesses = first_guesses(handwriting_graph(torch.cat([upright, lying, square])), y, surest=1.0)
    assert guesses.tolist() == [0] * 30 + [1] * 30 + [-1] * 30


def moons(n, seed=0):
    """Two half circles that grip into each other: straight lines do not part them, a walk along each does."""
    rng = np.random.default_rng(seed)
    x, y = make_moons(n, noise=0.05, random_state=int(rng.integers(1000)))
    return x.astype(np.float32)[:, :, None, None], y


def test_labels_go_along_both_moons():
    x, y = moons(400)
    given = np.full(400, -1)
    given[[np.flatnonzero(y == 0)[0], np.flatnonzero(y == 1)[0]]] = 0, 1
    guesses = spread_labels(x, given, rng=np.random.RandomState(0))
    assert (guesses == y).mean() > 0.99


def test_many_rows_take_the_label_of_the_nearest(monkeypatch):
    monkeypatch.setattr(neighbours, "SPREAD", 300)
    x, y = moons(2000)
    given = np.full(2000, -1)
    given[:20] = y[:20]
    guesses = spread_labels(x, given, rng=np.random.RandomState(0))
    assert (guesses[:20] == y[:20]).all()
    assert (guesses == y).mean() > 0.98


def test_a_group_that_no_label_reaches_takes_the_nearest_label():
    x = np.concatenate([np.linspace(0, 1, 30), np.linspace(10, 11, 30), np.linspace(18, 19, 30)])
    given = np.full(90, -1)
    given[[0, 45]] = 0, 1
    guesses = spread_labels(x.astype(np.float32)[:, None, None, None], given, rng=np.random.RandomState(0))
    assert guesses.tolist() == [0] * 30 + [1] * 60


def test_where_rows_lie():
    generator = torch.Generator().manual_seed(0)
    table = torch.rand(50, 12, 1, 1, generator=generator)
    torch.testing.assert_close(places(table), table.flatten(1))
    wide = places(torch.rand(50, 300, 1, 1, generator=generator))
    assert wide.shape == (50, 30)
    torch.testing.assert_close(wide.norm(dim=1), torch.ones(50))
    images = torch.rand(70, 3, 16, 16, generator=generator)
    torch.testing.assert_close(places(images), outlines(images, straighten=False))
