"""The README's code runs: its tour on the command line, then its Python blocks in order."""

import json
import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pytest

from mmdgm.data import datasets
from mmdgm.experiments.paper.tables import TABLES
from mmdgm.experiments.presets import find_preset
from mmdgm.experiments.training_runs import differing_settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_readme_runs(tmp_path, monkeypatch, mmdgm):
    monkeypatch.chdir(tmp_path)
    holes = datasets.load("digits").x_test[:4].astype(float)
    holes[:, :, 2:4] = np.nan
    np.savez("holes.npz", x=holes)
    tour = [line for line in blocks("sh")[1].splitlines() if line]
    assert len(tour) == 7
    for line in tour:
        words = shlex.split(line, comments=True)
        shortened = ["--set", "epochs=2", "--device", "cpu"] if words[1] == "train" else []
        assert mmdgm(*words[1:], *shortened)[0] == 0, line
    written = {str(path) for path in Path().rglob("*.png")}
    assert {"runs/few/samples.png", "runs/few/figures/samples.png", "holes-imputed.png"} <= written
    names = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert names["filled"].shape == (16, 1, 8, 8)
    assert names["images"].shape == (10, 8, 1, 8, 8)
    assert names["terms"].hinge.shape == (8,)


def test_the_paper_s_tables_are_those_of_the_result_files():
    publish = runpy.run_path(str(ROOT / "results" / "publish.py"))
    tables = publish["published"]()
    readme, reproduction = (page.read_text() for page in publish["PAGES"])
    assert all(tables[name] in readme for name in ("table1", "table6")), "run `make tables`"
    assert all(table in reproduction for table in tables.values()), "run `make tables`"
    for text in (readme, reproduction):
        assert publish["filled"](text, tables) == text


def test_a_page_with_one_of_a_table_s_marks_is_refused():
    filled = runpy.run_path(str(ROOT / "results" / "publish.py"))["filled"]
    assert filled("<!-- t -->\nold\n<!-- /t -->.", {"t": "new", "u": "other"}) == "<!-- t -->\n\nnew\n<!-- /t -->."
    for page in ("<!-- t -->\nold", "old\n<!-- /t -->", "<!-- /t --> <!-- t -->\n"):
        with pytest.raises(ValueError, match="there is no <!-- t --> with <!-- /t --> after it"):
            filled(page, {"t": "new"})


def test_figures_in_the_text_are_those_of_the_result_files():
    def errors(folder):
        return [
            json.loads(file.read_text())["error_percent"] for file in (ROOT / "results" / folder).glob("*/*.json")
        ]

    def spread(folder):
        return f"{np.mean(errors(folder)):.2f} ± {np.std(errors(folder), ddof=1):.2f}"

    def short(folder):
        return spread(folder).replace("± 0", "± ")

    deviations, mmcva = ((ROOT / page).read_text() for page in ("results/DEVIATIONS.md", "docs/mmcva.md"))
    assert f"with 100 labels: {short('table6/mnist-mmcva-100')} %" in deviations
    assert f"{short('ablations/mnist-mmcva-100-classifier')} %" in deviations
    for labels in ("100", "1000", "all"):
        plain, averaged = (short(f"table6/mnist-mmcva-{labels}{kind}") for kind in ("", "-modern"))
        assert re.search(rf" {plain} % \(paper [^)]*\), averaged and distorted {averaged} ", deviations)
        assert f"in {averaged.split()[0]} against {plain.split()[0]} %" in mmcva
    assert f"errs in **{spread('table6/mnist-mmcva-100-modern')} %** with 100 labels" in README
    assert f"[{spread('mnist/mnist-mmcva-100-84-epochs')} %]" in (ROOT / "docs" / "performance.md").read_text()
    seed_0 = json.loads((ROOT / "results/table6/mnist-mmcva-100/seed-0/result.json").read_text())
    assert f"errs in {seed_0['error_percent']:.2f} % of the test images" in README


def test_published_runs_are_those_of_the_presets():
    """All that a table is laid out from, and where two tables show a run, they show the same."""
    cells, figures = set(), {}
    folders = {table.folder for table in TABLES.values()}
    for file in sorted(
        file for name in folders for file in (ROOT / "results" / name).glob("mnist-*/*/result.json")
    ):
        *_, cell, seed, _ = file.parts
        result = json.loads(file.read_text())
        trained = result.get("trained", result)
        differing = {key for key, *_ in differing_settings(trained["config"], find_preset(cell).config)}
        assert differing <= {"checkpoint_seconds"}, file
        assert (f"seed-{result['seed']}", result["quick"]) == (seed, False)
        if (*file.parts[-4:-2], seed) == ("ablations", "mnist-mmcva-100-hat3", "seed-1"):
            assert result["status"] == "stopped"
            continue
        assert result["status"] == "done"
        shown = (trained["error_percent"], trained["elbo"])
        assert figures.setdefault((cell, seed), shown) == shown
        cells.add((file.parts[-4], cell))
    assert len(cells) == 4 + 6 + 5 + 7 + 9 + 5


def test_the_neighbours_of_the_embedding_are_those_of_the_result_file():
    page = (ROOT / "docs" / "reproduction.md").read_text()
    found = json.loads((ROOT / "results" / "figures-mnist" / "tsne.json").read_text())["accuracy"]
    percent = {
        where: [f"{100 * found[model][where]:.1f}" for model in ("VA", "MMVA")]
        for where in ("in the plane", "in the features")
    }
    said = " ".join(page.split())
    assert "{} % of them with VA's features, of {} % with MMVA's".format(*percent["in the plane"]) in said
    assert "in the features themselves {} and {} %".format(*percent["in the features"]) in said


def test_the_figures_of_the_conditional_samples_are_those_of_the_result_file():
    page = " ".join((ROOT / "docs" / "reproduction.md").read_text().split())
    numbers = json.loads((ROOT / "results" / "figures-ssl-mnist" / "samples.json").read_text())
    found = numbers["models"]["mnist-mmcva-100"]
    assert f"Of {numbers['samples']:,} such samples" in page
    assert f"{found['agreement_percent']:.2f} % into the class that was asked for" in page
    assert f"errs in {found['trained_on_samples_error_percent']:.2f} % of the test images" in page


def test_readme_figures_of_svhn_and_norb_are_those_of_the_result_files():
    rows = re.findall(
        r"^\| `((\w+)-mmcva-1000)` \| ([\d.]+) \| (−[\d.]+) \| ([\d.]+) \|", README, flags=re.MULTILINE
    )
    assert len(rows) == 2
    for cell, dataset, error, bound, alone in rows:
        full, labels_alone = (
            json.loads((ROOT / "results" / dataset / name / "seed-0" / "result.json").read_text())
            for name in (cell, f"{cell}-labels-alone")
        )
        assert error == f"{full['error_percent']:.2f}"
        assert alone == f"{labels_alone['error_percent']:.2f}"
        assert bound == f"{full['elbo']:.1f}".replace("-", "−")


def test_readme_figures_of_the_estimators_are_those_of_the_result_files():
    folder = ROOT / "results" / "estimators"
    tables = json.loads((folder / "tables.json").read_text())["results"]
    for kind, key, digits in (("accuracy %", "accuracy", 1), ("RMSE of imputation", "rmse", 3)):
        (row,) = re.findall(rf"^\| {kind}, `MMCVAClassifier\(\)` \| (.*) \|$", README, flags=re.MULTILINE)
        found = [cell.split(" ± ")[0] for cell in row.split(" | ")]
        ours = [np.mean([seed[key] for seed in methods["mmdgm"]]) for methods in tables.values()]
        assert found == [f"{value:.{digits}f}" for value in ours]
    mnist = json.loads((folder / "mnist-100.json").read_text())["results"]
    for name, label in (("mmdgm-images", "images"), ("mmdgm-columns", "784 columns")):
        pattern = rf"^\| `MMCVAClassifier\(\)`, {label} \| ([\d.]+) ±"
        (error,) = re.findall(pattern, README, flags=re.MULTILINE)
        assert error == f"{np.mean([seed['error_percent'] for seed in mnist[name]]):.2f}"
