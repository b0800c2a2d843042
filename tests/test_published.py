"""Pages show what results/ holds: tables, figures in sentences, and the runs that they are made of."""

import json
import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from benchmarks import costs, gradient_variance
from benchmarks.few_labels import figures, markdown
from benchmarks.tables.cells import Results
from benchmarks.tables.summary import Condition, summary
from mmdgm.experiments.configs import differing_settings
from mmdgm.experiments.paper.tables import TABLES
from mmdgm.experiments.presets import find_preset
from mmdgm.files import write_json

ROOT = Path(__file__).parents[1]


def test_tables_and_figures_are_those_of_the_result_files():
    publish = runpy.run_path(str(ROOT / "results" / "publish.py"))
    tables = publish["published"]()
    pages = {page.name: page.read_text() for page in publish["PAGES"]}
    assert pages.keys() >= {"README.md", "reproduction.md", "mmcva.md", "DEVIATIONS.md"}
    assert all(table in pages["reproduction.md"] for table in tables.values()), "run `make tables`"
    for name, text in pages.items():
        assert publish["filled"](text, tables) == text, f"{name}: run `make tables`"


def test_the_headline_figures_are_marked():
    """Every cell of README's column "ours" and every count of seeds is filled from result files."""
    text = (ROOT / "README.md").read_text()
    rows = [line.strip("|").split("|") for line in text.splitlines() if re.match(r"\| (MNIST|SVHN|small NORB),", line)]
    assert len(rows) >= 8
    for _, _, _, ours, seeds in rows:
        preset = re.fullmatch(r" <!-- =(\S+) error -->[^<]+<!-- / --> ", ours).group(1)
        assert re.fullmatch(rf" <!-- ={preset} seeds -->\d+<!-- / --> ", seeds)


def test_a_page_with_one_of_a_table_s_marks_is_refused():
    filled = runpy.run_path(str(ROOT / "results" / "publish.py"))["filled"]
    assert filled("<!-- t -->\nold\n<!-- /t -->.", {"t": "new", "u": "other"}) == "<!-- t -->\n\nnew\n<!-- /t -->."
    for page in ("<!-- t -->\nold", "old\n<!-- /t -->", "<!-- /t --> <!-- t -->\n"):
        with pytest.raises(ValueError, match="there is no <!-- t --> with <!-- /t --> after it"):
            filled(page, {"t": "new"})


@pytest.fixture(name="fill")
def make_fill(tmp_path, monkeypatch):
    """publish.py's `filled`, with three results of a preset called p, of which one was stopped."""
    filled = runpy.run_path(str(ROOT / "results" / "publish.py"))["filled"]
    monkeypatch.setitem(filled.__globals__, "RESULTS", tmp_path)
    figures = ((1.0, -90.0, 1000.4), (2.0, -92.0, 2000.0))
    for seed, (error, bound, seconds) in enumerate(figures):
        result = {"status": "done", "error_percent": error, "elbo": bound, "seconds": seconds}
        write_json(tmp_path / "runs" / "p" / f"seed-{seed}" / "result.json", result)
    write_json(tmp_path / "runs" / "p" / "seed-2" / "result.json", {"status": "stopped"})
    write_json(tmp_path / "runs-aside" / "q" / "seed-0" / "result.json", {"status": "done", "error_percent": 3.0})
    return lambda page: filled(page, {})


@pytest.mark.parametrize(
    ("mark", "figure"),
    [
        ("p error", "1.50 ± 0.71"),
        ("p error mean", "1.50"),
        ("p error max", "2.00"),
        ("p/seed-0 error", "1.00"),
        ("p bound", "−91.00 ± 1.41"),
        ("p bound min", "−92.00"),
        ("p seconds mean", "1,500"),
        ("p seeds", "2"),
        ("q error", "3.00"),
    ],
)
def test_a_mark_in_a_sentence_is_filled(fill, mark, figure):
    page = f"It errs in **<!-- ={mark} -->?<!-- / --> %**, or <!-- =p seeds -->7<!-- / -->."
    assert fill(page) == f"It errs in **<!-- ={mark} -->{figure}<!-- / --> %**, or <!-- =p seeds -->2<!-- / -->."


@pytest.mark.parametrize(
    ("page", "why"),
    [
        ("in <!-- =p error -->1.5", "not of the form"),
        ("in 1.5<!-- / -->", "not of the form"),
        ("in <!-- =p -->1.5<!-- / -->", "not of the form"),
        ("in <!-- =r error -->1.5<!-- / -->", "no results of r"),
        ("in <!-- =p/seed-2 error -->1.5<!-- / -->", "no results of p/seed-2"),
        ("in <!-- =p loss -->1.5<!-- / -->", "no figure loss"),
        ("in <!-- =p error least -->1.5<!-- / -->", "no figure error least"),
        ("in\n<!-- =p error -->1.5<!-- / -->", "begins with a mark"),
        ("- <!-- =p error -->1.5<!-- / -->", "begins with a mark"),
    ],
)
def test_a_mark_that_cannot_be_filled_is_refused(fill, page, why):
    with pytest.raises(ValueError, match=why):
        fill(page)


def test_published_runs_are_those_of_the_presets():
    stopped = []
    for file in sorted((ROOT / "results" / "runs").glob("*/*/result.json")):
        *_, preset, seed, _ = file.parts
        result = json.loads(file.read_text())
        differing = {key for key, *_ in differing_settings(result["config"], find_preset(preset).config)}
        assert differing <= {"checkpoint_seconds"}, file
        assert (f"seed-{result['seed']}", result["quick"]) == (seed, False)
        if result["status"] != "done":
            stopped.append((preset, seed, result["status"]))
    assert stopped == [("mnist-mmcva-100-hat3", "seed-1", "stopped")]
    for table in TABLES.values():
        cells = {file.parts[-3] for file in (ROOT / "results" / table.folder).glob("*/*/result.json")}
        assert cells >= {*table.presets, *table.baselines}


def test_what_was_measured_with_missing_pixels_are_the_published_runs():
    for file in sorted((ROOT / "results" / "missing").glob("mnist-*/*/result.json")):
        *_, preset, seed, _ = file.parts
        result = json.loads(file.read_text())
        assert (result["status"], f"seed-{result['seed']}", result["quick"]) == ("done", seed, False)
        trained = result["trained"]
        differing = {key for key, *_ in differing_settings(trained["config"], find_preset(preset).config)}
        assert differing <= {"checkpoint_seconds"}, file
        run = ROOT / "results" / "runs" / preset / seed / "result.json"
        if preset == "mnist-cnn":  # its runs were not kept
            assert not run.exists()
        else:
            assert json.loads(run.read_text()).items() >= trained.items()


def test_every_result_is_committed_once():
    contents = {}
    for file in sorted((ROOT / "results").rglob("*.json")):
        contents.setdefault(file.read_bytes(), []).append(str(file))
    assert [files for files in contents.values() if len(files) > 1] == []


def test_figures_of_embedding_and_samples_are_those_of_the_result_files():
    page = (ROOT / "docs" / "reproduction.md").read_text()
    found = json.loads((ROOT / "results" / "figures-mnist" / "tsne.json").read_text())["accuracy"]
    figures = [f"{100 * share:.1f}" for of_model in found.values() for share in of_model.values()]
    numbers = json.loads((ROOT / "results" / "figures-ssl-mnist" / "samples.json").read_text())
    samples = numbers["models"]["mnist-mmcva-100"]
    figures += [f"{samples[name]:.2f}" for name in ("agreement_percent", "trained_on_samples_error_percent")]
    figures.append(f"{numbers['samples']:,}")
    on_page = set(re.findall(r"\d[\d,]*(?:\.\d+)?", page))
    assert [figure for figure in figures if figure not in on_page] == []


def test_the_comparison_with_scikit_learn_is_that_of_the_result_files():
    page = (ROOT / "docs" / "comparison.md").read_text()
    folder = ROOT / "results" / "estimators"
    cells = Results(folder / "tables.json").cells()
    for missing, labels in (("0.3", 10), ("0.3", 50), ("real", 10), ("real", 50)):
        assert summary(cells, [Condition(missing, labels)]) in page
    mnist = json.loads((folder / "mnist-100.json").read_text())["results"]
    for name, label in (("mmdgm-images", "images"), ("mmdgm-columns", "784 columns")):
        pattern = rf"^\| `MMCVAClassifier\(\)`, {label} \| ([\d.]+) ±"
        (error,) = re.findall(pattern, page, flags=re.MULTILINE)
        assert error == f"{np.mean([seed['error_percent'] for seed in mnist[name]]):.2f}"


def test_the_comparison_of_rows_to_label_is_that_of_the_result_file():
    cells = json.loads((ROOT / "results" / "estimators" / "few-labels.json").read_text())["cells"]
    page = (ROOT / "docs" / "comparison.md").read_text()
    assert markdown(cells) in page
    assert markdown(cells, "classifier") in page
    mean = {
        name: np.mean(figures(cells, "mnist", *name, "classifier")) for name in (("random", 100), ("balanced", 100))
    }
    assert mean["random", 100] <= 1.3 * mean["balanced", 100]


def test_the_noise_of_gradient_estimators_is_that_of_the_result_file():
    noise = json.loads((ROOT / "results" / "bench" / "gradient-variance.json").read_text())["noise"]
    assert gradient_variance.markdown(noise) in (ROOT / "docs" / "mmva.md").read_text()
    for samples in gradient_variance.DRAWS:  # what the page says of it
        of_phi = [noise[f"{way}/{samples}"]["φ"] for way in gradient_variance.WAYS]
        assert max(of_phi[:2]) < min(of_phi[4:]) < max(of_phi[4:]) < min(of_phi[2:4])


def test_the_table_of_costs_is_that_of_the_result_file():
    cells = json.loads((ROOT / "results" / "estimators" / "costs.json").read_text())["cells"]
    assert costs.markdown(cells) in (ROOT / "docs" / "choosing.md").read_text()
