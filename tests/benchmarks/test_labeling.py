"""The benchmark of labeling, on few rows."""

import pytest

from benchmarks.labeling import measure

pytest.importorskip("starlette")


@pytest.mark.parametrize("kind", ["images", "table"])
def test_every_answer_is_kept_and_followed_by_guesses(kind):
    waits = measure(kind, 120, 4)
    assert waits.start > 0
    assert len(waits.kept) == len(waits.guessed) == 4
    assert all(0 < kept <= guessed for kept, guessed in zip(waits.kept, waits.guessed, strict=True))
