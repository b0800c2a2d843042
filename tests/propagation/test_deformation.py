"""The distance of images that may be deformed: the literal sum, and what deforming forgives."""

import pytest
import torch
from torch.nn.functional import pad

from mmdgm.propagation.deformation import deformation_distance, gradients


def literal(a, b, *, reach, radius):
    """d(a, b) of one pair of gradients (2, height, width), place by place."""
    _, height, width = a.shape

    def at(image, v, u):
        return image[:, v, u] if 0 <= v < height and 0 <= u < width else torch.zeros(2)

    def window(v, u, down, right):
        places = [
            (v + i, u + j)
            for i in range(-radius, radius + 1)
            for j in range(-radius, radius + 1)
            if 0 <= v + i < height and 0 <= u + j < width
        ]
        return sum((at(a, i, j) - at(b, i + down, j + right)).square().sum() for i, j in places)

    steps = range(-reach, reach + 1)
    return sum(
        min(window(v, u, down, right) for down in steps for right in steps)
        for v in range(height)
        for u in range(width)
    )


@pytest.mark.parametrize(("reach", "radius"), [(0, 0), (1, 0), (0, 1), (1, 1), (2, 2)])
def test_the_distance_is_the_literal_sum(reach, radius):
    a, b = torch.randn(2, 3, 2, 5, 7, generator=torch.Generator().manual_seed(0))
    expected = [literal(one, other, reach=reach, radius=radius) for one, other in zip(a, b, strict=True)]
    torch.testing.assert_close(deformation_distance(a, b, reach=reach, radius=radius), torch.stack(expected))


def test_without_deforming_it_is_the_squared_distance():
    a, b = torch.randn(2, 4, 2, 6, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(deformation_distance(a, b, reach=0, radius=0), (a - b).square().sum(dim=(1, 2, 3)))


def test_an_image_that_is_moved_within_reach_is_the_same():
    image = pad(torch.rand(1, 2, 6, 6, generator=torch.Generator().manual_seed(0)), (5, 5, 5, 5))
    within, beyond = (image.roll((step, -step), dims=(2, 3)) for step in (2, 3))
    assert deformation_distance(image, image).item() == 0
    assert deformation_distance(image, within).item() == 0
    assert deformation_distance(image, beyond).item() > 0


def test_more_reach_never_takes_images_apart():
    a, b = torch.randn(2, 5, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    near, far = (deformation_distance(a, b, reach=reach) for reach in (1, 2))
    assert (far <= near).all()
    assert (far < near).any()


def test_gradients_of_a_plane_are_its_slopes():
    v, u = torch.meshgrid(torch.arange(6.0), torch.arange(8.0), indexing="ij")
    x = (3 * u - 2 * v)[None, None] / 2
    slopes = gradients(x.expand(1, 2, 6, 8))[0, :, 1:-1, 1:-1] / 2  # two channels are added; over two pixels
    torch.testing.assert_close(slopes[0], torch.full((4, 6), 3.0))
    torch.testing.assert_close(slopes[1], torch.full((4, 6), -2.0))
