"""Users' arrays as networks see them, and back on the users' scale."""

import json

import numpy as np
import pytest

from mmdgm.data.codecs import ImageCodec, TableCodec, codec_from_json
from mmdgm.data.contrast import local_contrast
from mmdgm.errors import InputError

NAN = np.nan


@pytest.fixture(name="bytes_")
def make_bytes():
    """Images of bytes from black to white, `(6, 8, 12)`."""
    x = np.random.default_rng(0).integers(0, 256, (6, 8, 12), np.uint8)
    x[0, 0, 0], x[0, 0, 1] = 0, 255
    return x


def numbers(codec):
    return codec.low, codec.high, codec.darkest, codec.brightest


@pytest.mark.parametrize(
    ("x", "scale", "expected"),
    [
        (np.array([3, 200], np.uint8), None, (0, 255, 3, 200)),
        (np.array([3, 200], np.uint8), 256.0, (0, 256, 3, 200)),
        (np.array([3.0, 200.0]), 16.0, (0, 16, 3, 200)),
        (np.array([0.25, 0.5]), None, (0, 1, 0.25, 0.5)),
        (np.array([0.25, 2.0]), None, (0.25, 2, 0.25, 2)),
        (np.array([-1.0, 0.5]), None, (-1, 0.5, -1, 0.5)),
        (np.array([7.0, NAN]), None, (7, 8, 7, 7)),  # a constant has a span of 1
        (np.array([-2.0, NAN]), None, (-2, -1, -2, -2)),
    ],
)
def test_the_scale_is_known_or_that_of_the_values(x, scale, expected):
    images = np.broadcast_to(x[:, None, None], (2, 8, 8))
    assert numbers(ImageCodec.learn(images, scale=scale)) == expected


def test_contrast_is_what_almost_every_image_spans():
    spans = np.arange(21.0)
    images = np.zeros((21, 8, 8))
    images[:, 2, 2] = spans[::-1]
    codec = ImageCodec.learn(images)
    assert codec.contrast == pytest.approx(1.0)  # a twentieth of the 21 is below
    assert codec.brightest == 20


def test_images_are_divided_by_their_scale_channels_first():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (5, 8, 12, 3), np.uint8)
    codec = ImageCodec.learn(x, scale=256.0)
    assert (codec.size, codec.channels, codec.shape) == ((8, 12, 3), 3, (3, 8, 12))
    seen = codec.encode(x)
    assert seen.dtype == np.float32
    assert seen.flags.c_contiguous
    np.testing.assert_array_equal(seen, x.transpose(0, 3, 1, 2).astype(np.float32) / 256)
    np.testing.assert_array_equal(codec.unit(x), seen)
    back = codec.decode(seen)
    assert back.dtype == np.float64
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("size", [(5, 9), (8, 8), (28, 30), (3, 3, 2)])
def test_sides_are_padded_by_missing_pixels(size):
    height, width = max(8, -(-size[0] // 4) * 4), max(8, -(-size[1] // 4) * 4)
    x = np.random.default_rng(0).random((4, *size))
    codec = ImageCodec.learn(x)
    seen = codec.encode(x)
    assert seen.shape == (4, *codec.shape)
    assert codec.shape[1:] == (height, width)
    inside = np.zeros((height, width), bool)
    inside[: size[0], : size[1]] = True
    np.testing.assert_array_equal(np.isnan(seen), np.broadcast_to(~inside, seen.shape))
    np.testing.assert_allclose(codec.decode(seen), x, atol=1e-7)


def test_beyond_the_range_of_training_bernoulli_pixels_are_cut_and_gaussian_ones_kept():
    x = np.linspace(-1, 3, 2 * 64).reshape(2, 8, 8)
    new = np.full((1, 8, 8), 5.0)
    new[0, 0, :3] = -3, NAN, 1
    cut, kept = (ImageCodec.learn(x, gaussian=gaussian).encode(new)[0, 0, 0, :4] for gaussian in (False, True))
    np.testing.assert_allclose(cut, [0, NAN, 0.5, 1])
    np.testing.assert_allclose(kept, [-0.5, NAN, 0.5, 1.5])


def test_normalised_images_are_those_of_local_contrast(bytes_):
    codec = ImageCodec.learn(bytes_, gaussian=True, normalised=True, scale=256.0)
    np.testing.assert_array_equal(codec.encode(bytes_), local_contrast(codec.unit(bytes_)))
    np.testing.assert_allclose(codec.encode(bytes_), local_contrast(bytes_[:, None]), atol=1e-5)


def test_normalised_images_must_be_whole(bytes_):
    codec = ImageCodec.learn(bytes_, normalised=True)
    x = bytes_.astype(float)
    x[0, 0, 0] = NAN
    with pytest.raises(InputError, match="whole images"):
        codec.encode(x)


def test_normalised_images_are_shown_between_black_and_white(bytes_):
    codec = ImageCodec.learn(bytes_, normalised=True, scale=100.0)
    seen = np.zeros((1, 1, 8, 12), np.float32)
    seen[0, 0, 0, :5] = -9, 0, 0.3, 9, NAN
    np.testing.assert_allclose(codec.decode(seen)[0, 0, :5], [0, 50, 60, 100, NAN], rtol=1e-6)


@pytest.mark.parametrize(("train_scale", "scale"), [(256.0, 1.0), (16.0, 255.0), (1.0, 4095.0)])
def test_rescaled_values_are_seen_as_their_share_of_the_scale(train_scale, scale):
    share = np.random.default_rng(0).random((3, 8, 8))
    share[0, 0, 0], share[0, 0, 1] = 0, 1
    codec = ImageCodec.learn(share * train_scale, scale=train_scale)
    rescaled = codec.rescaled(share * scale, scale)
    np.testing.assert_allclose(rescaled, share * train_scale)
    np.testing.assert_allclose(codec.encode(rescaled)[:, 0], share, atol=1e-6)


def test_rescaled_values_begin_where_training_values_do():
    codec = ImageCodec.learn(np.linspace(-1, 3, 64).reshape(1, 8, 8))
    np.testing.assert_allclose(codec.rescaled(np.array([0, 50, 100, NAN]), 100.0), [-1, 1, 3, NAN])


@pytest.mark.parametrize(
    ("low", "high", "white"), [(0.0, 255.0, 255), (0.0, 256.0, 255), (0.0, 16.0, 16), (0.0, 1.0, 1), (-1.0, 1.0, 1)]
)
def test_pictures_become_images_on_the_scale_of_training(low, high, white):
    codec = ImageCodec(size=(2, 3, 3), low=low, high=high)
    unit = np.random.default_rng(0).random((4, 3, 2, 3), dtype=np.float32)
    images = codec.from_unit(unit)
    assert images.shape == (4, 2, 3, 3)
    np.testing.assert_allclose(codec.unit(images), unit * (white - low) / (high - low), rtol=1e-5)
    np.testing.assert_allclose(codec.from_unit(np.ones_like(unit)), white)


def test_another_size_is_refused(bytes_):
    codec = ImageCodec.learn(bytes_)
    with pytest.raises(InputError, match=r"\(6, 12, 8\).*\(rows, 8, 12\)"):
        codec.encode(bytes_.transpose(0, 2, 1))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda x: x, False),
        (lambda x: x / 255, True),  # all within a sliver
        (lambda x: x[:4] / 255, False),  # four dark images may be dark
        (lambda x: x * 257, True),
        (lambda x: x * 1.9, False),
        (lambda x: x - 200.0, True),
        (lambda x: np.where(np.arange(6)[:, None, None] < 2, x * 257.0, x), False),  # two of six
        (lambda x: np.full(x.shape, NAN), False),
    ],
)
def test_images_on_another_scale_are_told(bytes_, change, told):
    line = ImageCodec.learn(bytes_).other_scale(change(bytes_.astype(float)))
    assert (line is not None) == told
    if line is not None:
        assert "\n" not in line
        assert "0 and 255" in line


def test_what_is_known_of_images_is_the_same_from_json(bytes_):
    for codec in (ImageCodec.learn(bytes_), ImageCodec.learn(bytes_ / 7 - 3, gaussian=True, normalised=True)):
        assert codec_from_json(json.loads(json.dumps(codec.to_json()))) == codec


TABLE = np.array([[1.5, "a", 0.0], [2.5, None, 1.0], [None, "b", 1.0], [4.0, "a", None]], object)


def test_a_table_is_seen_as_channels_and_comes_back():
    codec = TableCodec.learn(TABLE, ["size", "kind", "flag"])
    assert (codec.names, codec.numeric, codec.shape) == (["size", "kind", "flag"], [True, False, True], (4, 1, 1))
    seen = codec.encode(TABLE)[:, :, 0, 0]
    mean, std = np.mean([1.5, 2.5, 4]), np.std([1.5, 2.5, 4])
    expected = [
        [(1.5 - mean) / std, 1, 0, 0],
        [(2.5 - mean) / std, NAN, NAN, 1],
        [NAN, 0, 1, 1],
        [(4 - mean) / std, 1, 0, NAN],
    ]
    np.testing.assert_allclose(seen, expected, rtol=1e-6)
    back = codec.decode(np.nan_to_num(codec.encode(TABLE)))
    assert back.dtype == object
    assert back[[0, 1, 3], 0].tolist() == pytest.approx([1.5, 2.5, 4])
    assert back[[0, 2, 3], 1].tolist() == ["a", "b", "a"]
    assert back[:3, 2].tolist() == [0, 1, 1]


def test_a_table_of_numbers_comes_back_as_numbers():
    x = np.random.default_rng(0).standard_normal((20, 3))
    codec = TableCodec.learn(x, ["a", "b", "c"])
    back = codec.decode(codec.encode(x))
    assert back.dtype == np.float64
    np.testing.assert_allclose(back, x, atol=1e-6)


def test_a_table_is_the_same_from_json_and_by_other_names():
    codec = TableCodec.learn(TABLE, ["size", "kind", "flag"])
    assert codec_from_json(json.loads(json.dumps(codec.to_json()))) == codec
    named = codec.named(["x", "y", "z"])
    assert named.names == ["x", "y", "z"]
    np.testing.assert_array_equal(named.encode(TABLE), codec.encode(TABLE))
