"""Local contrast normalisation against its definition, pixel by pixel."""

import math

import numpy as np
import pytest

from mmdgm.data.contrast import local_contrast


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
