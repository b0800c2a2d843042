"""Rows as points: where an image's edges lie, and what of it a point keeps."""

import time

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from mmdgm.data.augmentation import upright
from mmdgm.propagation.features import edges, leading_directions, outlines, points_of, principal_directions


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


def test_outlines_of_upright_images_hardly_see_where_an_image_lies():
    digits = torch.zeros(200, 1, 20, 20)
    digits[..., 6:14, 6:14] = torch.tensor(load_digits().images[:200], dtype=torch.float32)[:, None] / 16
    moved = digits.roll((2, -3), dims=(2, 3))
    both = outlines(upright(torch.cat([digits, moved])))
    assert (both[:200] * both[200:]).sum(dim=1).min() > 0.99
    assert (both[:199] * both[1:200]).sum(dim=1).median() < 0.5


def test_points_of_rows():
    generator = torch.Generator().manual_seed(0)
    table = torch.rand(50, 12, 1, 1, generator=generator)
    torch.testing.assert_close(points_of(table), table.flatten(1))
    wide = points_of(torch.rand(50, 300, 1, 1, generator=generator))
    assert wide.shape == (50, 30)
    torch.testing.assert_close(wide.norm(dim=1), torch.ones(50))
    images = torch.rand(70, 3, 16, 16, generator=generator)
    torch.testing.assert_close(points_of(images), outlines(images))


@pytest.mark.parametrize(("n", "d"), [(40, 7), (40, 40), (20, 300)])
def test_principal_directions_are_right_singular_vectors(n, d):
    rows = torch.randn((n, d), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows -= rows.mean(dim=0)
    expected = torch.linalg.svd(rows, full_matrices=False)[2][:5]
    found = principal_directions(rows, 5).T.flip(0)
    np.testing.assert_allclose((found * expected).sum(dim=1).abs(), 1, rtol=1e-9)


def test_wide_rows_of_low_rank_have_as_few_directions():
    rows = torch.randn(30, 2) @ torch.randn(2, 500)
    assert principal_directions(rows - rows.mean(dim=0), 10).shape == (500, 2)
    assert torch.isfinite(leading_directions(torch.ones(30, 500), 10)).all()


def test_very_wide_rows_take_no_time():
    began = time.monotonic()
    assert leading_directions(torch.randn(300, 20_000), 30).shape == (300, 30)
    assert time.monotonic() - began < 5
