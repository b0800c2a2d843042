"""Cost files: their order, their scale, and what is refused with one line."""

import numpy as np
import pytest

from mmdgm.data.cost_files import read_costs
from small_datasets import input_error

CLASSES = ["cat", "dog", "fish"]


def test_costs_come_in_the_order_of_the_classes_with_mean_1(tmp_path):
    path = tmp_path / "costs.csv"
    path.write_text("true,fish, dog ,cat\ndog,3,0,1\ncat,2,1,0\nfish,0,5,12\n")
    costs = np.array(read_costs(path, CLASSES))
    np.testing.assert_allclose(costs, np.array([[0, 1, 2], [1, 0, 3], [12, 5, 0]]) / 4)
    assert costs.sum() / 6 == pytest.approx(1)


def test_cells_of_right_predictions_must_be_0_and_the_corner_may_be_empty(tmp_path):
    path = tmp_path / "costs.csv"
    path.write_text(",0,1\n0,0,10\n1,1,0\n")
    np.testing.assert_allclose(read_costs(path, ["0", "1"]), np.array([[0, 10], [1, 0]]) / 5.5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("true,cat,dog\ncat,0,1\ndog,1,0\n", "the header lacks the class 'fish'"),
        ("true,cat,dog,fish\ncat,0,1,1\ndog,1,0,1\n", "the first column, 'true', lacks the class 'fish'"),
        ("true,cat,dog,fish,cow\ncat,0,1,1,1\n", "'cow', which is no class of the data (cat, dog, fish)"),
        ("true,cat,dog,fish\ncat,0,1,1\ndog,1,0,1\nfish,1,1,0\ncat,0,1,1\n", "has the class 'cat' twice"),
        ("true,cat,dog,fish\ncat,0,1,1\ndog,1,0,many\nfish,1,1,0\n", "line 3, column fish: the cost 'many' must be"),
        ("true,cat,dog,fish\ncat,0,1,1\ndog,1,0,\nfish,1,1,0\n", "line 3, column fish: the cost '' must be a number"),
        ("true,cat,dog,fish\ncat,0,-1,1\ndog,1,0,1\nfish,1,1,0\n", "line 2, column dog: the cost '-1' must be"),
        ("true,cat,dog,fish\ncat,0,1,1\ndog,1,2,1\nfish,1,1,0\n", "line 3, column dog: the cost '2' must be 0,"),
        ("true,cat,dog,fish\ncat,0,0,0\ndog,0,0,0\nfish,0,0,0\n", "all costs are 0"),
        ("", "is empty"),
    ],
)
def test_what_does_not_fit_the_classes_is_refused(tmp_path, text, words):
    path = tmp_path / "costs.csv"
    path.write_text(text)
    assert words in input_error(read_costs, path, CLASSES)
