"""The estimate of the error: from random rows that were guessed before they were asked about."""

import numpy as np
import pytest

from mmdgm.app.label_estimate import estimate, is_check


def check(number, predicted, label="a", **more):
    line = {"id": f"e{number}", "kind": "label", "row": number, "label": label, "check": True}
    return {**line, "predicted": predicted, "source": "graph", "known": 50, **more}


def test_too_few_checks_are_no_estimate():
    found = estimate([check(i, "a") for i in range(9)], source="graph", known=60)
    assert found == {"wrong": 0, "checks": 9, "fewest": 10}


def test_the_share_of_wrong_guesses_with_wilsons_interval():
    found = estimate([check(i, "b" if i < 3 else "a") for i in range(40)], source="graph", known=60)
    p, n, z = 3 / 40, 40, 1.959964
    middle, half = (p + z * z / 2 / n), z * np.sqrt(p * (1 - p) / n + z * z / 4 / n / n)
    expected = [100 * (middle - half) / (1 + z * z / n), 100 * (middle + half) / (1 + z * z / n)]
    assert [found["low"], found["high"]] == pytest.approx(expected, rel=1e-5)
    assert found["error_percent"] == pytest.approx(7.5)


def test_only_checks_of_these_guesses_count_and_only_first_answers():
    lines = [
        check(0, "b", check=False),
        check(1, "b", source="classifier"),
        check(2, "b", known=20),  # long ago
        check(3, None),
        check(4, "a"),
        check(4, "b", id="again"),
        check(5, "b"),
        {"id": "u", "kind": "none", "row": 5, "label": "", "undoes": "e5"},
        {"id": "s", "kind": "skip", "row": 6, "label": ""},
        {"id": "c", "kind": "class", "label": "z", "key": "1"},
    ]
    assert estimate(lines, source="graph", known=50) == {"wrong": 0, "checks": 1, "fewest": 10}


def test_every_fifth_question_after_twenty_is_a_check():
    assert [place for place in range(40) if is_check(place)] == [24, 29, 34, 39]
