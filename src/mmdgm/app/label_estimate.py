"""An honest estimate of the share of wrong guesses, from rows that were drawn at random.

The rows that are asked about are chosen because they are hard, and those that are corrected because they are wrong, so
their errors say nothing about the other rows. So some questions are checks: rows drawn at random among all rows
without a label. The guess before the answer is compared with the answer. Every such comparison is an unbiased draw of
the error among rows without a label at that time. Guesses get better with more labels, so checks count while at least
half as many labels were known as now; the estimate is then rather too high than too low. Wilson's interval, 95 %.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from scipy.stats import binomtest

FEWEST = 10  # checks before there is an estimate
FIRST, EVERY = 20, 5  # from this many answers on, every fifth question is a check
CONFIDENCE = 0.95


def is_check(place: int) -> bool:
    """Whether the question with this place in the order, from 0, is a check."""
    return place >= FIRST and place % EVERY == EVERY - 1


def estimate(lines: Iterable[Mapping[str, Any]], *, source: str, known: int) -> dict[str, Any]:
    """Return the errors among checks and, if these are enough, the error in percent with its interval.

    `lines`: of the journal, in order; `source`: what guesses now; `known`: the number of labels now.
    """
    checks: dict[Any, bool] = {}  # by the id of the event
    rows = set()
    for line in lines:
        if "undoes" in line:
            checks.pop(line["undoes"], None)
            rows.discard(line["row"])
            continue
        if line.get("row") in rows or line["kind"] == "class":
            continue  # only the first answer for a row
        guessed = line["kind"] == "label" and line.get("check") and line.get("predicted")
        if guessed and line["source"] == source and 2 * line["known"] >= known:
            checks[line["id"]] = line["predicted"] != line["label"]
        if "row" in line:
            rows.add(line["row"])
    wrong, n = sum(checks.values()), len(checks)
    found: dict[str, Any] = {"wrong": wrong, "checks": n, "fewest": FEWEST}
    if n >= FEWEST:
        low, high = binomtest(wrong, n).proportion_ci(CONFIDENCE, method="wilson")
        found |= {"error_percent": 100 * wrong / n, "low": 100 * float(low), "high": 100 * float(high)}
    return found
