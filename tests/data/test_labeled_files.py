"""What users bring to train on: rows, labels and their marker, from npz files, image folders and tables."""

import numpy as np
import pandas
import pytest
from PIL import Image

from mmdgm.data.labeled_files import parse_size, read_data
from small_datasets import input_error

X = np.arange(24.0).reshape(6, 4)


@pytest.fixture(name="npz")
def make_npz(tmp_path):
    def npz(**arrays):
        np.savez(tmp_path / "own.npz", **arrays)
        return tmp_path / "own.npz"

    return npz


@pytest.fixture(name="sheet")
def make_sheet(tmp_path):
    def sheet(content):
        (tmp_path / "own.csv").write_text(content)
        return tmp_path / "own.csv"

    return sheet


@pytest.fixture(name="folder")
def make_folder(tmp_path):
    """Two images of dogs, one of a cat and one that is unlabeled, each of one grey."""
    for name, values in {"dog": [10, 20], "cat": [30], "unlabeled": [40]}.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for value in values:
            image = Image.fromarray(np.full((5, 5), value, np.uint8))
            image.save(tmp_path / "photos" / name / f"{value}.png")
    return tmp_path / "photos"


@pytest.mark.parametrize(
    ("y", "mark", "unlabeled", "labeled"),
    [
        ([0, 1, -1, 1, 0, -1], None, -1, 4),
        ([0, 1, 9, 1, 0, 9], "9", 9, 4),
        ([0, 1, 2, 1, 0, 2], None, -1, 6),
        (["a", "b", "-1", "a", "b", "-1"], None, "-1", 4),
        (["a", "b", "?", "a", "b", "?"], "?", "?", 4),
        ([b"a", b"b", b"-1", b"a", b"b", b"-1"], None, "-1", 4),
        ([-1, 1, 1, 1, -1, 1], None, None, 6),  # two classes of many data sets
        ([-1, 1, 9, 1, -1, 9], "9", 9, 4),
        ([[0], [1], [-1], [1], [0], [-1]], None, -1, 4),
        ([True, False, True, False, True, False], None, -1, 6),
    ],
)
def test_labels_and_their_marker(npz, y, mark, unlabeled, labeled):
    data = read_data(npz(x=X, y=np.array(y)), unlabeled=mark)
    np.testing.assert_array_equal(data.x, X)
    assert data.y.tolist() == [v.decode() if isinstance(v, bytes) else v for v in np.ravel(y).tolist()]
    assert data.unlabeled == unlabeled
    counts = data.counts()
    assert (counts["rows"], counts["labeled"], counts["unlabeled"]) == (6, labeled, 6 - labeled)


def test_nan_marks_where_the_user_says_so(npz):
    path = npz(x=X, y=np.array([0, 1, np.nan, 1, 0, np.nan]))
    assert "--unlabeled nan" in input_error(read_data, path)
    data = read_data(path, unlabeled="nan")
    assert np.isnan(data.unlabeled)
    assert data.counts()["unlabeled"] == 2


def test_counts_are_what_is_there(npz):
    x = np.where(X % 5 == 1, np.nan, X)
    counts = read_data(npz(x=x, y=np.array(["b", "a", "-1", "b", "b", "-1"]))).counts()
    assert counts["kind"] == "npz"
    assert counts["shape"] == [6, 4]
    assert counts["labeled_per_class"] == {"a": 1, "b": 3}
    assert counts["missing_values"] == 5
    assert counts["skipped_files"] == 0


@pytest.mark.parametrize(
    ("arrays", "options", "word"),
    [
        ({"x": X}, {}, "no y"),
        ({"y": X[:, 0]}, {}, "no x"),
        ({}, {}, "nothing"),
        ({"x": X, "y": np.zeros(5)}, {}, "(5,)"),
        ({"x": X, "y": np.zeros((6, 2))}, {}, "(6, 2)"),
        ({"x": X, "y": np.zeros(6, complex)}, {}, "complex128"),
        ({"x": X, "y": np.arange(6)}, {"unlabeled": "?"}, "--unlabeled ?"),
        ({"x": X, "y": np.arange(6)}, {"target": "y"}, "--target"),
        ({"x": X, "y": np.arange(6)}, {"size": "8x8"}, "--size"),
        ({"x": X[:, 0], "y": np.arange(6)}, {}, "(6,)"),
    ],
)
def test_arrays_that_cannot_be_trained_on_are_refused(npz, arrays, options, word):
    assert word in input_error(read_data, npz(**arrays), **options)


@pytest.mark.parametrize("y", [np.full(6, -1), np.zeros(6, int), np.linspace(0, 1, 6)])
def test_labels_that_no_classifier_can_learn_from_are_refused(npz, y):
    path = npz(x=X, y=y)
    assert input_error(read_data(path).counts).startswith(str(path))


def test_a_folder_of_images(folder):
    data = read_data(folder, size="3x4")
    assert data.x.shape == (4, 3, 4)
    assert data.x[:, 0, 0].tolist() == [30, 10, 20, 40]
    assert data.y.tolist() == ["cat", "dog", "dog", ""]
    assert (data.kind, data.unlabeled, data.skipped, data.notes) == ("images", "", 0, [])
    assert data.counts()["labeled_per_class"] == {"cat": 1, "dog": 2}
    assert read_data(folder).x.shape == (4, 32, 32)
    assert read_data(folder, unlabeled="cat").y.tolist() == ["", "dog", "dog", "unlabeled"]


def test_broken_images_are_counted_and_told(folder):
    (folder / "dog" / "30.png").write_bytes(b"no image")
    data = read_data(folder)
    assert (len(data.x), data.skipped, data.counts()["skipped_files"]) == (4, 1, 1)
    assert str(folder / "dog" / "30.png") in data.notes[0]


@pytest.mark.parametrize(
    ("text", "size"), [("32x48", (32, 48)), (" 8X8 ", (8, 8)), ("8×9", (8, 9)), ("512x1", (512, 1))]
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["32", "0x8", "8x513", "x8", "8x8x3", "-8x8", "8.0x8", ""])
def test_what_is_no_size_is_refused(text):
    assert f"--size {text}" in input_error(parse_size, text)


def test_a_sheet_has_labels_in_its_target_column(sheet):
    data = read_data(sheet("age,kind,sort\n1,a,x\n,b,\n3,,y\n4,a, \n"), target="sort")
    assert (data.columns, data.target, data.unlabeled) == (["age", "kind"], "sort", "")
    assert data.y.tolist() == ["x", "", "y", ""]
    assert data.x[:, 1].tolist() == ["a", "b", None, "a"]
    np.testing.assert_array_equal(data.x[:, 0].astype(float), [1, np.nan, 3, 4])
    counts = data.counts()
    assert (counts["labeled"], counts["unlabeled"], counts["missing_values"]) == (2, 2, 2)
    assert (counts["columns"], counts["target"]) == (["age", "kind"], "sort")


def test_another_mark_beside_empty_cells(sheet):
    data = read_data(sheet("a,y\n1,0\n2,?\n3,\n4,1\n"), target="y", unlabeled="?")
    assert data.y.tolist() == ["0", "", "", "1"]


@pytest.mark.parametrize(
    ("labels", "mark"), [("0 1 -1 1", "-1"), ("0 1 nan 0", "nan"), ("0 -1 -1 0", None), ("a b -1 a", None)]
)
def test_numbers_that_may_mark_unlabeled_rows_are_told(sheet, labels, mark):
    content = "a,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels.split()))
    notes = read_data(sheet(content), target="y").notes
    assert [note.split()[-1] for note in notes] == ([mark] if mark else [])


@pytest.mark.parametrize(
    ("content", "options", "word"),
    [
        ("a,y\n1,0\n", {}, "--target"),
        ("a,y\n1,0\n", {"target": "z"}, "--target z"),
        ("y\n0\n1\n", {"target": "y"}, "beside y"),
        ("a,y\n1,0.5\n2,1\n", {"target": "y"}, "0.5"),
        ("a,b,y\n1,,0\n2,,1\n", {"target": "y"}, "column b"),
        ("a,b,y\n1,2,0\n\n,,1\n", {"target": "y"}, "line 4"),
        ("a,y\n1,0\n", {"target": "y", "size": "8x8"}, "--size"),
    ],
)
def test_sheets_that_cannot_be_trained_on_are_refused(sheet, content, options, word):
    assert word in input_error(read_data, sheet(content), **options)


def test_a_parquet_file_has_labels_in_its_target_column(tmp_path):
    table = pandas.DataFrame({"age": [1.0, None, 3.0, 4.0], "sort": [0.0, None, 7.0, 0.0]})
    table["zip"] = pandas.Categorical(["007", "008", "007", None])
    table["ill"] = [True, False, None, True]
    table.to_parquet(tmp_path / "own.parquet")
    data = read_data(tmp_path / "own.parquet", target="sort")
    assert (data.kind, data.columns, data.y.tolist()) == ("parquet", ["age", "zip", "ill"], ["0", "", "7", "0"])
    assert data.x[:, 1].tolist() == ["007", "008", "007", None]
    np.testing.assert_array_equal(data.x[:, [0, 2]].astype(float), [[1, 1], [np.nan, 0], [3, np.nan], [4, 1]])
    assert data.notes == []
    assert read_data(tmp_path / "own.parquet", target="ill").y.tolist() == ["True", "False", "", "True"]
    assert read_data(tmp_path / "own.parquet", target="zip", unlabeled="008").y.tolist() == ["007", "", "007", ""]


def test_anything_else_is_refused(tmp_path):
    assert "missing" in input_error(read_data, tmp_path / "absent.npz")
    for name in ("own.doc", "own", "own.npz.gz"):
        (tmp_path / name).touch()
        assert input_error(read_data, tmp_path / name).startswith(str(tmp_path / name))
