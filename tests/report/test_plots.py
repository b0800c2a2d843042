"""Picture grids pixel by pixel, and curves that are drawn."""

import numpy as np
import pytest
from PIL import Image

from mmdgm.report import plots
from mmdgm.report.plots import image_grid, save_curves, save_grid

HOLE = [242, 115, 64]  # .95, .45, .25 of 255
WHITE = [255, 255, 255]


def grey(value):
    return [value] * 3


def test_grid_by_hand(monkeypatch):
    monkeypatch.setattr(plots, "LEAST_SIDE", 1)
    monkeypatch.setattr(plots, "GAP", 1)
    left, right = [[0.0, 0.2], [np.nan, 1.0]], [[0.4, 0.6], [-1.0, 2.0]]
    picture = image_grid(np.array([[[left], [right]]]))
    assert picture.dtype == np.uint8
    assert picture.tolist() == [
        [WHITE] * 7,
        [WHITE, grey(0), grey(51), WHITE, grey(102), grey(153), WHITE],
        [WHITE, HOLE, grey(255), WHITE, grey(0), grey(255), WHITE],
        [WHITE] * 7,
    ]


def test_rows_stand_below_each_other(monkeypatch):
    monkeypatch.setattr(plots, "LEAST_SIDE", 1)
    monkeypatch.setattr(plots, "GAP", 0)
    images = np.arange(6).reshape(3, 2, 1, 1, 1) / 255
    assert image_grid(images)[:, :, 0].tolist() == [[0, 1], [2, 3], [4, 5]]


def test_colours_stay_in_their_channels(monkeypatch):
    monkeypatch.setattr(plots, "LEAST_SIDE", 1)
    monkeypatch.setattr(plots, "GAP", 0)
    images = np.array([[0.2, 0.4, 0.6], [0.2, np.nan, 0.6]]).reshape(1, 2, 3, 1, 1)
    assert image_grid(images).tolist() == [[[51, 102, 153], HOLE]]


@pytest.mark.parametrize(
    ("shape", "height", "width"),
    [
        ((1, 1, 1, 2, 3), 48, 72),  # enlarged 24 times
        ((2, 3, 1, 28, 28), 56, 56),  # twice
        ((1, 2, 3, 100, 48), 100, 48),  # as it is
    ],
)
def test_small_images_are_enlarged_and_set_2_pixels_apart(shape, height, width):
    rows, columns, *_ = shape
    expected = np.full((2 + rows * (height + 2), 2 + columns * (width + 2), 3), 255)
    for row in range(rows):
        for column in range(columns):
            top, left = 2 + row * (height + 2), 2 + column * (width + 2)
            expected[top : top + height, left : left + width] = 0
    np.testing.assert_array_equal(image_grid(np.zeros(shape)), expected)


def test_an_enlarged_pixel_is_a_square_of_its_value():
    images = np.array([[0.0, 0.2, 0.4], [0.6, 0.8, np.nan]]).reshape(1, 1, 1, 2, 3)
    grid = image_grid(images)
    squares = [
        np.unique(grid[2 + 24 * row : 26 + 24 * row, 2 + 24 * column : 26 + 24 * column].reshape(-1, 3), axis=0)
        for row in range(2)
        for column in range(3)
    ]
    assert [square.tolist() for square in squares] == [[grey(v)] for v in (0, 51, 102, 153, 204)] + [[HOLE]]


def test_a_saved_grid_is_the_grid(tmp_path):
    images = np.random.default_rng(0).random((2, 3, 1, 8, 8), np.float32)
    save_grid(tmp_path / "new" / "grid.png", images)
    with Image.open(tmp_path / "new" / "grid.png") as picture:
        assert picture.format == "PNG"
        np.testing.assert_array_equal(np.asarray(picture), image_grid(images))


@pytest.mark.parametrize(("terms", "rows", "size"), [(1, 1, (330, 264)), (4, 3, (1320, 264)), (5, 50, (1320, 528))])
def test_curves_have_a_panel_per_term_that_is_not_left_out(tmp_path, terms, rows, size):
    metrics = [
        {
            "stage": "train",
            "step": 10 * k,
            "epoch": k / 2,
            "learning_rate": 1e-3,
            "left_out": 0.0,
            **{f"term_{t}": 1 + t * k**0.5 for t in range(terms)},  # term_0 is constant
            "images_per_second": 1.0,
            "seconds": 1.0 * k,
        }
        for k in range(1, rows + 1)
    ]
    save_curves(tmp_path / "curves.png", metrics)
    with Image.open(tmp_path / "curves.png") as picture:
        assert (picture.format, picture.size) == ("PNG", size)
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    blue = (abs(pixels - [0x2A, 0x5D, 0x9F]).sum(2) < 30).any(axis=0)
    panels = [blue[start : start + 330].any() for start in range(0, size[0], 330)]
    assert panels == [True] * min(4, terms)
