"""`mmdgm impute`: what was observed comes back untouched, what was missing is filled on the scale of the data."""

import json
from pathlib import Path

import numpy as np
import pandas
import pytest

import mmdgm as library
from conftest import image_size, read_csv
from mmdgm.data import datasets

DIGITS = datasets.load("digits")
CPU = ("--device", "cpu")


@pytest.fixture(name="holes")
def make_holes(tmp_path):
    x = DIGITS.x_test[:5, 0].astype(np.float32)
    x[:, 2:5, 3:6] = np.nan
    np.savez(tmp_path / "holes.npz", x=x)
    return x


@pytest.mark.parametrize("kind", ["trained", "own"])
def test_images_come_back_with_their_holes_filled(answer, trained, own, holes, kind):
    run = trained if kind == "trained" else own / "digits"
    said = answer("impute", run, "holes.npz", "--rounds", 3, "--seed", 2, *CPU)
    assert said == {"files": ["holes-imputed.png", "holes-imputed.npz"], "filled_values": 5 * 9}
    assert image_size("holes-imputed.png") == (5 * 50 + 2, 2 * 50 + 2)
    with np.load("holes-imputed.npz") as file:
        filled, missing = file["x"], file["missing"]
    np.testing.assert_array_equal(missing, np.isnan(holes))
    np.testing.assert_array_equal(filled[~missing], holes[~missing])
    assert ((filled[missing] >= 0) & (filled[missing] <= 16)).all()
    expected = library.load(run, device="cpu").impute(holes, n_iter=3, random_state=2)
    np.testing.assert_array_equal(filled, expected)


def test_methods_rounds_and_seeds_are_those_of_the_estimator(answer, trained, holes):
    run, filled = library.load(trained, device="cpu"), {}
    for method in ("rounds", "draw", "posterior"):
        answer("impute", trained, "holes.npz", "--method", method, "--rounds", 4, "--out", method, *CPU)
        filled[method] = np.load(f"{method}.npz")["x"]
        np.testing.assert_array_equal(filled[method], run.impute(holes, n_iter=4, method=method))
    assert not np.allclose(filled["rounds"], filled["draw"])
    assert not np.allclose(filled["rounds"], filled["posterior"])
    answer("impute", trained, "holes.npz", *CPU)
    np.testing.assert_array_equal(np.load("holes-imputed.npz")["x"], run.impute(holes, n_iter=100))


def test_a_row_is_filled_alike_whatever_comes_with_it(answer, trained, holes):
    answer("impute", trained, "holes.npz", "--rounds", 4, *CPU)
    np.savez("alone.npz", x=holes[3:4])
    answer("impute", trained, "alone.npz", "--rounds", 4, *CPU)
    np.testing.assert_array_equal(np.load("alone-imputed.npz")["x"][0], np.load("holes-imputed.npz")["x"][3])


def test_what_is_filled_in_is_nearer_to_the_truth_than_one_grey(answer, trained):
    x = DIGITS.x_test[:50, 0].astype(np.float32)
    holes = x.copy()
    holes[:, 3:6, 3:6] = np.nan
    np.savez("holes.npz", x=holes)
    answer("impute", trained, "holes.npz", "--method", "posterior", *CPU)
    filled, missing = np.load("holes-imputed.npz")["x"], np.isnan(holes)
    error = np.square(filled - x)[missing].mean()
    assert error < 0.9 * np.square(x - x[missing].mean())[missing].mean()  # 0.81 when this was written


def test_scale_is_what_the_values_are_divided_by(answer, trained, holes):
    answer("impute", trained, "holes.npz", "--rounds", 2, *CPU)
    np.savez("unit.npz", x=holes / 16)
    answer("impute", trained, "unit.npz", "--rounds", 2, "--scale", 1, *CPU)
    filled, unit = np.load("holes-imputed.npz")["x"], np.load("unit-imputed.npz")["x"]
    np.testing.assert_allclose(unit, filled / 16, atol=1e-5)  # on the user's scale
    np.testing.assert_array_equal(unit[~np.isnan(holes)], (holes / 16)[~np.isnan(holes)])
    flat = (holes / 16).reshape(len(holes), -1).astype(np.float32)
    np.savez("flat.npz", x=flat)
    answer("impute", trained, "flat.npz", "--rounds", 2, "--scale", 1, *CPU)
    back = np.load("flat-imputed.npz")["x"]
    assert (back.shape, back.dtype) == (flat.shape, np.float32)
    np.testing.assert_allclose(back, unit.reshape(flat.shape), atol=1e-3)


def test_nothing_missing_is_said(mmdgm, trained, tmp_path):
    np.savez(tmp_path / "x.npz", x=DIGITS.x_test[:2])
    code, out, err = mmdgm("impute", trained, tmp_path / "x.npz", "--json")
    assert (code, json.loads(out)["filled_values"]) == (0, 0)
    assert err == f"{tmp_path / 'x.npz'}: nothing is missing\n"


def test_a_table_comes_back_with_its_empty_cells_filled(answer, own):
    cells = read_csv(own / "table.csv")
    said = answer("impute", own / "rows", own / "table.csv", "--rounds", 3, "--out", "filled")
    filled = read_csv("filled.csv")
    assert said == {"files": ["filled.csv"], "filled_values": 8 + 6}
    assert filled[0] == cells[0]
    for before, after in zip(cells[1:], filled[1:], strict=True):
        assert [b == a for b, a in zip(before, after, strict=True)] == [bool(b) for b in before[:3]] + [True]
        float(after[0])
        assert after[1] in ("red", "blue", "deep, green")


def test_a_parquet_file_gives_a_csv_file(answer, own):
    """Observed values are those of the Parquet file, fills those of the same table as CSV."""
    table = pandas.read_csv(own / "table.csv")
    table.to_parquet("table.parquet")
    assert answer("impute", own / "rows", "table.parquet", "--rounds", 3)["files"] == ["table-imputed.csv"]
    answer("impute", own / "rows", own / "table.csv", "--rounds", 3, "--out", "expected")
    found, expected = pandas.read_csv("table-imputed.csv"), pandas.read_csv("expected.csv")
    pandas.testing.assert_frame_equal(found, expected)
    observed = found.where(table.notna())
    pandas.testing.assert_frame_equal(observed, table)


def test_new_categories_stay_as_they_are(answer, own):
    Path("new.csv").write_text("width,colour,height\n1,violet,2\n,red,3\n")
    answer("impute", own / "rows", "new.csv")
    rows = read_csv("new-imputed.csv")
    assert (rows[1], rows[2][1:]) == (["1", "violet", "2"], ["red", "3"])


def test_columns_of_numbers_come_back_as_arrays(answer, own):
    np.savez("x.npz", x=[[1.0, np.nan, 0.0]])
    assert answer("impute", own / "columns", "x.npz")["files"] == ["x-imputed.npz"]
    with np.load("x-imputed.npz") as file:
        assert file["x"][0, ::2].tolist() == [1.0, 0.0]
        assert np.isfinite(file["x"]).all()


def test_images_of_own_data_may_have_any_size(answer, own):
    x = np.full((2, 8, 12), 7.0)
    x[0, 0, 0] = np.nan
    np.savez("holes.npz", x=x)
    assert answer("impute", own / "pictures", "holes.npz")["filled_values"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "holes.npz"), "run holds no run"),
        (("TRAINED", "nowhere.npz"), "nowhere.npz is missing"),
        (("TRAINED", "TRAINED/config.json"), "give an npz file in which NaN is missing"),
        (("TRAINED", "false.npz"), "is no npz file"),
        (("TRAINED", "holes.npz", "--scale", "0"), "give a number above 0"),
        (("TRAINED", "holes.npz", "--method", "median"), "method takes auto | rounds | draw | posterior"),
        (("TRAINED", "holes.npz", "--out", "holes.npz"), "would write over the input"),
        (("TRAINED", "holes.npz", "--out", "."), "give a file name"),
        (("OWN/digits", "OWN/images"), "give an npz file in which NaN is missing"),
        (("OWN/rows", "word.csv"), "'wide' is no finite number"),
        (("OWN/rows", "good.csv", "--out", "good.csv"), "would write over the input"),
        (("OWN/rows", "good.csv", "--rounds", "0"), "Invalid value for '--rounds'"),
    ],
)
def test_mistakes(refused, holes, trained, own, words, said):
    Path("false.npz").write_text("no npz file")
    Path("word.csv").write_text("width,colour,height\nwide,red,1\n")
    Path("good.csv").write_text("width,colour,height\n,red,1\n")
    for name, place in {"OWN": own, "TRAINED": trained}.items():
        words = [word.replace(name, str(place)) for word in words]
    assert said in refused("impute", *words, watched=[own, trained])
