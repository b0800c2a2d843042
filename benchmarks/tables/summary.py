"""Summaries of cells as Markdown: a line per method, or a line per table."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.tables.cells import Cell, Key
from benchmarks.tables.encoding import Array
from benchmarks.tables.scores import ranks, wins


class Score(NamedTuple):
    """A figure of a cell that methods are compared by."""

    key: str
    title: str
    digits: int
    high_is_good: bool
    seconds: tuple[str, ...]  # the cell's times that lead to it


ACCURACY = Score("accuracy", "accuracy %", 1, True, ("fill_seconds", "fit_seconds", "predict_seconds"))
IMPUTATION = Score("imputation", "error of imputation", 3, False, ("fit_seconds", "impute_seconds"))


class Condition(NamedTuple):
    """Cells that are compared: with this share of missing values, and this number of labels per class."""

    missing: str
    labels: int


class Compared(NamedTuple):
    """The scores of some methods on tables, `(tables, methods)`, as means over seeds."""

    tables: list[str]
    methods: list[str]
    tasks: int
    scores: Array
    seconds: Array  # medians over tasks, `(methods,)`


def compared(
    cells: Mapping[Key, Cell], condition: Condition, score: Score, methods: Sequence[str] | None = None
) -> Compared | None:
    """Compare methods on the tables and seeds on which all of them were measured; None if there is no such table.

    `methods`: those to compare; without it, all that were measured under this condition.
    """
    found: dict[str, dict[tuple[str, int], Cell]] = {}
    for key, cell in cells.items():
        applies = key.missing == condition.missing and key.labels in (None, condition.labels)
        if applies and cell.get(score.key) is not None and (methods is None or key.method in methods):
            found.setdefault(key.method, {})[key.table, key.seed] = cell
    tasks = sorted(set.intersection(*map(set, found.values()))) if found else []
    if not tasks:
        return None
    tables = sorted({table for table, _ in tasks})
    means = [
        [np.mean([of[task][score.key] for task in tasks if task[0] == table]) for of in found.values()]
        for table in tables
    ]
    seconds = [np.median([sum(of[t].get(s, 0) for s in score.seconds) for t in tasks]) for of in found.values()]
    # without holes, imputers do nothing
    names = [name.removeprefix("KNN+") if condition.missing == "0" else name for name in found]
    return Compared(tables, names, len(tasks), np.array(means), np.array(seconds))


def by_method(found: Compared, score: Score) -> str:
    """A line per method: mean rank, mean score, number of tables where it is best, median CPU seconds."""
    places = ranks(found.scores, high_is_good=score.high_is_good).mean(axis=0)
    means, best = found.scores.mean(axis=0), wins(found.scores, high_is_good=score.high_is_good)
    lines = [f"| method | mean rank | mean {score.title} | wins | median CPU seconds |", "| --- " * 5 + "|"]
    for i in np.argsort(places, kind="stable"):
        figures = f"{places[i]:.2f} | {means[i]:.{score.digits}f} | {best[i]} | {found.seconds[i]:.2g}"
        lines.append(f"| {found.methods[i]} | {figures} |")
    return "\n".join(lines)


def by_table(found: Compared, score: Score) -> str:
    """A line per table: the score of each method, the best in bold."""
    lines = [f"| {score.title} | " + " | ".join(found.methods) + " |", "| --- " * (1 + len(found.methods)) + "|"]
    places = ranks(found.scores, high_is_good=score.high_is_good)
    for table, scores, place in zip(found.tables, found.scores, places, strict=True):
        text = [f"{value:.{score.digits}f}" for value in scores]
        text = [f"**{t}**" if rank == place.min() else t for t, rank in zip(text, place, strict=True)]
        lines.append(f"| {table} | " + " | ".join(text) + " |")
    return "\n".join(lines)


def summary(
    cells: Mapping[Key, Cell],
    conditions: Sequence[Condition],
    *,
    methods: Sequence[str] | None = None,
    tables: bool = False,
) -> str:
    """All conditions as Markdown; with `tables`, with a line per table too."""
    parts = []
    for condition in conditions:
        for score in (ACCURACY, IMPUTATION):
            if (found := compared(cells, condition, score, methods)) is None:
                continue
            parts.append(
                f"{said(condition)}: {score.title}, {len(found.tables)} tables, {found.tasks} tasks\n\n"
                + by_method(found, score)
                + (f"\n\n{by_table(found, score)}" if tables else "")
            )
    return "\n\n".join(parts)


def said(condition: Condition) -> str:
    """A condition in words."""
    holes = "holes as they are" if condition.missing == "real" else f"{100 * float(condition.missing):g} % hidden"
    return f"{holes}, {condition.labels} labels per class"
