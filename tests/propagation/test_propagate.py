"""Labels along neighbours: what comes where, and what is sure."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits, make_moons

from mmdgm.data.splits import labeled_draw
from mmdgm.propagation.all_rows import propagate_to_all
from mmdgm.propagation.graph import HANDWRITING, neighbour_graph
from mmdgm.propagation.propagate import (
    KAPPA_HANDWRITING,
    chances_of_others,
    class_chances,
    class_strength,
    diffuse,
    lead_of,
    propagate,
)


def test_diffusion_solves_the_linear_system():
    points = torch.rand(1203, 5, generator=torch.Generator().manual_seed(0))
    graph = neighbour_graph(points, neighbours=7)
    y = np.full(len(points), -1)
    y[:6] = [0, 1, 2, 0, 1, 2]
    given = np.eye(3)[y] * (y >= 0)[:, None]
    expected = np.linalg.solve(np.eye(len(points)) - 0.99 * graph.toarray(), given)
    np.testing.assert_allclose(diffuse(graph, y, kappa=0.99), expected, rtol=1e-3, atol=1e-6)


def test_a_label_goes_along_a_chain_and_no_further():
    angles = torch.tensor([0.0, 0.2, 0.4, 0.6, 2.0, 2.2, 2.4, 4.5, 4.6])  # three arcs of a circle
    points = torch.stack([angles.cos(), angles.sin()], dim=1)
    y = np.array([0, -1, -1, -1, 1, -1, -1, -1, -1])
    reached = diffuse(neighbour_graph(points, neighbours=1), y, kappa=0.99)
    assert (reached[:4, 0] > 0).all()
    assert (reached[4:, 0] == 0).all()
    assert (reached[4:7, 1] > 0).all()
    assert (reached[7:] == 0).all()


def test_propagated_labels_of_digits():
    digits = load_digits()
    x = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    x = torch.nn.functional.interpolate(x, scale_factor=3, mode="bilinear")
    labeled = labeled_draw(digits.target, 50, seed=0)
    y = np.full(len(x), -1)
    y[labeled] = digits.target[labeled]
    graph = HANDWRITING.graph(x)
    everyone, surest = (propagate(graph, y, kappa=KAPPA_HANDWRITING, share=share) for share in (1.0, 0.8))
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
    graph[[0, 1], [1, 2]] = 0.5, 0.2  # row 1 lies between two labels
    graph[[3, 4, 5, 6], [4, 5, 6, 7]] = 0.2  # to row 7 comes little, but nothing else
    y = np.array([0, -1, 1, 0, -1, -1, -1, -1])
    symmetric = csr_matrix(graph + graph.T)
    assert propagate(symmetric, y, kappa=KAPPA_HANDWRITING, share=1.0).tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    assert propagate(symmetric, y, kappa=KAPPA_HANDWRITING, share=0.8).tolist() == [0, -1, 1, 0, 0, 0, 0, 0]


def test_rows_that_no_label_reaches_get_no_label():
    upright, lying, square = (torch.zeros(30, 1, 12, 12) for _ in range(3))
    generator = torch.Generator().manual_seed(0)
    upright[..., 3:9, 5:7] = 0.8 + 0.2 * torch.rand(30, 1, 6, 2, generator=generator)
    lying[..., 5:7, 3:9] = 0.8 + 0.2 * torch.rand(30, 1, 2, 6, generator=generator)
    square[..., 2:10, 2:10] = 0.8 + 0.2 * torch.rand(30, 1, 8, 8, generator=generator)
    y = np.full(90, -1)
    y[[0, 30]] = 0, 1
    labels = propagate(HANDWRITING.graph(torch.cat([upright, lying, square])), y, kappa=KAPPA_HANDWRITING)
    assert labels.tolist() == [0] * 30 + [1] * 30 + [-1] * 30


def moons(n, seed=0):
    """Two half circles that grip into each other: straight lines do not part them, a walk along each does."""
    rng = np.random.default_rng(seed)
    x, y = make_moons(n, noise=0.05, random_state=int(rng.integers(1000)))
    return x.astype(np.float32)[:, :, None, None], y


def test_labels_go_along_both_moons():
    x, y = moons(400)
    given = np.full(400, -1)
    given[[np.flatnonzero(y == 0)[0], np.flatnonzero(y == 1)[0]]] = 0, 1
    labels = propagate_to_all(torch.from_numpy(x), given, rng=np.random.RandomState(0))
    assert (labels == y).mean() > 0.99


def test_many_rows_take_the_label_of_the_nearest(monkeypatch):
    monkeypatch.setattr("mmdgm.propagation.all_rows.ROWS", 300)
    x, y = moons(2000)
    given = np.full(2000, -1)
    given[:20] = y[:20]
    labels = propagate_to_all(torch.from_numpy(x), given, rng=np.random.RandomState(0))
    assert (labels[:20] == y[:20]).all()
    assert (labels == y).mean() > 0.98


def test_a_group_that_no_label_reaches_stays_unlabeled():
    x = np.concatenate([np.linspace(0, 1, 30), np.linspace(10, 11, 30), np.linspace(18, 19, 30)])
    given = np.full(90, -1)
    given[[0, 45]] = 0, 1
    points = torch.from_numpy(x).float()[:, None, None, None]
    labels = propagate_to_all(points, given, rng=np.random.RandomState(0))
    assert labels.tolist() == [0] * 30 + [1] * 30 + [-1] * 30


def test_chances_by_hand():
    strength = np.array([[0.2, 0.1, 0.0], [0.0, 0.0, 0.0], [0.3, 0.3, 0.3]])
    y = np.array([0, 0, 0, 1, 2])  # shares 3 : 1 : 1
    expected = [[48 / 49, 1 / 49, 0], [0, 0, 0], [0.6, 0.2, 0.2]]
    np.testing.assert_allclose(class_chances(strength, y), expected)
    given = class_chances(strength, y, prior=np.array([0.1, 0.8, 0.1]))
    np.testing.assert_allclose(given, [[16 / 24, 8 / 24, 0], [0, 0, 0], [0.1, 0.8, 0.1]])
    np.testing.assert_allclose(lead_of(given), [1 / 3, 0, 0.7], atol=1e-12)


def test_class_strength_is_the_mean_over_the_labels_of_a_class():
    graph = neighbour_graph(torch.rand(60, 3, generator=torch.Generator().manual_seed(0)))
    y = np.full(60, -1)
    y[[3, 4, 5, 9]] = 0, 0, 0, 2  # class 1 has no label
    alone = [diffuse(graph, np.where(np.arange(60) == row, 0, -1), kappa=0.9)[:, 0] for row in (3, 4, 5, 9)]
    expected = np.stack([np.mean(alone[:3], axis=0), np.zeros(60), alone[3]], axis=1)
    np.testing.assert_allclose(class_strength(graph, y, kappa=0.9), expected, rtol=1e-4, atol=1e-7)


@pytest.fixture(name="digits", scope="module")
def make_digits():
    """The graph of scikit-learn's digits, and their classes."""
    x, y = load_digits(return_X_y=True)
    return neighbour_graph(torch.from_numpy(x).float() / 16), y


def with_labels(y, counts, rng):
    """y with `counts[k]` labels of class k, −1 elsewhere."""
    known = np.concatenate([rng.choice(np.flatnonzero(y == k), n, replace=False) for k, n in enumerate(counts)])
    return np.where(np.isin(np.arange(len(y)), known), y, -1)


def test_one_label_in_a_class_beside_fifty_in_another(digits):
    graph, y = digits
    wrong, wrong_of_sums = [], []
    for draw in range(5):
        rng = np.random.default_rng(draw)
        given = with_labels(y, rng.permutation([1, 50, 5, 20, 10, 2, 30, 3, 8, 15]), rng)
        rows = given < 0
        strength = class_strength(graph, given, kappa=0.95)
        wrong.append((class_chances(strength, given).argmax(1) != y)[rows].mean())
        wrong_of_sums.append((diffuse(graph, given, kappa=0.95).argmax(1) != y)[rows].mean())
    assert np.mean(wrong) < 0.08
    assert np.mean(wrong) < np.mean(wrong_of_sums) / 2


def test_rare_classes_are_found_and_do_not_spread(digits):
    graph, y = digits
    few = np.concatenate([np.flatnonzero(~np.isin(y, [3, 8])), *[np.flatnonzero(y == k)[:15] for k in (3, 8)]])
    x = torch.from_numpy(load_digits().data[few]).float() / 16
    graph, y = neighbour_graph(x), y[few]  # 1 % each
    given = with_labels(y, [1 if k in (3, 8) else 8 for k in range(10)], np.random.default_rng(0))
    labels = propagate(graph, given, kappa=0.95)
    rare = np.isin(y, [3, 8])
    assert (labels == y)[rare].mean() > 0.6
    assert (np.isin(labels, [3, 8]) & ~rare).sum() < 30
    assert (labels != y)[labels >= 0].mean() < 0.05


def test_rows_of_a_class_without_labels_are_not_forced_into_others(digits):
    graph, y = digits
    given = with_labels(y, [0, *[5] * 9], np.random.default_rng(1))
    labels = propagate(graph, given, kappa=0.95)
    assert (labels[y == 0] < 0).mean() > 0.8
    assert (labels[y > 0] < 0).mean() < 0.05


def test_a_given_prior_moves_the_border(digits):
    graph, y = digits
    given = with_labels(y, [5] * 10, np.random.default_rng(1))
    counts = [
        np.bincount(propagate(graph, given, kappa=0.95, prior=prior).clip(0), minlength=10)[8]
        for prior in ([0.1] * 10, [0.01] * 8 + [0.91, 0.01])
    ]
    assert counts[1] > counts[0]


def test_rows_outside_the_graph_take_the_mean_of_their_neighbours():
    chances = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    found = chances_of_others(chances, np.array([[3.0, 1.0]]), np.array([[1, 2]]))
    np.testing.assert_allclose(found, [[0.375, 0.625]])
