"""The page answers 20 browsers at once, and one of them soon."""

from statistics import median

from benchmarks import app


def test_twenty_clients_at_once_are_all_answered():
    answers = app.measure(app.untrained(), single=3, each=2)
    assert answers.failed == []
    assert len(answers.crowded) == 2 * app.CLIENTS
    assert median(answers.single) < 3  # 0.1 s on two free cores
