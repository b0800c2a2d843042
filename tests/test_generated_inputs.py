"""Whatever is given to an estimator or a reader leads to a result, or to one line."""

import pytest
from hypothesis import HealthCheck, given, settings

from benchmarks.faults.inputs import CHECKS, outcomes

EXAMPLES = {"damaged": 60, "generated": 60}  # by the first word; 12 for what trains


@pytest.mark.parametrize("name", CHECKS)
def test_there_is_a_result_or_one_line(name):
    strategy, check = CHECKS[name]
    seen = []

    @settings(
        max_examples=EXAMPLES.get(name.split()[0], 12),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def one(value):
        seen.append(check(value))

    one()
    assert set(seen) <= {"result", "refused"}


def test_the_outcomes_of_many_inputs_can_be_counted():
    found = list(outcomes("damaged x.idx", 50))
    assert {said for _, said in found} == {"result", "refused"}
