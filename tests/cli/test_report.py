"""`mmdgm report`: one run, several side by side, and the paper's tables."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import mmdgm
from html_pages import check_page
from mmdgm.data import datasets
from mmdgm.data.labeled_files import read_data

RESULTS = Path(__file__).parents[2] / "results"


def test_training_ends_with_a_report(mmdgm, tmp_path):
    words = ["--run-dir", tmp_path / "run", "--set", "epochs=1", "--device", "cpu", "--json"]
    result = json.loads(mmdgm("train", "digits-mmcva-50", *words)[1])
    page = check_page((tmp_path / "run" / "report.html").read_bytes())
    assert f"{result['error_percent']:.2f} %" in page.text
    assert "(shortened)" in page.text


def test_fit_ends_with_a_report_that_has_the_estimate(mmdgm, own, tmp_path):
    words = ("--target", "kind", "--epochs", 1, "--run-dir", tmp_path / "run", "--device", "cpu")
    code, _, err = mmdgm("fit", own / "table.csv", *words)
    assert code == 0, err
    assert f"to look at: {tmp_path / 'run' / 'report.html'}" in err
    estimate = json.loads((tmp_path / "run" / "result.json").read_text())["estimate"]
    page = check_page((tmp_path / "run" / "report.html").read_bytes())
    assert f"{estimate['errors']} of {estimate['labeled_rows']} labeled rows, held out in turn" in page.text
    assert f"{100 * (1 - estimate['high']):.2f} to {100 * (1 - estimate['low']):.2f} %" in page.text


def test_a_report_on_given_rows_counts_their_errors(answer, own, tmp_path):
    assert answer("report", own / "rows", "--data", own / "table.csv", "--out", "page.html", "--device", "cpu") == {
        "files": ["page.html"]
    }
    page = check_page((tmp_path / "page.html").read_bytes())
    data, estimator = read_data(own / "table.csv", target="kind"), mmdgm.load(own / "rows", device="cpu")
    labeled = data.y != ""
    wrong = int((estimator.predict(data.x[labeled]) != data.y[labeled]).sum())
    tile = next(e.text for e in page.all("dd"))
    assert f"{100 * wrong / labeled.sum():.2f} %" in tile
    counts = [int(cell.text) for cell in page.all("td") if cell.attributes.get("class") == "shaded"]
    assert np.array(counts).reshape(2, 2).trace() == labeled.sum() - wrong


def test_a_preset_on_given_rows_shows_both_errors(answer, trained, tmp_path):
    digits = datasets.load("digits")
    np.savez("some.npz", x=digits.x_train[:50, 0].astype(float), y=digits.y_train[:50])
    answer("report", trained, "--data", "some.npz", "--out", "page.html", "--device", "cpu")
    page = check_page((tmp_path / "page.html").read_bytes())
    wrong = (mmdgm.load(trained, device="cpu").predict(digits.x_train[:50, 0]) != digits.y_train[:50]).sum()
    tiles = [" ".join(e.text.split()) for e in page.all("div")]
    assert any(tile.startswith(f"Error on the given rows{2 * wrong:.2f} %") for tile in tiles)
    result = json.loads((trained / "result.json").read_text())
    assert f"{result['error_percent']:.2f} %" in page.text


def test_the_default_place_is_in_the_run_folder(answer, own, tmp_path):
    shutil.copytree(own / "columns", tmp_path / "run")
    assert answer("report", "run", "--device", "cpu") == {"files": ["run/report.html"]}
    check_page((tmp_path / "run" / "report.html").read_bytes())


def test_an_estimator_saved_from_python_has_a_report(answer, own, fitted, tmp_path):
    fitted.save(tmp_path / "saved")
    assert answer("report", "saved", "--device", "cpu") == {"files": ["saved/report.html"]}
    assert "The rows are not at hand" in check_page((tmp_path / "saved" / "report.html").read_bytes()).text


def test_several_runs_are_side_by_side(answer, own, trained, tmp_path):
    assert answer("report", trained, own / "digits", own / "rows", "--device", "cpu") == {"files": ["comparison.html"]}
    page = check_page((tmp_path / "comparison.html").read_bytes())
    result = json.loads((trained / "result.json").read_text())
    figures = page.all("table")[0].text
    assert re.search(rf"error\s*{result['error_percent']:.2f} %\s*–\s*–", figures)
    assert page.headings == ["Side by side", "Settings that differ", "Generated images", "Terms of the objective"]
    assert len(page.all("img")) == 2  # the table has no images
    assert "likelihood" not in page.all("table")[1].text
    (chart,) = (e.attributes["aria-label"] for e in page.all("svg") if e.attributes["aria-label"].startswith("loss"))
    assert chart.count("digits") == chart.count("rows") == 1


@pytest.mark.skipif(not RESULTS.exists(), reason="tests run on an installed mmdgm")
def test_the_paper_s_tables_beside_ours(answer, tmp_path):
    assert answer("report", RESULTS, "--out", "paper.html") == {"files": ["paper.html"]}
    page = check_page((tmp_path / "paper.html").read_bytes())
    assert {f"Table {n}" for n in range(1, 8)} <= set(page.headings)
    runs = (RESULTS / "runs" / "mnist-conv-mmva").glob("seed-*/result.json")
    errors = [json.loads(path.read_text())["error_percent"] for path in runs]
    (row,) = (e.text for e in page.all("tr") if e.text.strip().startswith("Conv-MMVA") and "72,000" in e.text)
    assert f"{np.mean(errors):.2f} ± {np.std(errors, ddof=1):.2f}" in row
    assert "0.45" in row
    assert len(page.all("img")) == 1  # the curve by the number of labels


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none",), "none holds no run"),
        (("OWN/rows", "--out", "page.txt"), "--out page.txt: give a file name that ends in .html"),
        (("OWN/rows", "OWN/digits", "--data", "OWN/table.csv"), "is for the report of one run"),
        (("OWN/rows", "OWN/rows"), "give each run once"),
        (("OWN/rows", "--data", "none.csv"), "none.csv is missing"),
        (("OWN/rows", "--data", "OWN/table.csv", "--target", "colour"), "is no class of"),
    ],
)
def test_mistakes(refused, own, words, said):
    assert said in refused("report", *(word.replace("OWN", str(own)) for word in words), watched=[own])
