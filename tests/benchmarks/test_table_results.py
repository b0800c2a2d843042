"""The benchmark of tables: its command, the file of results, and what is printed from it."""

import json

import numpy as np
import pandas as pd
import pytest

from benchmarks.tables import measure
from benchmarks.tables.__main__ import is_asked, keys, main, parse
from benchmarks.tables.cells import Key, Results
from benchmarks.tables.classifiers import CLASSIFIERS, Method
from benchmarks.tables.summary import ACCURACY, IMPUTATION, Condition, by_method, by_table, compared, summary
from benchmarks.tables.tasks import Table


def cells_of_two_tables():
    accuracies = {"a": {"iris": (80.0, 90.0), "wine": (70.0, 70.0)}, "b": {"iris": (80.0, 80.0), "wine": (90.0, 70.0)}}
    return {
        Key(table, "0.3", 10, seed, method): {"accuracy": found, "fit_seconds": 1.0 + seed, "predict_seconds": 0.5}
        for method, of in accuracies.items()
        for table, scores in of.items()
        for seed, found in enumerate(scores)
    }


def test_methods_are_compared_by_ranks_of_means_over_seeds():
    cells = cells_of_two_tables()
    cells[Key("wine", "0.3", 10, 2, "a")] = {"accuracy": 0.0}  # a seed that b lacks
    cells[Key("wine", "0.3", 50, 0, "c")] = {"accuracy": 99.0}  # another condition
    found = compared(cells, Condition("0.3", 10), ACCURACY)
    assert (found.tables, found.methods, found.tasks) == (["iris", "wine"], ["a", "b"], 4)
    np.testing.assert_allclose(found.scores, [[85, 80], [70, 80]])
    assert by_method(found, ACCURACY).splitlines()[2:] == [
        "| a | 1.50 | 77.5 | 1 | 2 |",
        "| b | 1.50 | 80.0 | 1 | 2 |",
    ]
    assert by_table(found, ACCURACY).splitlines()[2:] == ["| iris | **85.0** | 80.0 |", "| wine | 70.0 | **80.0** |"]
    assert compared(cells, Condition("real", 10), ACCURACY) is None
    assert compared(cells, Condition("0.3", 10), ACCURACY, ["a"]).tasks == 5


def test_imputers_without_labels_are_compared_with_ours():
    cells = {
        Key("iris", "0.3", None, 0, "KNN"): {"imputation": 0.8, "impute_seconds": 1.0},
        Key("iris", "0.3", 10, 0, "ours"): {"imputation": 0.7, "fit_seconds": 5.0, "impute_seconds": 1.0},
        Key("iris", "0.3", 50, 0, "ours"): {"imputation": 0.6, "fit_seconds": 5.0, "impute_seconds": 1.0},
    }
    found = compared(cells, Condition("0.3", 50), IMPUTATION)
    np.testing.assert_allclose(found.scores, [[0.8, 0.6]])
    assert "| ours | 1.00 | 0.600 | 1 | 6 |" in summary(cells, [Condition("0.3", 50)])


def test_the_file_keeps_cells_and_says_what_measured_them(tmp_path):
    path = tmp_path / "new" / "cells.json"
    first, second = Key("iris", "0.3", None, 0, "KNN"), Key("iris", "real", 10, 1, "KNN+SVM")
    Results(path).add(first, {"imputation": 0.5})
    other = Results(path)
    other.software = {**other.software, "git_commit": "other"}
    other.add(second, {"accuracy": 90.0})
    assert Results(path).cells() == {
        first: {"imputation": 0.5, "software": 0},
        second: {"accuracy": 90.0, "software": 1},
    }
    assert "versions" in json.loads(path.read_text())["software"][0]
    assert list(path.parent.iterdir()) == [path]


def test_conditions_apply_by_missing_values_and_without_holes_one_imputer_is_enough():
    y = np.array([0, 1])
    with_holes, without = Table(pd.DataFrame({"a": [1.0, np.nan]}), y), Table(pd.DataFrame({"a": [1.0, 2.0]}), y)
    assert [is_asked(with_holes, m) for m in ("0.3", "0", "real")] == [True, False, True]
    assert [is_asked(without, m) for m in ("0.3", "0", "real")] == [True, True, False]
    options = parse(["--out", "x", "--only", "mean", "KNN+SVM", "forest+SVM", "--labels", "10", "50"])[1]
    assert [str(key) for key in keys("t", "0.3", 7, options)] == [
        *("t/0.3/-/7/mean", "t/0.3/10/7/KNN+SVM", "t/0.3/50/7/KNN+SVM"),
        *("t/0.3/10/7/forest+SVM", "t/0.3/50/7/forest+SVM"),
    ]
    assert [str(key) for key in keys("t", "0", 7, options)] == ["t/0/10/7/KNN+SVM", "t/0/50/7/KNN+SVM"]


def test_a_command_measures_what_is_missing_and_prints_the_summary(tmp_path, capsys, monkeypatch):
    path = tmp_path / "cells.json"
    words = ["--out", str(path), "--names", "wine", "--seeds", "0", "--labels", "10", "--missing", "0.3", "--tables"]
    main([*words, "--only", "mean", "KNN+LR"])
    before = Results(path).cells()
    asked = []
    fill = measure.Bench.imputes
    monkeypatch.setattr(measure.Bench, "imputes", lambda bench, name: asked.append(name) or fill(bench, name))
    main([*words, "--only", "mean", "KNN", "KNN+LR", "KNN+SVM", "HistGradientBoosting"])
    cells = Results(path).cells()
    assert asked == ["KNN"]
    assert len(cells) == 5
    assert before.items() <= cells.items()
    assert cells[Key("wine", "0.3", 10, 0, "KNN+SVM")]["accuracy"] > 80
    assert cells[Key("wine", "0.3", None, 0, "KNN")]["imputation"] < 0.95
    assert "30 % hidden, 10 labels per class: accuracy %, 1 tables, 1 tasks" in capsys.readouterr().out


def test_a_failure_is_told_and_is_no_cell(tmp_path, capsys, monkeypatch):
    def fail(x, y, seed):
        raise ValueError("no such thing")

    monkeypatch.setitem(CLASSIFIERS, "KNN+LR", Method("KNN", fail))
    path = tmp_path / "cells.json"
    words = ["--out", str(path), "--names", "iris", "--seeds", "0", "--labels", "10", "--missing", "0.3"]
    with pytest.raises(SystemExit, match="1 measurements failed"):
        main([*words, "--only", "KNN+LR", "KNN+SVM"])
    assert [key.method for key in Results(path).cells()] == ["KNN+SVM"]
    assert "no such thing" in capsys.readouterr().err


def test_wrong_input_is_one_line(tmp_path, capsys):
    (tmp_path / "cells.json").write_text('{"results": {}}')
    for words, line in (
        (["--out", str(tmp_path / "cells.json")], "is of another benchmark"),
        (["--out", str(tmp_path / "new.json"), "--names", "nowhere"], "there is no table nowhere"),
    ):
        with pytest.raises(SystemExit) as error:
            main([*words, "--seeds", "0"])
        assert error.value.code == 2
        assert line in capsys.readouterr().err
