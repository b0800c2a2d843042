"""The paper's tables: its own figures, and how ours stand beside them."""

from mmdgm.experiments.paper import printed as paper
from mmdgm.experiments.paper.sheets import mean_and_deviation, origins, ranges
from mmdgm.experiments.paper.supervised import preset_of
from mmdgm.experiments.paper.tables import TABLES
from mmdgm.experiments.presets import find_preset


def test_spread():
    assert mean_and_deviation([], 2) == "–"
    assert mean_and_deviation([-93.174], 2) == "−93.17"
    assert mean_and_deviation([1843.9], 0) == "1,844"
    assert mean_and_deviation([1.0, 2.0], 2) == "1.50 ± 0.71"  # n − 1


def test_the_paper_s_figures_are_those_that_presets_are_listed_with():
    for name, error in paper.TABLE_1.items():
        assert find_preset(name).paper.startswith(f"{error:.2f} %")
    for C, (error, bound) in paper.TABLE_3.items():
        assert find_preset(preset_of(C)).paper == f"{error:.2f} %, bound {bound:.2f}".replace("-", "−")


def test_a_row_of_each_table_is_the_paper_s():
    assert list(paper.TABLE_4["Rect 12"].values()) == [0.1450, 0.1342, 0.1299, 0.1090]
    assert list(paper.TABLE_4["Rand-Drop 0.2"].values()) == [0.0109, 0.0110, 0.0111, 0.0147]
    assert list(paper.TABLE_5["Rect 12"].values()) == [47.2, 18.3, 15.9]
    assert paper.TABLE_1_QUOTED["DSN (Lee et al. 2015)"] == 0.39


def test_table_3_stands_beside_the_paper_s():
    runs = [{"error_percent": 1.7, "elbo": -95.5, "quick": False}, {"error_percent": 1.9, "elbo": -95.9}]
    (sheet,) = TABLES["table3"].lay_out({"mnist-conv-mmva-C1": runs})
    assert sheet.rows[1] == ["1", "1.80 ± 0.14", "1.86", "−95.70 ± 0.28", "−95.86", "2"]
    assert sheet.rows[2] == ["10", "–", "0.88", "–", "−95.90", "0"]
    assert "| 1 | 1.80 ± 0.14 | 1.86 | −95.70 ± 0.28 | −95.86 | 2 |" in sheet.markdown()


def test_every_cell_has_its_seeds_and_commits():
    one, two = {"git_commit": "1234567890"}, {"git_commit": "abcdefabcd+changes"}
    results = {
        "mnist-va": [{"seed": 0, **one}, {"seed": 1, **two}, {"seed": 2, **one}],
        "mnist-cnn": [{"seed": 0, **two, "trained": one}, {"seed": 3, **one, "trained": one}],
        "mnist-mmva": [{"seed": 4, **two}],
        "mnist-conv-va": [],
    }
    assert origins("Table 1", results).rows == [
        ["mnist-va", "0–2", "1234567 (seeds 0, 2); abcdefa+changes (seed 1)"],
        ["mnist-cnn", "0, 3", "abcdefa+changes, trained with 1234567 (seed 0); 1234567 (seed 3)"],
        ["mnist-mmva", "4", "abcdefa+changes"],
        ["mnist-conv-va", "–", "–"],
    ]
    assert ranges([4, 0, 2, 1]) == "0–2, 4"
