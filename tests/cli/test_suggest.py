"""`mmdgm suggest`: from data without labels to a file of labels, and on to `mmdgm fit`."""

import numpy as np
import pandas
import pytest
from PIL import Image

from conftest import image_size, read_csv, write_images, write_table
from mmdgm.cli.suggest import advice
from mmdgm.data import datasets

DIGITS = datasets.load("digits")
SHORT = ("--epochs", 2, "--device", "cpu")


def write_digits(path, rows=200):
    np.savez(path, x=DIGITS.x_train[:rows, 0])


def fill_in(path, y):
    header, *lines = read_csv(path)
    place = header.index("label")
    for line in lines:
        line[place] = str(y[int(line[0])])
    path.write_text("\n".join(",".join(line) for line in [header, *lines]) + "\n")


def test_from_no_labels_to_a_trained_model(answer, tmp_path):
    write_digits(tmp_path / "digits.npz")
    labels = tmp_path / "digits-labels.csv"
    found = answer("suggest", "digits.npz", "-n", 15)
    assert (found["labeled"], found["tested"], len(found["rows"])) == (0, 0, 15)
    assert [line[:2] for line in read_csv(labels)] == [["row", "label"], *([str(row), ""] for row in found["rows"])]
    width, height = image_size(labels.with_suffix(".png"))  # two lines of ten
    assert width > 3 * height
    fill_in(labels, DIGITS.y_train)
    more = answer("suggest", "digits.npz", "-n", 5, "--labels", labels)
    assert (more["labeled"], more["tested"]) == (15, 15)
    assert not set(more["rows"]) & set(found["rows"])
    lines = read_csv(labels)[1:]
    assert [int(line[0]) for line in lines] == [*sorted(found["rows"]), *more["rows"]]
    assert [line[1] for line in lines[:15]] == [str(DIGITS.y_train[row]) for row in sorted(found["rows"])]
    fill_in(labels, DIGITS.y_train)
    counts = answer("fit", "digits.npz", "--labels", labels, "--run-dir", "run", *SHORT)["data"]
    assert (counts["labeled"], counts["unlabeled"]) == (20, 180)


def test_a_table_s_rows_can_be_read_in_the_file(answer, tmp_path):
    cells = write_table(tmp_path / "table.csv")
    found = answer("suggest", "table.csv", "-n", 4, "--target", "kind", "--unlabeled", "one", "--out", "ask.csv")
    header, *lines = read_csv(tmp_path / "ask.csv")
    assert header == ["row", "label", "width", "colour", "height"]
    asked = [line for line in lines if not line[1]]
    assert [int(line[0]) for line in asked] == found["rows"]
    assert all(line[2:] == [str(cell) for cell in cells[int(line[0])][:3]] for line in asked)
    assert not (tmp_path / "ask.png").exists()


def test_rows_of_a_parquet_file_and_its_labels(answer, tmp_path):
    write_table(tmp_path / "table.csv")
    table = pandas.read_csv(tmp_path / "table.csv")
    table.to_parquet("table.parquet")
    words = ("-n", 4, "--target", "kind")
    found = answer("suggest", "table.parquet", *words)
    assert found["rows"] == answer("suggest", "table.csv", *words, "--out", "other.csv")["rows"]
    shown = {int(row): cells for row, _, *cells in read_csv("table-labels.csv")[1:]}
    assert set(found["rows"]) < set(shown)
    for row, (width, colour, height) in shown.items():
        expected = table.loc[row]
        assert (width == "") == pandas.isna(expected["width"])
        assert width == "" or float(width) == expected["width"]
        assert colour == ("" if pandas.isna(expected["colour"]) else expected["colour"])
        assert float(height) == expected["height"]


@pytest.mark.parametrize("flat", [True, False])
def test_folders_of_images(answer, tmp_path, flat):
    if flat:
        (tmp_path / "scans").mkdir()
        for i in range(30):
            Image.fromarray(DIGITS.x_train[i, 0] * 15).save(tmp_path / "scans" / f"{i}.png")
    else:
        write_images(tmp_path / "scans")
    found = answer("suggest", "scans", "-n", 5, "--size", "16x16")
    lines = [line for line in read_csv(tmp_path / "scans-labels.csv")[1:] if not line[2]]
    assert [int(line[0]) for line in lines] == found["rows"]
    assert all((tmp_path / "scans" / line[1]).exists() for line in lines)
    assert found["labeled"] == (0 if flat else 8)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.npz",), "nowhere.npz is missing"),
        (("digits.npz", "-n", 999), "there are 30 rows without a label"),
        (("digits.npz", "--labels", "other.csv"), "the data have no row 31"),
        (("digits.npz", "--target", "kind"), "--target is for a table"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(mmdgm, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    write_digits(tmp_path / "digits.npz", rows=30)
    (tmp_path / "other.csv").write_text("row,label\n31,cat\n")
    before = sorted(path.name for path in tmp_path.iterdir())
    code, _, err = mmdgm("suggest", *words)
    assert code == 2
    assert said in " ".join(err.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("errors", "tested", "words"),
    [(0, 0, "fill in the column"), (0, 20, "11 % of all rows: more"), (0, 50, "at most 5 %"), (9, 20, "62 %")],
)
def test_advice_names_the_largest_share_that_the_errors_allow(errors, tested, words):
    assert words in advice(errors, tested, labeled=tested)
