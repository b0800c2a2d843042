import math

import numpy as np
import pytest
import torch
from scipy.ndimage import map_coordinates

from mmdgm.data import augmentation
from mmdgm.data.augmentation import Distortion, Warp, distort, upright, warp, waves

NOTHING = {"angle": 0.0, "down": 0.0, "right": 0.0, "scale": 1.0, "slant": 0.0}
NO_DISTORTION = {"turn": 0.0, "shift": 0.0, "zoom": 0.0, "shear": 0.0}


def warped(x, bent=None, edges="zeros", **amounts):
    amounts = {name: torch.full((len(x),), value) for name, value in {**NOTHING, **amounts}.items()}
    return warp(x, Warp(**amounts), bent=bent, edges=edges)


@pytest.fixture
def drawn(monkeypatch):
    """What each call of warp is asked for, by name; images stay."""
    calls = []
    monkeypatch.setattr(augmentation, "warp", lambda x, by, **more: calls.append({**by._asdict(), **more}) or x)
    return calls


@pytest.fixture
def images():
    return torch.rand(3, 2, 8, 8, generator=torch.Generator().manual_seed(0))


def test_nothing_changes_where_all_amounts_are_zero(images):
    torch.testing.assert_close(warped(images), images)
    torch.testing.assert_close(distort(images, **NO_DISTORTION), images)


def test_a_quarter_turn(images):
    torch.testing.assert_close(warped(images, angle=math.pi / 2), images.rot90(dims=(2, 3)), atol=1e-5, rtol=0)


def test_whole_pixels_down_and_right_bring_zeros_in(images):
    moved = torch.zeros_like(images)
    moved[..., 2:, 1:] = images[..., :-2, :-1]
    torch.testing.assert_close(warped(images, down=2.0, right=1.0), moved)


def test_whole_pixels_down_and_right_repeat_the_border(images):
    padded = np.pad(images.numpy(), ((0, 0), (0, 0), (2, 0), (1, 0)), mode="edge")[..., :-2, :-1]
    moved = warped(images, down=2.0, right=1.0, edges="border")
    torch.testing.assert_close(moved, torch.from_numpy(padded))


@pytest.mark.parametrize(("edges", "mode"), [("zeros", "grid-constant"), ("border", "nearest")])
@pytest.mark.parametrize(
    "amounts",
    [
        {"down": 0.7, "right": -3.4},
        {"angle": 0.6},
        {"scale": 0.5},
        {"slant": -0.8},
        {"angle": -0.4, "down": 1.2, "right": 2.3, "scale": 1.3, "slant": 0.5},
    ],
)
def test_warps_are_scipy_s_interpolation(edges, mode, amounts):
    x = torch.rand(2, 2, 7, 10, generator=torch.Generator().manual_seed(0))
    by = {**NOTHING, **amounts}
    v, u = np.mgrid[:7, :10] - np.array([3.0, 4.5])[:, None, None]
    cos, sin = math.cos(by["angle"]), math.sin(by["angle"])
    across = (cos * u - sin * v) / by["scale"] + by["slant"] * v - by["right"] + 4.5
    along = (sin * u + cos * v) / by["scale"] - by["down"] + 3
    expected = [
        [map_coordinates(map_.astype(float), [along, across], order=1, mode=mode) for map_ in image]
        for image in x.numpy()
    ]
    found = warped(x, edges=edges, **amounts).double()
    torch.testing.assert_close(found, torch.tensor(np.array(expected)), atol=1e-5, rtol=0)


def test_what_comes_in_is_what_the_distortion_says():
    torch.manual_seed(0)
    white = torch.ones(50, 1, 8, 8)
    amounts = {"turn": 20.0, "shift": 3.0, "zoom": 0.2, "shear": 0.1, "bend": 0.7}
    border = Distortion(**amounts, edges="border")(white, torch.tensor(1.0))
    torch.testing.assert_close(border, white)
    darker = Distortion(**amounts, edges="zeros")(white, torch.tensor(1.0)).amin(dim=(1, 2, 3)) < 0.99
    assert darker.float().mean() > 0.9


def test_edges_change_nothing_but_what_comes_in(images):
    torch.manual_seed(0)
    zeros = distort(images, turn=0.0, shift=2.0, zoom=0.0, shear=0.0)
    torch.manual_seed(0)
    border = distort(images, turn=0.0, shift=2.0, zoom=0.0, shear=0.0, edges="border")
    torch.testing.assert_close(border[..., 2:-2, 2:-2], zeros[..., 2:-2, 2:-2])
    assert not torch.allclose(border, zeros)


def test_half_a_pixel_is_the_mean_of_two(images):
    expected = (images[..., 1:] + images[..., :-1]) / 2
    torch.testing.assert_close(warped(images, right=0.5)[..., 1:], expected)


def test_scale_enlarges():
    square = torch.zeros(1, 1, 12, 12)
    square[..., 4:8, 4:8] = 1
    larger = warped(square, scale=1.5)
    assert larger.sum() == pytest.approx(1.5**2 * 16, rel=0.05)
    # 2.5 pixels before the middle lies what lay 2.5/1.5 before it: five sixths within the square
    assert larger[0, 0, 3, 6] == pytest.approx(5 / 6)
    assert larger[0, 0, 3, 3] == pytest.approx((5 / 6) ** 2)


def test_slant_moves_lines_by_their_height():
    stroke = torch.zeros(1, 1, 9, 9)
    stroke[..., 4] = 1
    slanted = warped(stroke, slant=1.0)
    torch.testing.assert_close(slanted[0, 0], torch.eye(9).flip(0))


def test_images_that_are_not_square_turn_in_pixels_not_in_sides():
    dot = torch.zeros(1, 1, 5, 9)
    dot[0, 0, 2, 6] = 1  # two pixels to the right of the middle
    turned = warped(dot, angle=math.pi / 2)
    assert turned[0, 0, 0, 4] == pytest.approx(1, abs=1e-5)


LIMITS = {"angle": math.radians(20), "down": 3.0, "right": 3.0, "scale": 0.2, "slant": 0.1}


def test_each_image_has_amounts_of_its_own_within_the_limits(drawn):
    torch.manual_seed(0)
    distort(torch.rand(2000, 1, 8, 8), turn=20, shift=3, zoom=0.2, shear=0.1)
    (amounts,) = drawn
    amounts["scale"] = amounts["scale"] - 1
    assert amounts.pop("bent") is None
    assert amounts.pop("edges") == "zeros"
    assert amounts.keys() == LIMITS.keys()
    for name, limit in LIMITS.items():
        assert 0.99 * limit < amounts[name].abs().max() <= limit
        assert amounts[name].std() == pytest.approx(limit / math.sqrt(3), rel=0.05)  # uniform
        assert abs(amounts[name].mean()) < 0.05 * limit
    assert (torch.corrcoef(torch.stack(list(amounts.values()))) - torch.eye(5)).abs().max() < 0.08


def test_an_image_is_bent_where_the_movements_lead():
    ramp = torch.arange(64.0).view(1, 1, 8, 8)  # 8 more a row, 1 more a column
    bent = torch.zeros(1, 2, 8, 8)
    bent[0, 0, 3, 4], bent[0, 1, 3, 5] = 0.5, -0.25
    expected = ramp.clone()
    expected[0, 0, 3, 4] += 4
    expected[0, 0, 3, 5] -= 0.25
    torch.testing.assert_close(warped(ramp, bent=bent), expected)


def test_movements_start_from_where_the_other_amounts_lead(images):
    moved, bent = warped(images, down=2.0), torch.zeros(3, 2, 8, 8)
    bent[:, 1] = 1
    shifted = torch.zeros_like(moved)
    shifted[..., :-1] = moved[..., 1:]
    torch.testing.assert_close(warped(images, down=2.0, bent=bent), shifted)


def test_waves_are_normal_smooth_and_each_image_s_own():
    torch.manual_seed(0)
    movements = waves(torch.zeros(2000, 1, 28, 14))
    assert movements.shape == (2000, 2, 28, 14)
    corner = movements[:, :, 0, 0]  # beyond the outer points their value stays, but for cubic overshoot
    assert corner.std() == pytest.approx(1, rel=0.25)
    assert corner.mean() == pytest.approx(0, abs=0.06)
    assert torch.corrcoef(corner.T)[0, 1].abs() < 0.06
    steps = movements.diff(dim=2).square().mean().sqrt()
    assert 0.05 < steps < 2 / augmentation.BENT_EVERY  # points 7 pixels apart differ by √2 on average
    far = torch.stack([movements[:, 0, 3, 3], movements[:, 0, 24, 10]])
    assert torch.corrcoef(far)[0, 1].abs() < 0.06


def test_strength_is_a_factor_of_all_amounts(drawn, images):
    for strength in (1.0, torch.tensor(0.25)):
        torch.manual_seed(0)
        distort(images, turn=20, shift=3, zoom=0.2, shear=0.1, bend=0.7, strength=strength)
    whole, quarter = drawn
    for name in ("angle", "down", "right", "slant", "bent"):
        torch.testing.assert_close(quarter[name], whole[name] / 4)
    torch.testing.assert_close(quarter["scale"] - 1, (whole["scale"] - 1) / 4)
    assert 0.3 < whole["bent"].std() < 0.9


def test_without_strength_images_stay(images):
    limits = {"turn": 20.0, "shift": 3.0, "zoom": 0.2, "shear": 0.1, "bend": 1.0}
    torch.testing.assert_close(distort(images, **limits, strength=0.0), images)
    assert not torch.allclose(distort(images, **NO_DISTORTION, bend=1.0), images)


@pytest.mark.parametrize(
    ("fading", "remaining", "strength"),
    [
        (0.0, 0.0, 1.0),  # never fades
        (0.3, 1.0, 1.0),
        (0.3, 0.3, 1.0),
        (0.3, 0.2, 0.5),
        (0.3, 0.1, 0.0),  # gone in the last third
        (0.3, 0.0, 0.0),
        (1.0, 0.5, 0.25),
    ],
)
def test_distortion_fades_at_the_end_of_training(monkeypatch, images, fading, remaining, strength):
    asked = {}
    monkeypatch.setattr(augmentation, "distort", lambda x, **amounts: asked.update(amounts) or x)
    amounts = {"turn": 20.0, "shift": 3.0, "zoom": 0.2, "shear": 0.1, "bend": 0.7}
    found = Distortion(**amounts, fading=fading)(images, torch.tensor(remaining, dtype=torch.float64))
    assert found is images
    assert float(asked.pop("strength")) == pytest.approx(strength)
    assert asked == {**amounts, "edges": "zeros"}


def test_no_distortion_leaves_images_themselves(images):
    assert Distortion()(images, torch.tensor(1.0)) is images


def test_upright_takes_out_slant_and_place():
    stroke = torch.zeros(1, 1, 21, 21)
    stroke[..., 4:17, 9:12] = 1
    slanted = warped(stroke, slant=0.3, right=2.0, down=-1.0)
    torch.testing.assert_close(upright(stroke), stroke, atol=1e-5, rtol=0)
    straight = upright(slanted)
    assert (straight - stroke).abs().mean() < 0.2 * (slanted - stroke).abs().mean()  # what is left is blur
    light, (v, u) = straight[0, 0].numpy(), np.mgrid[-10:11, -10:11]
    below, beside = np.average(v, weights=light), np.average(u, weights=light)
    assert (below, beside) == pytest.approx((0, 0), abs=0.02)
    assert np.average(v * u, weights=light) == pytest.approx(0, abs=0.02 * np.average(v * v, weights=light))


def test_upright_leaves_a_dark_image_dark():
    assert (upright(torch.zeros(2, 1, 8, 8)) == 0).all()


def test_upright_sees_dark_strokes_on_light_as_light_ones_on_dark():
    stroke = torch.zeros(1, 1, 21, 21)
    stroke[..., 4:17, 9:12] = 0.7
    slanted = warped(stroke, slant=0.3, right=2.0, down=-1.0)
    torch.testing.assert_close(upright(0.9 - slanted), 0.9 - upright(slanted), atol=1e-5, rtol=0)


def test_mirrored_images_are_about_the_wanted_share():
    x = torch.rand(400, 1, 4, 6)
    found = Distortion(mirror=0.25)(x, torch.tensor(1.0))
    mirrored = (found == x.flip(3)).all(dim=(1, 2, 3))
    assert torch.equal(found[~mirrored], x[~mirrored])
    assert mirrored.float().mean() == pytest.approx(0.25, abs=0.07)
