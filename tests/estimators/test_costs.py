"""`cost_matrix` of both classifiers: what is refused, what reaches the objective, what is saved."""

import numpy as np
import pytest

import mmdgm
from conftest import QUICK, without_times
from mmdgm import MMCVAClassifier, MMVAClassifier
from mmdgm.errors import InputError

COST = [[0, 1, 2], [1, 0, 1], [5, 1, 0]]
KINDS = [MMCVAClassifier, MMVAClassifier]


@pytest.mark.parametrize("kind", KINDS)
def test_costs_reach_the_objective_and_are_saved(wine, tmp_path, kind):
    _, truth, X, y = wine
    model = kind(**QUICK, cost_matrix=np.array(COST), warm_start=True).fit(X, y)
    np.testing.assert_array_equal(model.model_.cost, COST)
    model.save(tmp_path)
    again = mmdgm.load(tmp_path, device="cpu")
    np.testing.assert_array_equal(np.array(again.cost_matrix), COST)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    again.fit(X, truth)  # goes on with the same costs
    np.testing.assert_array_equal(again.model_.cost, COST)
    np.testing.assert_array_equal(again.decision_function(X), model.fit(X, truth).decision_function(X))


@pytest.mark.parametrize("kind", KINDS)
def test_cost_1_of_every_error_is_the_default(wine, kind):
    *_, X, y = wine
    quick = {**QUICK, "max_epochs": 3}
    plain, by_cost = kind(**quick).fit(X, y), kind(**quick, cost_matrix=1 - np.eye(3)).fit(X, y)
    np.testing.assert_array_equal(by_cost.decision_function(X), plain.decision_function(X))
    assert without_times(by_cost.history_) == without_times(plain.history_)


def test_a_dear_error_is_made_less_often_on_rows_of_two_classes():
    rng = np.random.default_rng(0)
    centres = np.array([0.0, 1.0, 2.0])
    y = np.repeat([0, 1, 2], 200)
    X = centres[y, None] + rng.normal(size=(600, 3))
    far = {}
    for name, cost in (("default", None), ("squared", [[0, 1, 4], [1, 0, 1], [4, 1, 0]])):
        predicted = (
            MMVAClassifier(**{**QUICK, "max_epochs": 40}, cost_matrix=cost).fit(X[::2], y[::2]).predict(X[1::2])
        )
        far[name] = (np.abs(predicted - y[1::2]) == 2).mean()
    assert far["squared"] < 0.7 * far["default"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("cost", "line"),
    [
        ([[0, 1], [1, 0]], r"shape \(2, 2\); give 3 rows of 3"),
        (7, r"shape \(\); give 3"),
        (np.ones((3, 3)), "0 on the diagonal"),
        ([[0, -1, 1], [1, 0, 1], [1, 1, 0]], "0 or more"),
        ([[0, np.inf, 1], [1, 0, 1], [1, 1, 0]], "finite"),
        ([[0, np.nan, 1], [1, 0, 1], [1, 1, 0]], "finite"),
        ([[0, 1], [1, 0, 1], [1, 1, 0]], "give numbers"),
        ("balanced", "give numbers"),
        ({0: 1.0}, "give numbers"),
    ],
)
def test_costs_that_mean_nothing_are_refused_with_one_line(wine, kind, cost, line):
    with pytest.raises(InputError, match=f"^cost_matrix.*{line}") as caught:
        kind(**QUICK, cost_matrix=cost).fit(wine[2], wine[3])
    assert "\n" not in str(caught.value)


def test_a_data_frame_of_costs_is_refused_because_its_order_may_differ(wine):
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InputError, match="not a data frame"):
        MMVAClassifier(**QUICK, cost_matrix=pandas.DataFrame(COST)).fit(wine[2], wine[3])
