"""Rows that users bring to a trained model: what is accepted, how bright it is, and one line for each refusal."""

import numpy as np
import pytest
from PIL import Image

from mmdgm.data.codecs import ImageCodec, TableCodec
from mmdgm.data.input_rows import read_rows
from small_datasets import input_error

PIXELS = np.random.default_rng(0).integers(0, 257, (5, 2, 3)).astype(float)
PIXELS[0, 0, 0], PIXELS[0, 1, 2] = 0, 256
HOLES = np.where(np.arange(30).reshape(5, 2, 3) % 7 == 1, np.nan, PIXELS)
GREY = ImageCodec.learn(PIXELS, scale=256.0)
COLOURS = np.random.default_rng(1).integers(0, 256, (4, 2, 3, 3), np.uint8)
COLOUR = ImageCodec.learn(COLOURS)
TABLE = TableCodec.learn(np.array([[1.0, 0.5], [2.0, 0.25], [4.0, 0.0]]), ["age", "dose"])
MIXED = TableCodec.learn(np.array([[1.0, "a"], [2.0, "b"], [4.0, "a"]], object), ["age", "kind"])


@pytest.fixture(name="write")
def make_write(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "own.npz", **arrays)
        return tmp_path / "own.npz"

    return write


@pytest.fixture(name="sheet")
def make_sheet(tmp_path):
    def sheet(content):
        (tmp_path / "own.csv").write_text(content)
        return tmp_path / "own.csv"

    return sheet


@pytest.fixture(name="save")
def make_save(tmp_path):
    def save(pixels, name="image.png"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(np.asarray(pixels, np.uint8)).save(path)
        return path

    return save


def refusal(codec, *paths, **options):
    return input_error(read_rows, codec, list(paths), **options)


@pytest.mark.parametrize("form", [(5, 2, 3), (5, 1, 2, 3), (5, 6)])
def test_grey_images_may_lie_in_any_form(write, form):
    rows = read_rows(GREY, [write(x=HOLES.reshape(form))])
    np.testing.assert_array_equal(rows.x, HOLES)
    np.testing.assert_array_equal(rows.missing, np.isnan(HOLES))
    assert rows.names == ["0", "1", "2", "3", "4"]
    assert (rows.sheet, rows.skipped, rows.notes) == (None, 0, [])
    seen = GREY.encode(rows.x)[:, 0, :2, :3]
    np.testing.assert_array_equal(seen, (HOLES / 256).astype(np.float32))


@pytest.mark.parametrize("form", [(5, 2, 3, 1), (5, 1, 2, 3), (5, 6)])
def test_a_single_channel_may_lie_behind(write, form):
    codec = ImageCodec.learn(PIXELS[..., None], scale=256.0)
    np.testing.assert_array_equal(read_rows(codec, [write(x=PIXELS.reshape(form))]).x, PIXELS[..., None])


def test_images_as_in_training_stay_as_they_are_whatever_their_sides(write):
    x = np.arange(54, dtype=np.uint8).reshape(2, 3, 3, 3)
    np.testing.assert_array_equal(read_rows(ImageCodec.learn(x), [write(x=x)]).x, x)


@pytest.mark.parametrize("form", ["last", "first", "flat"])
def test_colour_images_may_lie_in_any_form(write, form):
    x = {"last": COLOURS, "first": COLOURS.transpose(0, 3, 1, 2), "flat": COLOURS.reshape(4, 18)}[form]
    rows = read_rows(COLOUR, [write(x=x)])
    np.testing.assert_array_equal(rows.x, COLOURS)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.uint16, np.float16, np.float32, np.float64])
def test_images_may_be_numbers_of_any_type(write, dtype):
    x = np.minimum(PIXELS, 200).astype(dtype)
    np.testing.assert_array_equal(read_rows(GREY, [write(x=x)]).x, x)


@pytest.mark.parametrize("scale", [1.0, 255.0, 65535.0])
def test_a_scale_says_what_is_white(write, scale):
    rows = read_rows(GREY, [write(x=HOLES / 256 * scale)], scale=scale)
    np.testing.assert_allclose(rows.x, HOLES, rtol=1e-6)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("inf"), float("nan")])
def test_a_scale_that_is_none_is_refused(write, scale):
    assert "--scale" in refusal(GREY, write(x=PIXELS), scale=scale)


@pytest.mark.parametrize("x", [PIXELS, PIXELS - 1], ids=["above", "below"])
def test_values_that_the_scale_does_not_take_into_the_unit_interval_are_refused(write, x):
    path = write(x=x)
    message = refusal(GREY, path, scale=255.0)
    assert message.startswith(str(path))
    assert "--scale 255" in message


@pytest.mark.parametrize("shape", [(2, 5), (2, 3, 2), (2, 2, 3, 3), (2, 7)])
def test_images_of_another_shape_are_refused(write, shape):
    path = write(x=np.zeros(shape))
    message = refusal(GREY, path)
    assert message.startswith(str(path))
    assert str(shape) in message
    assert "(rows, 2, 3)" in message


def test_a_table_of_numbers_may_come_as_an_array(write):
    x = np.array([[1.0, np.nan], [3.0, 7.0]])
    rows = read_rows(TABLE, [write(table=x)])
    np.testing.assert_array_equal(rows.x, x)
    np.testing.assert_array_equal(rows.missing, np.isnan(x))


@pytest.mark.parametrize(
    ("codec", "shape", "options", "word"),
    [
        (TABLE, (2, 3), {}, "(rows, 2)"),
        (TABLE, (2, 2, 2), {}, "(rows, 2)"),
        (MIXED, (2, 2), {}, "CSV"),
        (TABLE, (2, 2), {"scale": 2.0}, "--scale 2"),
    ],
)
def test_arrays_that_are_not_the_models_table_are_refused(write, codec, shape, options, word):
    assert word in refusal(codec, write(x=np.zeros(shape)), **options)


def test_columns_of_a_sheet_go_by_their_names(sheet):
    path = sheet("kind,note,label,age\nb,hello,x,3\n,,,\na,,y,1.5\n")
    rows = read_rows(MIXED, [path])
    assert rows.x.tolist()[0] == [3.0, "b"]
    assert rows.x.tolist()[2] == [1.5, "a"]
    np.testing.assert_array_equal(rows.missing, [[False, False], [True, True], [False, False]])
    assert rows.names == ["0", "1", "2"]
    assert rows.sheet.header == ["kind", "note", "label", "age"]
    (note,) = rows.notes  # of the columns that are not used, but for the one that may hold labels
    assert note.endswith(": note")
    assert read_rows(MIXED, [path], target="note").notes[0].endswith(": label")


def test_a_sheet_of_numbers_is_an_array_of_numbers(sheet):
    rows = read_rows(TABLE, [sheet("dose,age\n1,2\n,4\n")])
    assert rows.x.dtype == np.float64
    np.testing.assert_array_equal(rows.x, [[2, 1], [4, np.nan]])
    assert rows.notes == []


@pytest.mark.parametrize(
    ("codec", "content", "options", "word"),
    [
        (MIXED, "age,sort\n1,a\n", {}, "no column kind"),
        (TABLE, "a,b\n1,2\n", {}, "age, dose"),
        (TABLE, "age,dose\n1,high\n", {}, "'high'"),
        (GREY, "age,dose\n1,2\n", {}, "images"),
        (TABLE, "age,dose\n1,2\n", {"scale": 2.0}, "--scale 2"),
    ],
)
def test_sheets_that_are_not_the_models_table_are_refused(sheet, codec, content, options, word):
    path = sheet(content)
    message = refusal(codec, path, **options)
    assert word in message
    assert options or message.startswith(str(path))


@pytest.mark.parametrize(("scale", "white"), [(256.0, 255.0), (255.0, 255.0), (16.0, 16.0), (1.0, 1.0)])
def test_white_of_image_files_is_as_bright_as_in_the_training_data(save, scale, white):
    codec = ImageCodec.learn(np.linspace(0, scale, 12).reshape(1, 3, 4), scale=scale)
    grey = [0, 51, 102, 255]
    rows = read_rows(codec, [save([grey] * 3)])
    assert rows.x.shape == (1, 3, 4)
    np.testing.assert_allclose(rows.x[0, 0], np.array([0, 0.2, 0.4, 1]) * white, rtol=1e-6)
    assert codec.encode(rows.x)[0, 0, 0, 3] == np.float32(white / scale)


def test_bytes_of_image_files_are_those_of_training_to_the_bit(save):
    every = np.arange(256, dtype=np.uint8).reshape(16, 16)
    path = save(every)
    for scale in (256.0, None):
        codec = ImageCodec.learn(every[None], scale=scale)
        rows = read_rows(codec, [path])
        np.testing.assert_array_equal(codec.encode(rows.x), codec.encode(every[None]))


def test_image_files_span_the_training_values_where_these_do_not_begin_at_0(save):
    for low, high in ((-1, 3), (-1000, 3000)):
        codec = ImageCodec.learn(np.linspace(low, high, 12).reshape(1, 3, 4))
        rows = read_rows(codec, [save([[0, 51, 102, 255]] * 3)])
        np.testing.assert_allclose(rows.x[0, 1], low + np.array([0, 0.2, 0.4, 1]) * (high - low), rtol=1e-6)


def test_image_files_of_colour_have_their_channels_behind(save):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 3), np.uint8)
    rows = read_rows(COLOUR, [save(pixels)])
    np.testing.assert_array_equal(rows.x[0], pixels)


def test_image_files_go_by_their_paths_and_those_of_a_folder_by_their_names(save, tmp_path):
    paths = [save(np.full((2, 3), 9 * i), f"folder/{name}.png") for i, name in enumerate("ba")]
    rows = read_rows(GREY, paths)
    assert rows.names == [str(path) for path in paths]
    assert rows.x[:, 0, 0].tolist() == [0, 9]
    (tmp_path / "folder" / "c.png").write_bytes(b"no image")
    rows = read_rows(GREY, [tmp_path / "folder"])
    assert (rows.names, rows.skipped) == (["a.png", "b.png"], 1)
    assert rows.x[:, 0, 0].tolist() == [9, 0]
    (note,) = rows.notes
    assert str(tmp_path / "folder" / "c.png") in note


def test_a_folder_whose_name_ends_like_a_file_is_a_folder(save, tmp_path):
    for name in ("my.npz", "my.csv"):
        save(np.full((2, 3), 9), f"{name}/a.png")
        assert read_rows(GREY, [tmp_path / name]).names == ["a.png"]


def test_no_readable_image_is_refused(tmp_path):
    path = tmp_path / "broken.png"
    path.write_bytes(b"no image")
    assert refusal(GREY, path).startswith(str(path))


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("other", ["own.npz", "own.npy", "own.csv", "folder"])
def test_only_image_files_come_in_numbers(save, tmp_path, other, order):
    image, path = save(np.zeros((2, 3))), tmp_path / other
    path.mkdir() if other == "folder" else path.touch()
    assert refusal(GREY, *[image, path][::order]).startswith(str(path))


def test_what_is_not_there_is_refused(save, tmp_path):
    absent = tmp_path / "absent.png"
    assert refusal(GREY, save(np.zeros((2, 3))), absent).startswith(str(absent))


def test_image_files_are_refused_by_a_table_and_with_a_scale(save):
    path = save(np.zeros((2, 3)))
    assert "table" in refusal(TABLE, path)
    assert "--scale 2" in refusal(GREY, path, scale=2.0)


def test_an_npy_file_is_refused_with_the_way_to_make_an_npz_file(tmp_path):
    np.save(tmp_path / "own.npy", PIXELS)
    assert "numpy.savez" in refusal(GREY, tmp_path / "own.npy")
