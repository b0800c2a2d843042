"""Changes of appearance against hand-computed values, scipy and literal loops."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from scipy.ndimage import convolve, correlate1d

from mmdgm.data.appearance import Appearance, blurred, hide_square, mix_colours

ROWS = 400


def some(rows=4, channels=3, height=7, width=9):
    return torch.rand(rows, channels, height, width, generator=torch.Generator().manual_seed(0))


def means(x):
    return x.mean(dim=(1, 2, 3))


def deviation(x):
    return x - means(x)[:, None, None, None]


def changed(x, **amounts):
    torch.manual_seed(1)
    return Appearance(**amounts)(x)


def is_uniform(values, least, most):
    assert values.min() >= least - 1e-4
    assert values.max() <= most + 1e-4
    assert values.mean().item() == pytest.approx((least + most) / 2, abs=0.06 * (most - least))
    assert values.std().item() == pytest.approx((most - least) / 12**0.5, rel=0.1)


def test_all_zeros_is_the_image_itself_and_draws_nothing():
    x, before = some(), torch.get_rng_state()
    assert Appearance()(x) is x
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Appearance)])
def test_each_amount_changes_images_and_keeps_shape_and_type(name):
    x = some(rows=30)
    found = changed(x, **{name: 4 if name == "cutout" else 1.0})
    assert (found.shape, found.dtype) == (x.shape, x.dtype)
    assert not torch.allclose(found, x)
    assert torch.equal(x, some(rows=30))  # not in place


def test_colours_by_hand():
    # mean 0.4; deviations (−0.2, 0, 0.2)
    x = torch.tensor([0.2, 0.4, 0.6]).view(1, 3, 1, 1)
    change = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.0, 3.0], [0.5, 2.0, -0.5]]])
    expected = torch.tensor([0.2 - 0.2, 0.4 + 0.6, 0.6 - 0.1 - 0.1]).view(1, 3, 1, 1)
    torch.testing.assert_close(mix_colours(x, change), expected)


def test_colours_are_the_product_of_a_matrix_and_each_pixel():
    x, change = some(), torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(2))
    expected = np.empty(x.shape, dtype=np.float32)
    for n, v, u in itertools.product(range(4), range(7), range(9)):
        mean = x[n].numpy().mean()
        expected[n, :, v, u] = (np.eye(3) + change[n].numpy()) @ (x[n, :, v, u].numpy() - mean) + mean
    torch.testing.assert_close(mix_colours(x, change), torch.from_numpy(expected), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(mix_colours(x, torch.zeros(4, 3, 3)), x)


def test_mixed_colours_keep_the_mean_of_grey_images_and_uniform_images():
    change = torch.randn(4, 3, 3, generator=torch.Generator().manual_seed(2))
    grey = some(channels=1).expand(-1, 3, -1, -1)
    torch.testing.assert_close(mix_colours(grey, change).mean(dim=(2, 3)), grey.mean(dim=(2, 3)))
    uniform = torch.full((4, 3, 5, 5), 0.3)
    torch.testing.assert_close(mix_colours(uniform, change), uniform)


def test_each_image_has_a_colour_matrix_of_its_own_with_the_given_deviation():
    x = some(rows=ROWS)
    found = changed(x, colour=0.3)
    solved = torch.linalg.lstsq(deviation(x).flatten(2).mT.double(), (found - x).flatten(2).mT.double())
    matrices = solved.solution.mT  # (rows, 3, 3)
    torch.testing.assert_close(mix_colours(x, matrices.float()), found, atol=1e-4, rtol=0)
    assert matrices.std().item() == pytest.approx(0.3, rel=0.05)
    assert matrices.mean().abs() < 0.02
    entries = torch.corrcoef(matrices.flatten(1).T)
    assert (entries - torch.eye(9, dtype=torch.float64)).abs().max() < 0.2


@pytest.mark.parametrize("channels", [1, 2])
def test_images_without_three_colours_keep_theirs(channels):
    x = some(channels=channels)
    assert Appearance(colour=1.0)(x) is x


def test_contrast_is_a_factor_of_each_image_around_its_mean():
    x = some(rows=ROWS)
    found = changed(x, contrast=0.5)
    torch.testing.assert_close(means(found), means(x))
    factor = deviation(found).flatten(1).norm(dim=1) / deviation(x).flatten(1).norm(dim=1)
    torch.testing.assert_close(deviation(found), factor[:, None, None, None] * deviation(x), atol=1e-5, rtol=0)
    is_uniform(factor, 0.5, 1.5)


def test_brightness_is_added_to_each_image():
    x = some(rows=ROWS)
    added = changed(x, brightness=0.4) - x
    torch.testing.assert_close(added, means(added)[:, None, None, None].expand_as(x), atol=1e-5, rtol=0)
    is_uniform(means(added), -0.4, 0.4)


def test_contrast_and_brightness_know_nothing_of_each_other():
    x = some(rows=ROWS)
    found = changed(x, contrast=0.5, brightness=0.4)
    lift = means(found) - means(x)
    factor = deviation(found).flatten(1).norm(dim=1) / deviation(x).flatten(1).norm(dim=1)
    is_uniform(lift, -0.4, 0.4)
    is_uniform(factor, 0.5, 1.5)
    assert torch.corrcoef(torch.stack([lift, factor]))[0, 1].abs() < 0.15


def test_inverted_images_are_one_minus_themselves():
    x = some(rows=ROWS)
    assert torch.equal(changed(x, invert=1.0), 1 - x)
    found = changed(x, invert=0.3)
    inverted = (found == 1 - x).flatten(1).all(dim=1)
    assert torch.equal(found[~inverted], x[~inverted])
    assert inverted.float().mean().item() == pytest.approx(0.3, abs=0.08)


def test_blur_is_scipy_s_with_repeated_edges():
    x = some().double()
    kernel = np.outer([1, 2, 1], [1, 2, 1]) / 16
    expected = np.array([[convolve(map_, kernel, mode="nearest") for map_ in image] for image in x.numpy()])
    torch.testing.assert_close(blurred(x), torch.from_numpy(expected))
    one_by_one = correlate1d(
        correlate1d(x.numpy(), [0.25, 0.5, 0.25], 2, mode="nearest"), [0.25, 0.5, 0.25], 3, mode="nearest"
    )
    torch.testing.assert_close(blurred(x), torch.from_numpy(one_by_one))
    torch.testing.assert_close(blurred(x).mean(dim=(2, 3)), x.mean(dim=(2, 3)))  # no light is lost at the edges


def test_images_are_blurred_or_sharpened_by_amounts_of_their_own():
    x = some(rows=ROWS)
    found, way = changed(x, blur=0.8), blurred(x) - x
    amount = ((found - x) * way).sum(dim=(1, 2, 3)) / way.square().sum(dim=(1, 2, 3))
    torch.testing.assert_close(found, x + amount[:, None, None, None] * way, atol=1e-5, rtol=0)
    is_uniform(amount, -0.8, 0.8)


def literally_hidden(x, size, down, right, side):
    x = x.clone()
    height, width = x.shape[-2:]
    for image, s, d, r in zip(x, size.tolist(), down.tolist(), right.tolist(), strict=True):
        mean = image.mean().item()
        for v, u in itertools.product(range(height), range(width)):
            if max(abs(v + 0.5 - d * height), abs(u + 0.5 - r * width)) < s * side / 2:
                image[:, v, u] = mean
    return x


def test_a_hidden_square_by_hand():
    x = some(rows=1, channels=2, height=6, width=8)
    # 4·1 pixels wide, with its middle at row 3 and column 2 of the edges between pixels
    found = hide_square(x, torch.tensor([1.0]), torch.tensor([0.5]), torch.tensor([0.25]), side=4)
    expected = x.clone()
    expected[:, :, 1:5, 0:4] = x.mean()
    torch.testing.assert_close(found, expected)
    # a middle in the corner leaves a quarter of it
    corner = hide_square(x, torch.tensor([1.0]), torch.tensor([1.0]), torch.tensor([0.0]), side=4)
    expected = x.clone()
    expected[:, :, 4:, :2] = x.mean()
    torch.testing.assert_close(corner, expected)


def test_hidden_squares_are_literal_masks():
    x, (size, down, right) = some(rows=30), torch.rand(3, 30, generator=torch.Generator().manual_seed(3))
    found = hide_square(x, size, down, right, side=6)
    torch.testing.assert_close(found, literally_hidden(x, size, down, right, side=6))
    assert torch.equal(hide_square(x, torch.zeros(30), down, right, side=6), x)


def test_squares_of_images_are_of_all_sizes_and_places():
    x = some(rows=ROWS, channels=1, height=12, width=12)
    hidden = changed(x, cutout=6)[:, 0] != x[:, 0]
    rows, columns = hidden.any(dim=2), hidden.any(dim=1)
    assert torch.equal(hidden, rows[:, :, None] & columns[:, None, :])
    assert rows.sum(dim=1).unique().tolist() == list(range(7)) == columns.sum(dim=1).unique().tolist()
    # the expected area is E[(6s)²] = 12 pixels, less what lies outside the image
    assert 6 < hidden.sum(dim=(1, 2)).float().mean() < 12
    assert (hidden.float().mean(dim=0) > 0.01).all()


def test_changes_come_one_after_the_other():
    """Inverted, then hidden: the square has the mean of the inverted image."""
    x = torch.full((20, 1, 8, 8), 0.25)
    x[..., 0] = 1
    found = changed(x, invert=1.0, cutout=8)
    values = found.unique()
    assert values.tolist() == pytest.approx([0.0, 1 - (0.25 * 7 + 1) / 8, 0.75])
