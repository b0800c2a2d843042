"""What users bring to train on: which rows are labeled, by which classes, and what is told of doubtful marks."""

import numpy as np
import pytest
from PIL import Image

from conftest import write_images
from mmdgm.data.labeled_files import read_data


@pytest.mark.parametrize(
    ("y", "mark", "marker", "unlabeled"),
    [
        ([0, 1, -1, -1], None, -1, 2),
        ([0, 1, 9, 0], "9", 9, 1),
        (["a", "b", "", "b"], "", "", 1),
        ([0.0, 1.0, np.nan, 1.0], "nan", np.nan, 1),
        ([-1, 1, -1, 1], None, None, 0),
    ],
)
def test_unlabeled_rows_of_arrays_are_marked_as_the_user_says(tmp_path, y, mark, marker, unlabeled):
    np.savez(tmp_path / "x.npz", x=np.zeros((4, 2)), y=y)
    data = read_data(tmp_path / "x.npz", unlabeled=mark)
    assert data.unlabeled == marker or (marker != marker and data.unlabeled != data.unlabeled)
    assert data.counts()["unlabeled"] == unlabeled


def test_unlabeled_rows_of_tables_and_images_are_marked_as_the_user_says(tmp_path):
    (tmp_path / "t.csv").write_text("a,k\n1,x\n2,y\n3,?\n4, \n")
    counts = read_data(tmp_path / "t.csv", unlabeled="?", target="k").counts()
    assert (counts["labeled_per_class"], counts["unlabeled"]) == ({"x": 1, "y": 1}, 2)
    write_images(tmp_path / "images")
    counts = read_data(tmp_path / "images", unlabeled="one", size="8x8").counts()
    assert (set(counts["labeled_per_class"]), counts["unlabeled"]) == ({"nought", "unlabeled"}, 4)


@pytest.mark.parametrize("labels", ["1.0 2.0 3.0", "1.5 a 2", "v1.2 v1.3 v2", "1e3 2e3 1e3", "2.5 1 2"])
def test_classes_may_be_whole_numbers_or_text_with_points(tmp_path, labels):
    cells = labels.split()
    (tmp_path / "t.csv").write_text("a,k\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells)))
    data = read_data(tmp_path / "t.csv", unlabeled="2.5" if "2.5" in cells else None, target="k")
    assert set(data.counts()["labeled_per_class"]) == set(cells) - {"2.5"}


@pytest.mark.parametrize(
    ("labels", "mark", "told"),
    [
        ("0 1 -1 -1", None, "-1"),
        ("0 1 -1.0 2", None, "-1.0"),
        ("0 1 nan 0", None, "nan"),
        ("0 1 -1 -1", "-1", None),
        ("0 1 -1 9", "9", None),
        ("-1 1 1 -1", None, None),  # without it one class would be left
        ("-1 a b a", None, None),
        ("0 1 2 1", None, None),
    ],
)
def test_labels_that_may_mark_unlabeled_rows_are_told(tmp_path, labels, mark, told):
    (tmp_path / "t.csv").write_text("a,k\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(labels.split())))
    notes = read_data(tmp_path / "t.csv", unlabeled=mark, target="k").notes
    assert len(notes) == bool(told)
    assert all(f"labels include {told}," in note and f"--unlabeled {told}" in note for note in notes)


def test_images_are_grey_unless_one_has_colour(tmp_path):
    write_images(tmp_path / "images")
    assert read_data(tmp_path / "images", size="8x8").x.shape == (16, 8, 8)
    Image.new("RGB", (5, 5), "red").save(tmp_path / "images" / "one" / "red.bmp")
    x = read_data(tmp_path / "images", size="8x8").x
    assert (x.shape, x.dtype) == ((17, 8, 8, 3), np.uint8)


def test_whole_numbers_of_images_do_not_wrap_around(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.full((2, 8, 8), 1000), y=[0, 1])
    assert read_data(tmp_path / "x.npz").x.max() == 1000
