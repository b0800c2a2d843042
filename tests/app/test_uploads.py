"""Uploaded files: small grey images become characters as in MNIST; others are resized; broken ones are a line."""

import io

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from mmdgm.app.uploads import MOST_PIXELS, read_upload
from mmdgm.errors import InputError


def png(array, kind="PNG"):
    file = io.BytesIO()
    Image.fromarray(array).save(file, kind)
    return file.getvalue()


def bar(paper, ink, height=200, width=300):
    """Paper with an upright bar of 80×20 pixels far from the centre."""
    image = np.full((height, width), paper, np.uint8)
    image[110:190, 250:270] = ink
    return image


@pytest.mark.parametrize(("paper", "ink", "inverted"), [(250, 10, True), (5, 240, False), (200, 90, True)])
def test_a_character_is_cut_out_scaled_and_centred_as_in_mnist(paper, ink, inverted):
    pixels, done = read_upload(png(bar(paper, ink)), (1, 28, 28))
    assert ("inverted" in done) == inverted
    assert pixels.shape == (28, 28, 1)
    rows, columns = (np.flatnonzero(pixels[:, :, 0].max(axis=axis) > 60) for axis in (1, 0))
    assert (rows[0], rows[-1]) == (4, 23)  # 20 pixels high
    assert len(columns) == 5
    mass = pixels[:, :, 0] / pixels.sum()
    centre = [(mass.sum(axis=1 - axis) * (np.arange(28) + 0.5)).sum() for axis in (0, 1)]
    np.testing.assert_allclose(centre, 14, atol=0.6)
    assert pixels.max() > 250
    assert pixels[0].max() == 0


def test_a_digit_of_the_data_stays_itself():
    digit = np.round(load_digits().images[0] * 255 / 16).astype(np.uint8)
    framed = np.zeros((16, 16), np.uint8)
    framed[4:12, 4:12] = digit
    pixels, _ = read_upload(png(framed.repeat(10, axis=0).repeat(10, axis=1)), (1, 8, 8))
    assert np.corrcoef(pixels.ravel(), digit.ravel())[0, 1] > 0.9


def test_other_images_are_resized_in_their_colours():
    image = np.zeros((50, 100, 3), np.uint8)
    image[:, 50:] = (200, 100, 0)
    pixels, done = read_upload(png(image), (3, 10, 20))
    assert pixels.shape == (10, 20, 3)
    assert pixels[5, 15].tolist() == [200, 100, 0]
    assert pixels[5, 5].tolist() == [0, 0, 0]
    assert done == "The file of 100×50 pixels was resized to 10×20."
    grey, done = read_upload(png(image), (1, 64, 64))
    assert grey.shape == (64, 64, 1)
    assert done.endswith("resized to 64×64 in grey.")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read"),
        (b"no image at all", "cannot be read"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n", "cannot be read"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "cannot be read"),
        (png(bar(250, 10))[:80], "cannot be read"),
        (png(np.full((30, 30), 7, np.uint8)), "one colour"),
        (png(np.full((30, 30), 255, np.uint8)), "one colour"),
        (png(np.zeros((1, MOST_PIXELS + 1), np.uint8)), "million"),
    ],
    ids=["empty", "text", "eps", "svg", "cut", "dark", "white", "huge"],
)
def test_what_cannot_be_read_is_one_line(content, said):
    with pytest.raises(InputError, match=said) as caught:
        read_upload(content, (1, 28, 28))
    assert len(str(caught.value).splitlines()) == 1
