"""Rows as a person sees them."""

import io

import numpy as np
import pytest
from PIL import Image

from mmdgm.app.label_rows import RowViews
from mmdgm.data.labeled_files import read_data
from small_datasets import input_error


def opened(content):
    return Image.open(io.BytesIO(content))


def test_small_images_keep_their_pixels_and_large_ones_their_proportions(tmp_path):
    rng = np.random.default_rng(0)
    tiny, photo = rng.integers(0, 256, (8, 10), np.uint8), rng.integers(0, 256, (900, 1800, 3), np.uint8)
    Image.fromarray(tiny).save(tmp_path / "a.png")
    Image.fromarray(photo).save(tmp_path / "b.jpg")
    views = RowViews(read_data(tmp_path, any_labels=True))
    content, kind = views.picture(0)
    assert kind == "image/png"
    np.testing.assert_array_equal(np.asarray(opened(content).convert("L")), tiny)
    content, kind = views.picture(1)
    assert (kind, opened(content).size) == ("image/jpeg", (640, 320))
    assert opened(views.picture(1, small=True)[0]).size == (128, 64)
    assert [views.name(row) for row in range(len(views))] == ["a.png", "b.jpg"]
    (tmp_path / "a.png").write_bytes(b"now something else")
    assert "cannot be read as an image" in input_error(views.picture, 0)


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 3)])
def test_images_of_an_array_are_shown_on_their_scale(tmp_path, shape):
    x = np.random.default_rng(0).random((5, *shape)) * 16
    x[0].flat[0], x[0].flat[1] = 0, 16
    np.savez(tmp_path / "x.npz", x=x)
    content, _ = RowViews(read_data(tmp_path / "x.npz", any_labels=True)).picture(3)
    low, high = x.min(), x.max()
    np.testing.assert_allclose(np.asarray(opened(content)), (x[3] - low) / (high - low) * 255, atol=0.51)


def test_unusual_cells_of_a_table_are_marked(tmp_path):
    lines = [f"{i},{'odd' if i == 7 else 'even'},{i % 2},{'' if i == 3 else 5}" for i in range(100)]
    (tmp_path / "t.csv").write_text("size,kind,flag,same\n" + "\n".join(lines) + "\n")
    views = RowViews(read_data(tmp_path / "t.csv", any_labels=True))
    cells = {row: {cell["name"]: cell for cell in views.card(row)["cells"]} for row in (0, 3, 7, 50, 99)}
    assert [cells[row]["size"]["unusual"] for row in (0, 50, 99)] == ["low", "", "high"]
    assert [cells[row]["size"]["place"] for row in (0, 99)] == [0, 1]
    assert [cells[row]["kind"]["unusual"] for row in (7, 50)] == ["rare", ""]
    assert {cells[row]["flag"]["unusual"] for row in cells} == {""}
    assert cells[3]["same"] == {"name": "same", "text": "", "unusual": "", "place": None}
    assert cells[50]["same"]["text"] == "5"
    assert views.name(7) == "row 7"


def test_wide_rows_are_cut():
    class Wide:
        files, columns, x = None, None, np.zeros((3, 100))

    card = RowViews(Wide()).card(0)
    assert (len(card["cells"]), card["more"]) == (60, 40)
