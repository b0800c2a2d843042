"""Label files: what `mmdgm suggest` writes, and what people make of them."""

import pytest

from mmdgm.data.label_files import label_file, read_labels_of_rows
from small_datasets import input_error


def test_known_and_suggested_rows_and_the_columns_to_look_at(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_bytes(label_file({3: "a, b"}, [2, 0], None, {"width": ["1", "2", "", "4"], "label": ["x"] * 4}))
    assert path.read_text() == 'row,label,width\n3,"a, b",4\n2,,\n0,,1\n'
    assert read_labels_of_rows(path, 4, None) == {3: "a, b"}


def test_images_are_known_by_their_files(tmp_path):
    files = ["one/a.png", "b.png", "7"]
    path = tmp_path / "labels.csv"
    path.write_bytes(label_file({2: "x"}, [0], files, {}))
    assert path.read_text() == "row,file,label\n2,7,x\n0,one/a.png,\n"
    assert read_labels_of_rows(path, 3, list(reversed(files))) == {0: "x"}


def test_lines_may_be_filled_moved_and_repeated(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("label,note,row\n cat ,sure,1\n,no idea,0\ncat,again,1\n")
    assert read_labels_of_rows(path, 2, None) == {1: "cat"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("row,kind\n1,cat\n", "has no column label"),
        ("file,label\na.png,cat\n", "has no column row"),
        ("row,label\n5,cat\n", "line 2: the data have no row 5"),
        ("row,label\n1,cat\n1,dog\n", "line 3: row 1 has two labels, cat and dog"),
    ],
)
def test_what_does_not_fit_the_data_is_refused(tmp_path, text, words):
    path = tmp_path / "labels.csv"
    path.write_text(text)
    assert words in input_error(read_labels_of_rows, path, 4, None)
