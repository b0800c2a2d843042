"""The benchmark of intervals from draws."""

import json

import pandas as pd

from benchmarks.coverage_of_draws import covered, main
from benchmarks.tables.tasks import Table, draw_task


def test_intervals_of_iris_cover_about_nine_tenths(tmp_path, capsys):
    main(["--out", str(tmp_path / "cells.json"), "--names", "iris"])
    cells = json.loads((tmp_path / "cells.json").read_text())["cells"]
    cell = cells["iris/0.3/-/0/mmdgm"]
    assert 0.85 < cell["covered_by_100"] < 0.97
    assert 0.75 < cell["covered_by_20"] <= cell["covered_by_100"]
    assert f"100 draws: {100 * cell['covered_by_100']:.1f} % covered, 1 tasks" in capsys.readouterr().out


def test_a_table_without_numbers_has_no_intervals():
    x = pd.DataFrame({"a": ["x", "y"] * 20, "b": ["u", "v", "w", "w"] * 10}, dtype=object)
    assert covered(draw_task(Table(x, pd.factorize(x["a"])[0]), missing=0.3, seed=0)) is None
