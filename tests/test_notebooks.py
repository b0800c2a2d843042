"""The notebooks run, and what is stored in them is what they show. Needs no Jupyter."""

import json
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest

from docs.notebooks import execute

SIZE = 500_000


@pytest.fixture(scope="module", name="ran")
def make_ran():
    """Each notebook, run again, with the names that it leaves behind."""
    return {path.stem: execute.run(path) for path in execute.NOTEBOOKS}


def kinds(cell):
    return [(output["output_type"], sorted(output.get("data", []))) for output in cell["outputs"]]


@pytest.mark.slow
def test_few_labels_are_enough_for_the_digits(ran):
    names = ran["few-labels-with-images"][1]
    rest, wrong = names["y"] == -1, names["predicted"] != names["truth"]
    assert rest.sum() == 1777
    assert wrong[rest].mean() < 0.08
    assert wrong[names["order"][:200]].mean() > 2 * wrong[names["order"][200:]].mean()


@pytest.mark.slow
def test_a_table_with_holes_is_predicted_and_filled(ran):
    names = ran["holes-in-a-table"][1]
    X, rest = names["X"], ~names["labeled"]
    assert np.mean(names["clf"].predict(X)[rest] != names["grower"][rest]) < 0.1
    assert names["error"](names["filled"]) < 0.9 * names["error"](names["means"])
    assert 0.8 < names["inside"] < 0.97
    assert names["difference"] < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("path", execute.NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stored_as_they_come(path, ran):
    stored, again = execute.read(path), ran[path.stem][0]
    code = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    for before, after in zip(stored["cells"], again["cells"], strict=True):
        assert before["source"] == after["source"]
        if before["cell_type"] == "code":
            assert kinds(before) == kinds(after), "".join(before["source"])


@pytest.mark.parametrize("path", execute.NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_small_and_speak_of_no_machine(path):
    assert path.stat().st_size < SIZE
    text = path.read_text()
    assert "Traceback" not in text
    assert not [place for place in (Path.home(), gettempdir(), Path.cwd()) if f"{place}/" in text]
    assert json.loads(text)["nbformat"] == 4


def test_outputs_of_a_cell_are_what_a_kernel_would_store():
    names = {}
    assert execute.outputs("a = 2\nprint(a)\na + 1", names, 3, "a cell") == [
        {"output_type": "stream", "name": "stdout", "text": ["2\n"]},
        {"output_type": "execute_result", "execution_count": 3, "data": {"text/plain": ["3"]}, "metadata": {}},
    ]
    assert execute.outputs("a + 1;", names, 4, "a cell") == []
    (figure,) = execute.outputs("from matplotlib import pyplot\npyplot.plot([1, 2]);", names, 5, "a cell")
    assert figure["data"]["image/png"].startswith("iVBOR")
    with pytest.raises(ZeroDivisionError):
        execute.outputs("1 / 0", names, 6, "a cell")
