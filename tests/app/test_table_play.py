"""Play with a table: cells are numbers or positions of values, and empty ones are filled as the estimator does."""

import numpy as np
import pytest

from mmdgm.app.table_play import TablePlay
from mmdgm.errors import InputError
from tests.app.conftest import NAMES


@pytest.fixture(name="play", scope="module")
def make_play(on_a_table):
    rows = np.array([[4.0, "red", -1.5], [0.25, None, 0.5]], object)
    return TablePlay(on_a_table, rows)


def test_columns_are_described_and_typical_values_are_theirs(play):
    about = play.about()
    assert [column["name"] for column in about["columns"]] == NAMES
    assert [column["kind"] for column in about["columns"]] == ["number", "category", "number"]
    colours = about["columns"][1]["values"]
    assert set(colours) == {"red", "blue", "deep, green"}
    low, high = about["columns"][0]["ends"]
    assert low < about["typical"][0] < high
    assert about["typical"][1] in range(3)


def test_a_whole_row_is_scored_as_by_the_estimator(play):
    red = play.about()["columns"][1]["values"].index("red")
    answer = play.look({"row": [4.0, red, -1.5]})
    scores = play.estimator.class_scores(np.array([[4.0, "red", -1.5]], object))[0]
    np.testing.assert_allclose(answer["scores"], scores, atol=1e-5)
    assert answer["filled"] == [None] * 3


def test_empty_cells_get_the_mean_and_the_interval_of_draws(play):
    answer = play.look({"row": [None, None, -1.5]})
    x = np.array([[np.nan, None, -1.5]], object)
    filled, draws = play.estimator.impute(x), play.estimator.impute(x, n_draws=40)[:, 0]
    width, colour, height = answer["filled"]
    assert height is None
    assert width["cell"] == filled[0, 0]
    widths = draws[:, 0].astype(float)
    np.testing.assert_allclose([width["low"], width["high"]], np.quantile(widths, [0.05, 0.95]))
    names = play.about()["columns"][1]["values"]
    assert names[colour["cell"]] == filled[0, 1]
    assert {names[cell]: share for cell, share in colour["likely"]} == {
        name: np.mean(draws[:, 1] == name) for name in set(draws[:, 1])
    }
    assert min(answer["high"][k] - answer["low"][k] for k in (0, 1)) > 0


def test_examples_are_rows_with_their_empty_cells(play):
    found = {tuple(play.example()["row"]) for _ in range(20)}
    names = play.about()["columns"][1]["values"]
    assert found == {(4.0, names.index("red"), -1.5), (0.25, None, 0.5)}


@pytest.mark.parametrize(
    "row",
    [
        *(None, [], [1, 0], [1, 0, 1, 1], ["1", 0, 1], [1, 3, 1], [1, -1, 1], [1, 0.5, 1], [True, 0, 1]),
        *([10**400, 0, 1], [float("nan"), 0, 1], [float("inf"), 0, 1], [1, "red", 1], [{}, 0, 1]),
    ],
    ids=str,
)
def test_wrong_rows_are_one_line(play, row):
    with pytest.raises(InputError) as caught:
        play.look({"row": row})
    assert len(str(caught.value).splitlines()) == 1
