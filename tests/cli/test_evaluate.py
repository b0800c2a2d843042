"""`mmdgm evaluate`: a run on its test set, and any run on labeled rows that a user brings."""

from pathlib import Path

import numpy as np
import pandas
import pytest

import mmdgm as library
from conftest import read_csv
from mmdgm.data import datasets
from mmdgm.data.labeled_files import read_data
from mmdgm.files import read_json

DIGITS = datasets.load("digits")
CPU = ("--device", "cpu")


def test_a_presets_run_is_judged_on_its_test_and_validation_rows(answer, mmdgm, trained):
    result = read_json(trained / "result.json")
    figures = answer("evaluate", trained, *CPU)
    names = ("error_percent", "elbo", "elbo_binarised")
    assert list(figures) == [*names, *(f"validation_{name}" for name in names)]
    for name, value in figures.items():
        assert value == pytest.approx(result[name], rel=1e-5)
    wrong = library.load(trained, device="cpu").predict(DIGITS.x_test[:, 0]) != DIGITS.y_test
    assert figures["error_percent"] == 100 * wrong.mean()
    code, out, _ = mmdgm("evaluate", trained, *CPU)
    assert code == 0
    lines = [line.rsplit(maxsplit=1) for line in out.splitlines()]
    assert [value for _, value in lines] == [f"{value:.2f}" for value in figures.values()]
    assert lines[0][0] == "error %"


def test_the_log_likelihood_lies_above_the_bound(answer, trained):
    figures = answer("evaluate", trained, "--draws", 5, *CPU)
    assert figures["log_likelihood"] > figures["elbo"]
    assert "validation_log_likelihood" not in figures


def test_labeled_rows_of_ones_own(answer, trained, own):
    """Unlabeled rows do not count, and a preset's run takes such rows too."""
    y = DIGITS.y_train[:20]
    for run in (trained, own / "digits"):
        wrong = library.load(run, device="cpu").predict(DIGITS.x_train[:20, 0].astype(np.float64)) != y
        figures = answer("evaluate", run, own / "digits.npz", *CPU)
        assert figures["error_percent"] == pytest.approx(100 * wrong.mean())
        assert np.isfinite(figures["elbo"])


def test_a_table_with_holes_has_the_error_of_its_predictions(answer, own):
    answer("predict", own / "rows", own / "table.csv", "--out", "predicted.csv")
    pairs = [
        (truth[3], found[1])
        for truth, found in zip(read_csv(own / "table.csv")[1:], read_csv("predicted.csv")[1:], strict=True)
        if truth[3]
    ]
    wrong = 100 * np.mean([truth != found for truth, found in pairs])
    assert answer("evaluate", own / "rows", own / "table.csv")["error_percent"] == pytest.approx(wrong)
    cells = read_csv(own / "table.csv")
    turned = "\n".join(",".join(f'"{row[i]}"' for i in (3, 2, 1, 0)) for row in cells)
    Path("turned.csv").write_text(turned.replace('"kind"', '"sort"'))
    figures = answer("evaluate", own / "rows", "turned.csv", "--target", "sort")
    assert figures["error_percent"] == pytest.approx(wrong)


@pytest.mark.parametrize("name", ["table.tsv", "table.parquet"])
def test_a_table_is_judged_alike_in_every_format(answer, own, name):
    table = pandas.read_csv(own / "table.csv").rename(columns={"kind": "sort"})
    table.to_parquet(name) if name == "table.parquet" else table.to_csv(name, sep="\t", index=False)
    figures = answer("evaluate", own / "rows", own / "table.csv")
    assert answer("evaluate", own / "rows", name, "--target", "sort") == pytest.approx(figures)
    table.rename(columns={"sort": "kind"}).to_parquet("same.parquet")
    assert answer("evaluate", own / "rows", "same.parquet") == pytest.approx(figures)


def test_a_folder_of_images_is_resized_as_in_training(answer, own):
    data = read_data(own / "images", size="8x12")
    right = library.load(own / "pictures", device="cpu").score(data.x, data.y)
    figures = answer("evaluate", own / "pictures", own / "images", *CPU)
    assert figures["error_percent"] == pytest.approx(100 * (1 - right))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run",), "run holds no run"),
        (("OWN/rows",), "OWN/rows has no test set of its own; give labeled rows: mmdgm evaluate OWN/rows DATA"),
        (("OWN/rows", "absent.csv"), "absent.csv is missing"),
        (("OWN/rows", "new.csv"), "the label huge is no class; the classes are ['large', 'small']"),
        (("OWN/rows", "few.csv"), "has no column height, which the model was trained on"),
        (("OWN/rows", "none.csv"), "none.csv: no row is labeled"),
        (("OWN/rows", "OWN/table.csv", "--target", "size"), "--target size: is no column"),
        (("OWN/columns", "OWN/digits.npz"), "but the model was fitted on a table (rows, 3)"),
        (("OWN/columns", "four.npz"), "but the model was fitted on a table (rows, 3)"),
        (("OWN/rows", "text.npz"), "columns with categories; give a CSV, TSV or Parquet file"),
        (("OWN/rows", "OWN/images"), "was trained on a table; give a CSV, TSV, Parquet or npz file"),
        (("OWN/digits", "OWN/table.csv", "--target", "kind"), "was trained on images"),
        (("TRAINED", "OWN/columns.npz"), "but the model was fitted on images (rows, 8, 8)"),
        (("TRAINED", "--draws", "-1"), "Invalid value for '--draws'"),
        (("TRAINED", "--device", "tpu"), "device tpu: use auto, cpu or cuda"),
    ],
)
def test_mistakes(refused, trained, own, words, said):
    np.savez("four.npz", x=np.eye(4)[:2], y=[0, 1])
    np.savez("text.npz", x=np.eye(3), y=["large", "small", "small"])
    Path("new.csv").write_text("width,colour,height,kind\n1,red,2,huge\n")
    Path("few.csv").write_text("width,colour,kind\n1,red,large\n2,red,small\n")
    Path("none.csv").write_text("width,colour,height,kind\n1,red,2,\n")
    for name, place in {"OWN": own, "TRAINED": trained}.items():
        words, said = [word.replace(name, str(place)) for word in words], said.replace(name, str(place))
    assert said in refused("evaluate", *words, watched=[own, trained])


def test_an_estimator_saved_from_python_is_judged_on_given_rows(answer, refused, own, tmp_path):
    model = library.load(own / "columns")
    model.save(tmp_path / "saved")
    with np.load(own / "columns.npz") as file:
        right = model.score(file["x"], file["y"])
    assert answer("evaluate", "saved", own / "columns.npz")["error_percent"] == pytest.approx(100 * (1 - right))
    assert "saved has no test set of its own; give labeled rows" in refused("evaluate", "saved")
