"""Pictures of a fitted estimator: grids of samples, images on their scale, holes and what fills them."""

import copy

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

import mmdgm
from conftest import image_size
from mmdgm import MMVAClassifier
from mmdgm.data.codecs import ImageCodec
from mmdgm.report import plots
from mmdgm.report.figures import as_pictures, before_after, sample_grid, save_figures


@pytest.fixture(scope="module")
def unconditional():
    digits = load_digits()
    model = MMVAClassifier(max_epochs=1, random_state=0, device="cpu", z=4)
    return model.fit(digits.images[:100], digits.target[:100])


def test_conditional_samples_have_a_row_per_class_and_a_code_per_column(trained):
    model = mmdgm.load(trained, device="cpu")
    grid = sample_grid(model, columns=4, rows=99, seed=1)
    assert grid["x"].shape == (10, 4, 8, 8)
    assert (grid["z"] == grid["z"][:1]).all()
    assert not np.allclose(grid["z"][0, 0], grid["z"][0, 1])
    assert (grid["y"] == np.arange(10)[:, None]).all()
    again = sample_grid(model, columns=4, rows=99, seed=1)
    assert np.array_equal(grid["x"], again["x"])
    assert not np.array_equal(grid["x"], sample_grid(model, columns=4, rows=99, seed=2)["x"])
    np.testing.assert_array_equal(grid["x"][3], model.sample(4, y=3, random_state=1))


def test_rows_of_samples_are_of_their_class_where_classes_are_not_sorted(on_images):
    named = copy.copy(on_images)
    named.classes_ = np.array(list("jabihgfedc"))
    grid, numbered = (sample_grid(model, columns=2, rows=1) for model in (named, on_images))
    np.testing.assert_array_equal(grid["x"], numbered["x"])
    assert grid["y"][:, 0].tolist() == list("jabihgfedc")


def test_unconditional_samples_have_a_code_each(unconditional):
    grid = sample_grid(unconditional, columns=3, rows=2, seed=5)
    assert grid.keys() == {"x", "z"}
    assert (grid["x"].shape, grid["z"].shape) == ((2, 3, 8, 8), (2, 3, 4))
    assert len(np.unique(grid["z"].reshape(6, 4), axis=0)) == 6
    np.testing.assert_array_equal(grid["x"].reshape(6, 8, 8), unconditional.sample(6, random_state=5))


@pytest.mark.parametrize(("channels", "shown"), [(1, 1), (2, 1), (3, 3), (5, 1)])
def test_images_become_pictures_between_0_and_1(channels, shown):
    X = np.random.default_rng(0).uniform(-2, 6, (2, 3, 4, 5, channels))
    X[0, 0, 0, 0] = np.nan
    codec = ImageCodec(size=(4, 5, channels), low=-2.0, high=6.0)
    pictures = as_pictures(codec, X)
    assert pictures.shape == (2, 3, shown, 4, 5)
    assert np.isnan(pictures[0, 0, :, 0, 0]).all()
    expected = np.moveaxis((X + 2) / 8, -1, 2)
    expected = expected if shown == channels else expected.mean(axis=2, keepdims=True)
    np.testing.assert_allclose(pictures, expected, atol=1e-6)


@pytest.mark.parametrize(("n", "lines", "columns"), [(1, 1, 1), (16, 1, 16), (17, 2, 16), (100, 4, 16)])
def test_images_stand_above_what_became_of_them(n, lines, columns):
    before = np.arange(1, n + 1, dtype=float).reshape(n, 1, 1, 1)
    grid = before_after(before, -before)[..., 0, 0, 0]
    assert grid.shape == (2 * lines, columns)
    shown = min(n, 64)
    assert grid[::2].ravel()[:shown].tolist() == before.ravel()[:shown].tolist()
    assert grid[1::2].ravel()[:shown].tolist() == (-before).ravel()[:shown].tolist()
    assert not grid[::2].ravel()[shown:].any()


def test_the_lines_of_imputations_are_images_holes_and_fillings(unconditional, tmp_path, monkeypatch):
    saved = {}
    monkeypatch.setattr(plots, "save_grid", lambda path, images: saved.update({path.name: images}))
    X = load_digits().images[100:116]
    save_figures(tmp_path, unconditional, X)
    assert saved["samples.png"].shape == (10, 10, 1, 8, 8)
    images, rect, filled_rect, drop, filled_drop = saved["imputations.png"][:, :, 0]
    np.testing.assert_allclose(images, X / 16, atol=1e-6)
    hole = np.zeros((8, 8), bool)
    hole[2:5, 2:5] = True  # three sevenths of eight pixels, in the middle
    assert (np.isnan(rect) == hole).all()
    assert np.isnan(drop).mean() == pytest.approx(0.6, abs=0.05)
    for holes, filled in ((rect, filled_rect), (drop, filled_drop)):
        assert np.isfinite(filled).all()
        np.testing.assert_allclose(filled[~np.isnan(holes)], images[~np.isnan(holes)], atol=1e-6)


def test_what_there_is_to_show_is_shown(fitted, unconditional, tmp_path):
    def files(name):
        return sorted(path.name for path in (tmp_path / name).iterdir())

    save_figures(tmp_path / "table", fitted)
    assert files("table") == ["curves.png"]
    save_figures(tmp_path / "images", unconditional, load_digits().images[:16])
    assert files("images") == ["curves.png", "imputations.png", "samples.png"]
    assert image_size(tmp_path / "images" / "samples.png") == (10 * 50 + 2, 10 * 50 + 2)
    with Image.open(tmp_path / "images" / "imputations.png") as picture:
        assert picture.size == (16 * 50 + 2, 5 * 50 + 2)
    save_figures(tmp_path / "alone", unconditional)
    assert files("alone") == ["curves.png", "samples.png"]
