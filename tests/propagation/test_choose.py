"""The graph that is chosen is the one along which hidden labels are found best."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from mmdgm.data.augmentation import distort
from mmdgm.propagation.all_rows import propagate_to_all
from mmdgm.propagation.choose import OTHERS, choose_graph, of_points
from mmdgm.propagation.graph import Neighbours, graph_of
from mmdgm.propagation.leave_one_out import leave_one_out
from mmdgm.propagation.propagate import KAPPA, class_chances, class_strength


def chosen(x, y):
    return choose_graph(x, y, kappa=KAPPA, rng=np.random.RandomState(0))


def few(y, n, seed=0):
    given = np.full(len(y), -1)
    rows = np.random.RandomState(seed).permutation(len(y))[:n]
    given[rows] = y[rows]
    return given


def wrong(build, x, y, given):
    chances = class_chances(class_strength(build(x), given, kappa=KAPPA), given)
    return (chances.argmax(axis=1) != y)[given < 0].mean()


@pytest.fixture(name="slanted", scope="module")
def make_slanted():
    """Digits of 24×24 pixels, each slanted and moved by its own amount, and their classes."""
    digits = load_digits()
    x = torch.tensor(digits.images[:600], dtype=torch.float32)[:, None] / 16
    x = torch.nn.functional.pad(torch.nn.functional.interpolate(x, size=(16, 16), mode="bilinear"), (4, 4, 4, 4))
    torch.manual_seed(0)
    return distort(x, turn=0.0, shift=3.0, zoom=0.0, shear=0.6), digits.target[:600]


@pytest.mark.parametrize("dark", [False, True])
def test_slanted_handwriting_is_straightened_and_deformed(slanted, dark):
    x, y = slanted
    x = 1 - x if dark else x
    given = few(y, 60)
    build = chosen(x, given)
    assert build is OTHERS[1]
    assert wrong(build, x, y, given) < 0.5 * wrong(of_points, x, y, given)


def test_a_class_that_straightening_takes_away_is_found():
    torch.manual_seed(0)
    stroke = torch.zeros(200, 1, 24, 24)
    stroke[..., 4:20, 10:14] = 1
    stroke = stroke + 0.1 * torch.rand(stroke.shape)
    y = np.arange(200) % 2
    leaning = torch.where(torch.from_numpy(y)[:, None, None, None] == 1, stroke.rot90(dims=(2, 3)), stroke)
    assert wrong(chosen(leaning, few(y, 20)), leaning, y, few(y, 20)) == 0


def test_tables_and_small_images_have_one_kind_of_graph():
    rng = np.random.RandomState(0)
    y = few(np.array([0, 1] * 20), 4)
    for shape in ((40, 5, 1, 1), (40, 1, 8, 8)):
        assert choose_graph(torch.rand(shape), y, kappa=KAPPA, rng=rng) is of_points


def test_one_label_per_class_tells_nothing(slanted):
    x, y = slanted
    given = np.full(len(y), -1)
    first = [np.flatnonzero(y == k)[0] for k in range(10)]
    given[first] = y[first]
    assert chosen(x, given) is of_points


def test_no_graph_where_labels_say_that_neighbours_are_of_other_classes():
    torch.manual_seed(0)
    noise, y = torch.rand(120, 1, 16, 16), np.arange(120) % 3
    assert chosen(noise, few(y, 60)) is None
    assert chosen(noise, few(y, 12)) is of_points  # too few labels to do without
    labels = propagate_to_all(noise, few(y, 60), rng=np.random.RandomState(0))
    assert labels is None


def test_rows_that_no_other_label_reaches_have_no_chance():
    pairs = torch.tensor([[1], [0], [3], [2]])
    graph = graph_of(Neighbours(torch.ones(4, 1), pairs))
    chances = leave_one_out(graph, np.array([0, -1, 1, -1]), kappa=0.5)
    assert chances.tolist() == [[0, 0], [0, 0]]
