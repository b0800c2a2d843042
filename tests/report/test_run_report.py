"""The report of a run: its numbers are those of result.json, and every kind of data has its sections."""

import dataclasses
import json
import re

import numpy as np
import pytest
from scipy.stats import binomtest

from html_pages import check_page
from mmdgm.data import datasets
from mmdgm.data.labeled_files import read_data
from mmdgm.experiments.reports import dataset_rows, read_run, rows_of, training_rows
from mmdgm.report.run_report import run_report, tiles
from mmdgm.report.subject import Errors, Judgement, Rows, errors_of, judge
from mmdgm.report.table_sections import fill_errors

EVIL = "<script>alert(1)</script>"


def values(page):
    """The names with values of a page."""
    names, found = page.all("dt"), page.all("dd")
    return {name.text: " ".join(value.text.split()) for name, value in zip(names, found, strict=True)}


def table(page, caption):
    """The cells of the table with this caption, and its header."""
    (element,) = (e for e in page.all("table") if caption in e.text)
    header, *rows = re.split(r"\n+", element.text.strip().removeprefix(caption).strip())
    return header, rows


def test_errors_have_the_interval_of_wilson():
    low, high = binomtest(5, 200).proportion_ci(0.95, method="wilson")
    errors = Errors(5, 200, "test rows")
    assert (errors.low, errors.high) == pytest.approx((100 * low, 100 * high))
    assert (errors.low, errors.high) == pytest.approx((1.07, 5.72), abs=0.01)
    assert errors.percent == "2.50 %"
    assert errors.interval == "95 % interval 1.07 to 5.72 %; 5 of 200 test rows"


def test_a_judgement_counts_and_orders():
    scores = np.array([[3.0, 1.0, 0.0], [0.0, 0.5, 0.4], [1.0, 2.0, 9.0]])
    judged = Judgement(Rows(x=np.zeros((3, 2)), y=None, place="rows"), ["a", "b", "c"], scores, np.array([0, 2, 2]))
    np.testing.assert_allclose(judged.leads, [2, 0.1, 7])
    assert judged.confusion().tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 1]]


def test_the_report_of_a_preset_has_the_numbers_of_its_result(trained):
    run = read_run(trained, device="cpu")
    page = check_page(run_report(run, rows_of(run, trained)))
    result = json.loads((trained / "result.json").read_text())
    found, n = values(page), result["dataset"]["test"]
    wrong = round(result["error_percent"] * n / 100)
    assert found["Test error"].startswith(f"{result['error_percent']:.2f} % 95 % interval ")
    assert found["Test error"].endswith(f"{wrong} of {n} test rows")
    assert found["Bound on test rows"] == f"{result['elbo']:.2f} nats"
    assert found["Error on validation rows"] == f"{result['validation_error_percent']:.2f} %"
    assert found["Labels"] == "50 1,147 unlabeled rows"
    assert found["commit"] == str(result["git_commit"] or "–")
    assert found["torch"] == result["versions"]["torch"]
    assert "mmdgm train digits-mmcva-50 --seed 3 --set epochs=30 --set validation=100" in page.text
    counts = [int(cell.text) for cell in page.all("td") if cell.attributes.get("class") == "shaded"]
    matrix = np.array(counts).reshape(10, 10)
    assert matrix.sum() == n
    assert matrix.sum() - matrix.trace() == wrong
    assert f"Wrong: {wrong} rows" in page.text


def test_the_report_of_a_preset_has_all_sections_and_pictures(trained):
    run = read_run(trained, device="cpu")
    page = check_page(run_report(run, rows_of(run, trained)))
    assert page.headings == [
        "What was trained",
        "Confusion matrix",
        "Generated images",
        "Reconstructions",
        "Imputation",
        "Rows to look at",
        "Features",
        "Terms of the objective",
        "How to repeat it",
    ]
    texts = [image.attributes["alt"] for image in page.all("img")]
    assert [text for text in texts if "generated" in text] == [f"8 generated images of class {k}" for k in range(10)]
    assert {"8 images: round 20", "8 images: posterior mean", "8 images: reconstruction"} <= set(texts)
    charts = [chart.attributes["aria-label"] for chart in page.all("svg")]
    terms = [text.partition(" against")[0] for text in charts if "against the step" in text]
    assert {"loss", "elbo", "kl", "hinge", "hat", "balance"} <= set(terms)
    last = run.history[-1]["hinge"]
    assert f"hinge against the step; last value {last:.4g}" in charts


def test_the_least_sure_and_the_surest_wrong_rows_come_first(trained):
    run = read_run(trained, device="cpu")
    rows = dataset_rows(datasets.load("digits"))
    judged = judge(run.estimator, rows)
    wrong = np.flatnonzero(judged.predicted != judged.truth)
    page = check_page(run_report(run, rows))
    cards = [card.text for card in page.all("li") if "cards" not in card.attributes and "row " in card.text]
    first = int(judged.leads.argmin())
    assert cards[0].startswith(f"row {first}predicted {judged.predicted[first]}")
    surest = int(wrong[judged.leads[wrong].argmax()])
    of_wrong = [card for card in cards[12:] if card.startswith(f"row {surest}predicted")]
    assert of_wrong == [cards[12]]
    assert f"true class {judged.truth[surest]} ({judged.scores[surest, judged.truth[surest]]:.2f})" in cards[12]


def test_names_of_classes_and_columns_are_escaped(own):
    run = read_run(own / "rows", device="cpu")
    run.estimator.classes_ = np.array([EVIL, "small"])
    run.estimator.codec_ = run.estimator.codec_.named([EVIL, "b", "c"])
    page = check_page(run_report(run, rows_of(read_run(own / "rows", device="cpu"), own / "rows")))
    assert page.text.count(EVIL) > 10
    assert EVIL not in page.source


@pytest.mark.parametrize("name", ["digits", "pictures", "rows", "columns"])
def test_own_data_is_shown_on_training_rows_which_judge_nothing(own, name):
    run = read_run(own / name, device="cpu")
    page = check_page(run_report(run, rows_of(run, own / name)))
    assert values(page)["Error"].startswith("– not measured")
    assert "Confusion matrix" not in page.headings
    assert "Wrong:" not in page.text
    assert ("Imputation" in page.headings) == (name in ("digits", "pictures"))
    assert ("Columns and their fills" in page.headings) == (name in ("rows", "columns"))
    assert "training rows" in page.text
    assert "mmdgm fit" in page.text


def test_columns_of_a_table_with_kinds_ranges_and_missing_values(own):
    run = read_run(own / "rows", device="cpu")
    page = check_page(run_report(run, rows_of(run, own / "rows")))
    data = read_data(own / "table.csv", target="kind")
    width = data.x[:, 0].astype(float)
    cells = [e.text for e in page.all("td")]
    at = cells.index("number")
    assert cells[at + 1] == f"{np.nanmin(width):.4g} to {np.nanmax(width):.4g}".replace("-", "−")
    assert cells[at + 2 : at + 4] == ["20 %", f"{np.nanmean(width):.4g}".replace("-", "−")]
    assert ["deep", "green", "blue", "red"][0] in page.text
    generated = [e for e in page.all("th") if e.text == "generated"]
    assert len(generated) == 4  # two of each class


def test_fills_of_a_column_that_another_one_determines_are_better_than_the_mean(fitted, wine):
    X = wine[2]
    found = fill_errors(fitted, X)
    model, mean = np.array([[float(cell) for cell in line] for line in found]).T
    assert len(found) == X.shape[1]
    assert model.mean() < 0.95 * mean.mean()
    assert mean.mean() == pytest.approx(1, abs=0.1)  # the mean's error is one standard deviation


def test_an_estimate_is_shown_as_such(own):
    run = read_run(own / "rows", device="cpu")
    estimate = {"errors": 2, "labeled_rows": 53, "accuracy": 51 / 53}
    run = dataclasses.replace(run, result={**run.result, "estimate": estimate})
    assert tiles(run, None)[0][:2] == ("Error on new rows, estimated", "3.77 %")
    assert "2 of 53 labeled rows, held out in turn" in errors_of(run).interval


def test_rows_are_named_by_their_numbers_in_the_file():
    rows = training_rows(np.arange(5000.0)[:, None])
    assert len(rows.x) == 2000
    assert all(rows.number(k) == str(int(rows.x[k, 0])) for k in (0, 7, 1999))


def test_a_run_whose_data_is_gone_has_a_report(own):
    run = read_run(own / "digits", device="cpu")
    page = check_page(run_report(run, None))
    assert "The rows are not at hand" in page.text
    assert "Generated images" in page.headings
