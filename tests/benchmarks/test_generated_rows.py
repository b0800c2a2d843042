"""The benchmark of generated rows: its tables, its scores, and its command."""

import json

import numpy as np
import pandas as pd
import pytest

from benchmarks import generated_rows
from benchmarks.generated_rows import FEWEST_ROWS, Generated, complete, main, measured, summary
from benchmarks.tables.cells import Key
from benchmarks.tables.tasks import Table, draw_task, read_table


def test_tables_are_made_complete_by_leaving_out_columns_then_rows():
    n = FEWEST_ROWS + 10
    x = pd.DataFrame({"a": np.arange(n, dtype=float), "b": np.ones(n), "c": np.ones(n)})
    x.loc[:9, "b"] = np.nan
    x.loc[:40, "c"] = np.nan
    found = complete(Table(x, np.arange(n)))
    assert list(found.x.columns) == ["a", "b"]
    assert found.x["a"].tolist() == found.y.tolist() == list(range(10, n))
    x.loc[10, "b"] = np.nan
    assert complete(Table(x, np.arange(n))) is None


@pytest.fixture(name="generators")
def make_generators(monkeypatch):
    """A perfect generator, one that mixes up the classes, and one that knows a single class and numbers far away."""
    of_wine = draw_task(read_table("wine", None), missing=0.0, seed=1)

    def perfect(task, n):
        return Generated(of_wine.x[:n], of_wine.y[:n])

    def mixed_up(task, n):
        return Generated(of_wine.x[:n], np.random.default_rng(0).permutation(of_wine.y[:n]))

    def far(task, n):
        return Generated(of_wine.x[:n] + 1e4, np.zeros(n, int))

    monkeypatch.setattr(generated_rows, "GENERATORS", {"perfect": perfect, "mixed up": mixed_up, "far": far})


def test_scores_of_good_and_of_bad_generators(generators):
    task = draw_task(read_table("wine", None), missing=0.0, seed=0)
    perfect, mixed_up, far = (measured(task, name) for name in ("perfect", "mixed up", "far"))
    assert perfect["useful"] > 0.95
    assert mixed_up["useful"] < 0.6
    assert perfect["detected"] < 0.7
    assert far["detected"] == 1
    assert far["accuracy_LR"] == pytest.approx(100 * np.mean(task.y_test == 0), abs=1e-3)


def test_the_summary_compares_what_all_generators_have_done():
    cells = {
        Key("iris", "0", None, 0, "mmdgm"): {"useful": 0.9, "detected": 0.6, "seconds": 8.0},
        Key("wine", "0", None, 0, "mmdgm"): {"useful": 1.0, "detected": 0.5, "seconds": 10.0},
        Key("digits", "0", None, 0, "mmdgm"): {"useful": 0.1, "detected": 1.0, "seconds": 99.0},
        Key("iris", "0", None, 0, "TVAE"): {"useful": 0.7, "detected": 0.9, "seconds": 3.0},
        Key("wine", "0", None, 0, "TVAE"): {"useful": 0.8, "detected": 0.8, "seconds": 5.0},
    }
    lines = summary(cells).splitlines()
    assert lines[0] == "2 tables, 2 tasks"
    assert lines[-2:] == ["| mmdgm | 0.950 | 0.900 | 0.550 | 9 |", "| TVAE | 0.750 | 0.700 | 0.850 | 4 |"]


def test_the_command_does_what_the_file_lacks(generators, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(generated_rows, "GENERATORS", {"mmdgm": generated_rows.GENERATORS["perfect"]})
    words = ["--out", str(tmp_path / "cells.json"), "--only", "mmdgm", "--names", "wine"]
    main(words)
    first = json.loads((tmp_path / "cells.json").read_text())["cells"]
    assert list(first) == ["wine/0/-/0/mmdgm"]
    main([*words[:-1], "iris", "--show"])
    assert "1 tables, 1 tasks" in capsys.readouterr().out
    main([*words, "--seeds", "0-1"])
    again = json.loads((tmp_path / "cells.json").read_text())["cells"]
    assert set(again) == {"wine/0/-/0/mmdgm", "wine/0/-/1/mmdgm"}
    assert again["wine/0/-/0/mmdgm"] == first["wine/0/-/0/mmdgm"]
