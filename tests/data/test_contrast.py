"""Local contrast normalisation against its definition, pixel by pixel."""

import logging
import math

import numpy as np
import pytest

from mmdgm.data import contrast
from mmdgm.data.contrast import cached_contrast, local_contrast


def literal(image):
    """The definition, with loops; `image` is (channels, height, width) of float64."""
    image = image - image.mean()
    image = image / math.sqrt((image**2).sum())
    window = {(i, j): math.exp(-(i * i + j * j) / 8) for i in range(-3, 4) for j in range(-3, 4)}
    total = sum(window.values())
    channels, height, width = image.shape
    result = np.zeros_like(image)
    for c in range(channels):
        mean, root = np.zeros((height, width)), np.zeros((height, width))
        for y in range(height):
            for x in range(width):
                for (i, j), weight in window.items():
                    if 0 <= y + i < height and 0 <= x + j < width:
                        value = image[c, y + i, x + j]
                        mean[y, x] += weight / total * value
                        root[y, x] += weight / total * value**2
        root = np.sqrt(root)
        result[c] = (image[c] - mean) / np.maximum(np.maximum(root, root.mean()), 1e-4)
    return result


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 9, 12)])
def test_normalised_images_are_those_of_the_definition(shape):
    images = np.random.default_rng(0).integers(0, 256, (2, *shape), np.uint8)
    images[1, :, 2:7] = 200  # a flat patch
    expected = np.stack([literal(image.astype(float)) for image in images])
    np.testing.assert_allclose(local_contrast(images), expected, atol=2e-6)


def test_brightness_and_contrast_of_a_whole_image_make_no_difference():
    images = np.random.default_rng(0).random((3, 3, 16, 16))
    np.testing.assert_allclose(local_contrast(40 * images + 17), local_contrast(images), atol=1e-4)


@pytest.mark.parametrize("value", [77, 0.1, 128 / 255, 0, 1e-3])
def test_a_constant_image_is_zero(value):
    assert (local_contrast(np.full((1, 3, 32, 32), value)) == 0).all()


def test_batches_do_not_matter(monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (7, 3, 8, 8), np.uint8)
    whole = local_contrast(images)
    monkeypatch.setattr("mmdgm.data.contrast.BATCH", 3)
    np.testing.assert_allclose(local_contrast(images), whole, atol=1e-6)


@pytest.fixture(name="images")
def make_images():
    return np.random.default_rng(0).integers(0, 256, (5, 3, 16, 16), np.uint8)


def test_normalised_images_are_kept_and_read_back(images, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    first = cached_contrast(images, cache)
    np.testing.assert_array_equal(first, local_contrast(images))
    assert (first.dtype, first.shape) == (np.float32, images.shape)
    cached_contrast(images[:3], cache)
    assert len(list(cache.iterdir())) == 2
    monkeypatch.setattr(contrast, "local_contrast", None)
    np.testing.assert_array_equal(cached_contrast(images, cache), first)
    np.testing.assert_array_equal(cached_contrast(images[:3], cache), first[:3])


@pytest.mark.parametrize("change", ["pixel", "type", "shape", "window", "damage"])
def test_what_has_changed_is_made_anew(images, tmp_path, monkeypatch, change):
    cached_contrast(images, tmp_path)
    if change == "pixel":
        images[0, 0, 0, 0] += 1
    elif change == "type":
        images = images.view(np.int8)
    elif change == "shape":
        images = images.reshape(5, 3, 8, 32)
    elif change == "window":
        monkeypatch.setattr(contrast, "SIGMA", 1.0)
    else:
        for path in tmp_path.iterdir():
            path.write_bytes(path.read_bytes()[:-50])
    np.testing.assert_array_equal(cached_contrast(images, tmp_path), local_contrast(images))


def test_where_nothing_can_be_written_images_are_normalised_all_the_same(images, tmp_path, caplog):
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING, logger="mmdgm"):
        found = cached_contrast(images, tmp_path / "file")
    np.testing.assert_array_equal(found, local_contrast(images))
    assert len(caplog.records) == 1
