"""Users' image files: every mode, size and orientation comes out as the image that a viewer shows, over black."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from mmdgm.data.image_files import ENDINGS, FORMATS, files_in, read_class_folders, read_images
from mmdgm.errors import InputError

GREY, COLOUR = (1, 3, 4), (3, 3, 4)
PIXELS = np.arange(12, dtype=np.uint8).reshape(3, 4) * 23  # 0..253
ORIENTATION = 0x0112


@pytest.fixture(name="save")
def make_save(tmp_path):
    def save(image, name="image.png", **options):
        image.save(tmp_path / name, **options)
        return tmp_path / name

    return save


def read(path, shape=GREY):
    """One file's pixels 0..255."""
    images = read_images([path], shape)
    assert images.broken == []
    assert images.unit.shape == (1, *shape)
    assert images.unit.dtype == np.float32
    return images.unit[0] * np.float32(255)


def colours():
    """Four rows of three colours, `(3, 4, 3)`."""
    return np.random.default_rng(0).integers(0, 256, (3, 4, 3), np.uint8)


@pytest.mark.parametrize("ending", [".png", ".bmp", ".gif", ".tif", ".pgm", ".jp2"])
def test_pixels_of_lossless_grey_files_come_back_exactly(save, ending):
    path = save(Image.fromarray(PIXELS), f"image{ending}", **({"irreversible": False} if ending == ".jp2" else {}))
    np.testing.assert_array_equal(read(path)[0], PIXELS)
    np.testing.assert_array_equal(read(path, COLOUR), [PIXELS] * 3)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_colours_come_back_exactly_and_grey_is_their_luma(save, mode):
    path = save(Image.fromarray(colours()).convert(mode))
    np.testing.assert_array_equal(read(path, COLOUR), colours().transpose(2, 0, 1))
    np.testing.assert_allclose(read(path)[0], colours() @ [0.299, 0.587, 0.114], atol=0.51)


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("CMYK", "image.tif"),
        ("CMYK", "image.jpg"),
        ("YCbCr", "image.jpg"),
        ("RGB", "image.webp"),
        ("RGB", "image.mpo"),
        ("L", "image.JPEG"),
    ],
)
def test_other_ways_to_write_a_colour_are_read_closely(save, mode, name):
    plain = np.full((3, 4, 3), [200, 200, 200] if mode == "L" else [200, 100, 40], np.uint8)
    path = save(Image.fromarray(plain).convert(mode), name, quality=95)
    np.testing.assert_allclose(read(path, COLOUR), plain.transpose(2, 0, 1), atol=4)


def test_black_and_white_are_0_and_255(save):
    path = save(Image.fromarray(PIXELS > 100))
    np.testing.assert_array_equal(read(path)[0], (PIXELS > 100) * 255)


def test_palettes_are_looked_up(save):
    image = Image.fromarray(np.array([[0, 1, 2, 1]] * 3, np.uint8))
    image.putpalette([10, 20, 30, 40, 50, 60, 250, 150, 50])
    assert image.mode == "P"
    assert read(save(image), COLOUR)[:, 1].T.tolist() == [[10, 20, 30], [40, 50, 60], [250, 150, 50], [40, 50, 60]]


@pytest.mark.parametrize("shape", [GREY, COLOUR])
def test_transparent_becomes_black(save, shape):
    alpha = np.array([[0, 255, 255, 51]] * 3, np.uint8)
    seen = np.array([[0, 200, 200, 40]] * 3)
    light = Image.fromarray(np.full((3, 4), 200, np.uint8))
    for mode in ("LA", "RGBA"):
        image = light.convert(mode)
        image.putalpha(Image.fromarray(alpha))
        np.testing.assert_allclose(read(save(image), shape), [seen] * shape[0], atol=1)


@pytest.mark.parametrize(("mode", "transparent"), [("L", 200), ("P", 1), ("RGB", (200, 200, 200))])
@pytest.mark.parametrize("shape", [GREY, COLOUR])
def test_a_colour_marked_as_transparent_becomes_black(save, mode, transparent, shape):
    values = np.array([[200, 100, 90, 200]] * 3, np.uint8)
    image = Image.fromarray(values).convert(mode)
    if mode == "P":
        image = Image.fromarray((values == 200).astype(np.uint8) + 2 * (values == 90).astype(np.uint8))
        image.putpalette([100] * 3 + [200] * 3 + [90] * 3)
    path = save(image, transparency=transparent)
    np.testing.assert_array_equal(read(path, shape), [np.where(values == 200, 0, values)] * shape[0])


@pytest.mark.parametrize("shape", [GREY, COLOUR])
@pytest.mark.parametrize(("dtype", "name"), [("<u2", "image.png"), ("<u2", "image.tif"), (">u2", "image.tif")])
def test_16_bits_of_grey_are_scaled_not_cut(save, dtype, name, shape):
    sixteen = (np.arange(12).reshape(3, 4) * 5957).astype(dtype)  # 0..65527
    path = save(Image.fromarray(sixteen), name)
    np.testing.assert_allclose(read(path, shape), [sixteen / 257] * shape[0], rtol=1e-6)


def test_16_bits_in_a_pgm_file_of_its_own_white(tmp_path):
    values = (np.arange(12) * 93).astype(">u2")
    (tmp_path / "image.pgm").write_bytes(b"P5 4 3 1023\n" + values.tobytes())
    np.testing.assert_allclose(read(tmp_path / "image.pgm")[0].ravel(), values * (255 / 1023), atol=0.01)


def test_16_bits_of_colour_are_read_as_8(tmp_path):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    lines = [b"\0" + (line.astype(">u2") * 257).tobytes() for line in colours()]
    (tmp_path / "image.png").write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 3, 16, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(b"".join(lines)))
        + chunk(b"IEND", b"")
    )
    np.testing.assert_array_equal(read(tmp_path / "image.png", COLOUR), colours().transpose(2, 0, 1))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_32_bits_are_refused_with_the_reason(save, dtype):
    path = save(Image.fromarray(np.ones((3, 4), dtype)), "image.tif")
    images = read_images([path], GREY)
    (line,) = images.broken
    assert line.startswith(f"{path}: 32 bits")
    assert not images.paths


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize(
    ("orientation", "stored"),
    [
        (1, lambda x: x),
        (2, np.fliplr),
        (3, lambda x: np.rot90(x, 2)),
        (4, np.flipud),
        (5, np.transpose),
        (6, lambda x: np.rot90(x, 1)),
        (7, lambda x: np.rot90(x, 2).T),
        (8, lambda x: np.rot90(x, -1)),
    ],
)
def test_exif_orientation_puts_an_image_upright(save, dtype, orientation, stored):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    values = PIXELS.astype(dtype) * (257 if dtype == np.uint16 else 1)
    path = save(Image.fromarray(np.ascontiguousarray(stored(values))), exif=exif)
    np.testing.assert_allclose(read(path)[0], PIXELS, rtol=1e-6)


def test_of_several_frames_the_first_counts(save):
    frames = [Image.fromarray(np.full((3, 4), value, np.uint8)) for value in (80, 160)]
    for name in ("image.gif", "image.tif"):
        path = save(frames[0], name, save_all=True, append_images=frames[1:])
        assert (read(path) == 80).all()


@pytest.mark.parametrize("size", [(1, 1), (3, 200), (101, 7), (640, 480)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_any_size_keeps_a_plain_grey(save, size, dtype):
    path = save(Image.fromarray(np.full(size, 77 * (257 if dtype == np.uint16 else 1), dtype)))
    np.testing.assert_allclose(read(path), 77, rtol=1e-5)


def test_an_enlarged_image_is_shrunk_to_itself(save):
    """Lanczos reaches beyond a pixel, so blocks of 16 × 16 leak a little; a gradient shows the axes in place."""
    gradient = np.linspace(20, 230, 12).reshape(3, 4).astype(np.uint8)
    path = save(Image.fromarray(gradient.repeat(16, 0).repeat(16, 1)))
    np.testing.assert_allclose(read(path)[0], gradient, atol=12)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_ringing_of_the_filter_stays_within_black_and_white(save, dtype):
    board = np.indices((40, 56)).sum(0) // 9 % 2 * np.iinfo(dtype).max
    values = read(save(Image.fromarray(board.astype(dtype))))
    assert values.min() >= 0
    assert values.max() <= 255


def test_black_is_0_and_white_is_1(save):
    every = np.arange(256, dtype=np.uint8).reshape(16, 16)
    unit = read_images([save(Image.fromarray(every))], (1, 16, 16)).unit
    np.testing.assert_array_equal(unit[0, 0], (every / 255).astype(np.float32))


def test_broken_files_are_named_in_a_line_each_and_the_others_read(tmp_path, save):
    good = save(Image.fromarray(PIXELS), "good.png")
    content = good.read_bytes()
    noise = np.random.default_rng(0).integers(0, 256, (64, 64), np.uint8)
    jpeg = save(Image.fromarray(noise), "cut.jpg").read_bytes()
    damaged = {
        "empty.png": b"",
        "text.png": b"no image\nat all",
        "cut.png": content[: len(content) // 2],
        "flipped.png": content.replace(b"IDAT", b"IDAX"),
        "cut.jpg": jpeg[: len(jpeg) // 2],
        "postscript.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",  # Pillow would start Ghostscript
    }
    for name, data in damaged.items():
        (tmp_path / name).write_bytes(data)
    paths = [tmp_path / name for name in damaged]
    images = read_images([*paths[:3], good, *paths[3:], tmp_path], GREY)
    assert images.paths == [good]
    np.testing.assert_array_equal(images.unit[0, 0] * np.float32(255), PIXELS)
    assert len(images.broken) == 7
    for path, line in zip([*paths, tmp_path], images.broken, strict=True):
        assert line.startswith(f"{path}: ")
        assert "\n" not in line


def test_images_that_would_fill_the_memory_are_refused_and_large_ones_read_in_silence(save, monkeypatch):
    path = save(Image.fromarray(PIXELS))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 8)  # 12 are warned of, more than 16 refused
    np.testing.assert_array_equal(read(path)[0], PIXELS)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 5)
    assert "DecompressionBombError" in read_images([path], GREY).broken[0]


def test_no_readable_file_leaves_no_rows(tmp_path):
    images = read_images([tmp_path / "absent.png"], GREY)
    assert images.unit.shape == (0, *GREY)
    assert len(images.broken) == 1


def test_a_model_of_two_channels_takes_no_image_files(save):
    with pytest.raises(InputError, match=r"\b2 channels.*npz"):
        read_images([save(Image.fromarray(PIXELS))], (2, 3, 4))


def test_a_folder_gives_its_image_files_sorted(tmp_path):
    for name in ("b.png", "a.JPG", "c.tiff", ".hidden.png", "notes.txt", "x.npz"):
        (tmp_path / name).touch()
    (tmp_path / "sub.png").mkdir()
    (tmp_path / "sub.png" / "d.png").touch()
    assert [path.name for path in files_in(tmp_path)] == ["a.JPG", "b.png", "c.tiff"]


def test_a_folder_without_image_files_is_refused(tmp_path):
    with pytest.raises(InputError, match="png, jpg, "):
        files_in(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        files_in(tmp_path / "absent")


def test_endings_are_those_of_the_formats():
    assert {Image.registered_extensions()[ending] for ending in ENDINGS} == set(FORMATS)


def class_folder(tmp_path, **classes):
    """A folder with a subfolder for each class; images of one value, or of three for a colour."""
    for name, values in classes.items():
        (tmp_path / name).mkdir()
        for number, value in enumerate(values):
            image = np.full((3, 4, 3) if isinstance(value, tuple) else (3, 4), value, np.uint8)
            Image.fromarray(image).save(tmp_path / name / f"{number}.png")
    return tmp_path


def test_subfolders_are_classes(tmp_path):
    folder = class_folder(tmp_path, dog=[10, 20], cat=[30], unlabeled=[40, 250], unsure=[50])
    images = read_class_folders(folder, (3, 4))
    assert images.labels == ["cat", "dog", "dog", "", "", "unsure"]
    assert images.pixels.shape == (6, 3, 4)
    assert images.pixels.dtype == np.uint8
    for pixels, value in zip(images.pixels, [30, 10, 20, 40, 250, 50], strict=True):
        assert (pixels == value).all()
    assert images.broken == []
    assert read_class_folders(folder, (3, 4), unlabeled="unsure").labels[3:] == ["unlabeled", "unlabeled", ""]


def test_one_image_of_colour_makes_all_so(tmp_path):
    images = read_class_folders(class_folder(tmp_path, a=[(1, 2, 3)], b=[77]), (3, 4))
    assert images.pixels.shape == (2, 3, 4, 3)
    assert images.pixels[0, 1, 2].tolist() == [1, 2, 3]
    assert (images.pixels[1] == 77).all()


def test_every_byte_survives_the_way_through_the_unit_interval(tmp_path):
    (tmp_path / "a").mkdir()
    every = np.arange(256, dtype=np.uint8).reshape(16, 16)
    Image.fromarray(every).save(tmp_path / "a" / "x.png")
    np.testing.assert_array_equal(read_class_folders(tmp_path, (16, 16)).pixels[0], every)


def test_broken_files_are_left_out_of_classes_but_no_class_may_be_empty(tmp_path):
    folder = class_folder(tmp_path, a=[1, 2], b=[3])
    (folder / "a" / "0.png").write_bytes(b"no image")
    images = read_class_folders(folder, (3, 4))
    assert images.labels == ["a", "b"]
    assert len(images.broken) == 1
    assert str(folder / "a" / "0.png") in images.broken[0]
    (folder / "b" / "0.png").write_bytes(b"no image")
    with pytest.raises(InputError, match=str(folder / "b")):
        read_class_folders(folder, (3, 4))


def test_a_folder_without_classes_is_refused(tmp_path):
    (tmp_path / ".hidden").mkdir()
    with pytest.raises(InputError, match="subfolders"):
        read_class_folders(tmp_path, (3, 4))
    with pytest.raises(InputError, match="absent"):
        read_class_folders(tmp_path / "absent", (3, 4))
