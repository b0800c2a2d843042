"""`mmdgm sample`: a grid by class where the model is conditional, rows of a table as CSV."""

import dataclasses

import numpy as np
import pytest

import mmdgm as library
from conftest import image_size, read_csv
from mmdgm.cli import sample as command

CPU = ("--device", "cpu")


def test_a_conditional_model_gives_a_line_for_each_class(answer, trained):
    png, npz = answer("sample", trained, "--columns", 3, "--out", "pic.png", "--seed", 5, *CPU)["files"]
    assert (png, npz) == ("pic.png", "pic.npz")
    assert image_size(png) == (3 * 50 + 2, 10 * 50 + 2)
    run = library.load(trained, device="cpu")
    with np.load(npz) as grid:
        assert (grid["x"].shape, grid["z"].shape) == ((10, 3, 8, 8), (10, 3, run.model_.encoder.z))
        assert grid["y"].tolist() == [[k] * 3 for k in range(10)]
        np.testing.assert_array_equal(grid["z"], np.broadcast_to(grid["z"][0], grid["z"].shape))  # one style each
        np.testing.assert_array_equal(grid["x"][7], run.sample(3, y=7, random_state=5))
        assert ((grid["x"] >= 0) & (grid["x"] <= 16)).all()


def test_files_go_into_the_run_by_default(answer, own, tmp_path):
    library.load(own / "digits").save(tmp_path / "run")
    assert answer("sample", "run", "--columns", 2)["files"] == ["run/samples.png", "run/samples.npz"]
    classes = library.load("run").classes_
    with np.load("run/samples.npz") as samples:
        assert samples["x"].shape == (len(classes), 2, 8, 8)
        assert samples["y"].tolist() == classes.repeat(2).reshape(-1, 2).tolist()


def test_classes_that_are_not_sorted_get_their_own_lines(answer, trained, monkeypatch):
    """As NORB's and Fashion-MNIST's: the first class is not the first word."""
    run = library.load(trained, device="cpu")
    run.classes_ = np.array(["j", "c", "a", "b", "d", "e", "f", "g", "h", "i"])
    answer("sample", trained, "--columns", 2, "--out", "numbers", *CPU)
    monkeypatch.setattr(command, "load", lambda *_, **__: run)
    answer("sample", trained, "--columns", 2, "--out", "named", *CPU)
    with np.load("named.npz") as named, np.load("numbers.npz") as numbers:
        assert named["y"][:, 0].tolist() == run.classes_.tolist()
        np.testing.assert_array_equal(named["x"], numbers["x"])


def test_a_model_that_is_not_conditional_has_rows_as_asked_for(answer, own):
    assert answer("sample", own / "columns", "--columns", 2, "--rows", 3, "--out", "s")["files"] == ["s.npz"]
    with np.load("s.npz") as samples:
        assert samples["x"].shape == (3, 2, 3)
        assert set(samples) == {"x", "z"}


def test_a_table_with_names_gives_a_csv_file(answer, own):
    assert answer("sample", own / "rows", "--columns", 4, "--out", "s.csv")["files"] == ["s.csv"]
    rows = read_csv("s.csv")
    assert rows[0] == ["width", "colour", "height", "kind"]
    assert [row[3] for row in rows[1:]] == ["large"] * 4 + ["small"] * 4
    assert {row[1] for row in rows[1:]} <= {"red", "blue", "deep, green"}
    assert answer("predict", own / "rows", "s.csv")["rows"] == 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run",), "run holds no run"),
        (("TRAINED", "--out", "."), "give a file name"),
        (("TRAINED", "--columns", "0"), "Invalid value for '--columns'"),
        (("OWN/rows", "--out", "."), "give a file name"),
    ],
)
def test_mistakes(refused, trained, own, words, said):
    for name, place in {"OWN": own, "TRAINED": trained}.items():
        words = [word.replace(name, str(place)) for word in words]
    assert said in refused("sample", *words, watched=[own, trained])


def test_a_model_without_its_generative_part_is_refused(refused, trained, monkeypatch):
    run = library.load(trained, device="cpu")
    run.model_.settings = dataclasses.replace(run.model_.settings, generative_weight=0.0)
    monkeypatch.setattr(command, "load", lambda *_, **__: run)
    assert "it has no samples" in refused("sample", trained, "--out", "s", watched=[trained])
