"""The sections of a report on a table: its columns with their fills, generated rows beside real ones, single rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmdgm.data.arrays import missing_entries
from mmdgm.data.codecs import TableCodec
from mmdgm.data.tables import Column, unsquash
from mmdgm.estimators.base import GenerativeEstimator
from mmdgm.report.figures import sample_grid
from mmdgm.report.page import Block, Grid, Section, Text
from mmdgm.report.subject import ABSENT, Estimator, Judgement

HIDDEN, TESTED = 0.2, 300  # share of the values that are hidden to test the fills, and rows for it
SHOWN, COLUMNS, WIDE = 10, 60, 12  # rows; columns in the list of columns; columns of a row


def cell(value: Any) -> str:
    """Return a value of a table as text."""
    if value is None or value != value:
        return ABSENT
    if isinstance(value, float | np.floating):
        return f"{value:.4g}".replace("-", "−")
    return str(value)


def described(column: Column) -> str:
    """Return the observed range of a column, or its values."""
    if column.kind == "number":
        low, high = unsquash(np.array([column.low, column.high])) * column.scale + column.centre
        return f"{cell(low)} to {cell(high)}"
    values = [str(value) for value in column.values]
    return ", ".join(values[:6]) + (f" and {len(values) - 6} more" if len(values) > 6 else "")


def columns(estimator: Estimator, judged: Judgement) -> Section:
    """The columns: kind, range, missing values, mean fill, and how well hidden values are filled."""
    X = judged.rows.x
    blocks: list[Block] = [
        columns_grid(estimator, X),
        Text(fills_note(judged.rows.place if len(X) <= TESTED else f"the first {TESTED} of {judged.rows.place}")),
    ]
    return Section("Columns and their fills", blocks)


def fills_note(rows: str) -> str:
    """Return what the errors of fills are."""
    return (
        f"Every fifth observed value of {rows} was hidden and filled. Errors are root mean squared errors in standard "
        f"deviations of the hidden values, or shares of wrong values. {ABSENT}: too few values."
    )


def columns_grid(estimator: GenerativeEstimator, X: NDArray[Any] | None, *, most: int = COLUMNS) -> Grid:
    """Return the columns with their kind and range; with rows X, also their missing values and errors of fills."""
    assert isinstance(estimator.codec_, TableCodec)
    known = estimator.codec_.table.columns
    means = estimator.codec_.decode(estimator.fill_[None])[0]
    rows = [[each.name, each.kind, described(each), cell(means[i])] for i, each in enumerate(known[:most])]
    header = ["column", "kind", "range or values", "mean or mode"]
    if X is not None:
        missing, fills = missing_entries(X).mean(axis=0), fill_errors(estimator, X[:TESTED])
        header = [*header[:3], "missing", header[3], "error of fills", "error of the mean"]
        rows = [[*row[:3], f"{100 * missing[i]:.0f} %", row[3], *fills[i]] for i, row in enumerate(rows)]
    return Grid(f"{len(rows)} of {len(known)} columns" if len(rows) < len(known) else "Columns", header, rows)


def fill_errors(estimator: GenerativeEstimator, X: NDArray[Any]) -> list[tuple[str, str]]:
    """Return the error of the model's fills and of the mean (or most frequent value), per column, as text.

    Errors are root mean squared errors in standard deviations, or shares of wrong values.
    """
    assert isinstance(estimator.codec_, TableCodec)
    hidden = np.random.default_rng(1).random(X.shape) < HIDDEN
    hidden &= ~missing_entries(X)
    hidden[hidden.all(axis=1), 0] = False
    holes = X.copy()
    holes[hidden] = None if X.dtype == object else np.nan
    filled = estimator.impute(holes)
    means = estimator.codec_.decode(estimator.fill_[None])[0]
    found = []
    for i, column in enumerate(estimator.codec_.table.columns):
        rows = hidden[:, i]
        truth = X[rows, i]
        guesses = (filled[rows, i], np.full(len(truth), means[i], dtype=object))
        if len(truth) < 2:
            found.append((ABSENT, ABSENT))
        elif column.kind == "number":
            numbers = truth.astype(np.float64)
            spread = numbers.std() or 1.0
            model, mean = (np.sqrt(np.square(guess.astype(np.float64) - numbers).mean()) / spread for guess in guesses)
            found.append((f"{model:.2f}", f"{mean:.2f}"))
        else:
            model, mean = (float(np.mean(guess.astype(str) != truth.astype(str))) for guess in guesses)
            found.append((f"{100 * model:.0f} %", f"{100 * mean:.0f} %"))
    return found


def samples(estimator: Estimator, judged: Judgement) -> Section | None:
    """Generated rows beside real rows, class by class."""
    assert isinstance(estimator.codec_, TableCodec)
    if not estimator.model_.generates:
        return None
    names = estimator.codec_.names[:WIDE]
    codes = judged.predicted if judged.truth is None else judged.truth
    what = "predicted class" if judged.truth is None else "class"
    found = sample_grid(estimator, columns=2, rows=3)
    rows = []
    if "y" in found:
        for k in range(min(len(judged.names), SHOWN)):
            real = judged.rows.x[np.flatnonzero(codes == k)[:2]]
            rows += _lines("real", judged.names[k], real) + _lines("generated", judged.names[k], found["x"][k])
    else:
        rows = [*_lines("real", ABSENT, judged.rows.x[:6])]
        rows += _lines("generated", ABSENT, found["x"].reshape(6, -1))
    title = "Real and generated rows" + (f", the first {WIDE} columns" if len(estimator.codec_.names) > WIDE else "")
    return Section("Generated rows beside real ones", [Grid(title, ["row", what, *names], rows)])


def _lines(kind: str, name: str, X: NDArray[Any]) -> list[list[str]]:
    return [[kind, name, *map(cell, row[:WIDE])] for row in X.tolist()]


def rows_to_look_at(estimator: Estimator, judged: Judgement) -> Section:
    """The rows with the smallest lead, and the wrong rows with the largest."""
    order = np.argsort(judged.leads, kind="stable")
    blocks: list[Block] = [
        Text("The lead is the largest score minus the second largest. Scores are no probabilities."),
        _grid(f"The least sure of {judged.rows.place}", estimator, judged, order[:SHOWN]),
    ]
    if judged.truth is not None:
        wrong = order[judged.predicted[order] != judged.truth[order]][::-1]
        title = f"Wrong: {len(wrong):,} of {judged.rows.place}" + (", the surest first" if len(wrong) else "")
        blocks.append(_grid(title, estimator, judged, wrong[:SHOWN]) if len(wrong) else Text(title + "."))
    return Section("Rows to look at", blocks)


def _grid(title: str, estimator: Estimator, judged: Judgement, rows: Sequence[int] | NDArray[np.intp]) -> Grid:
    assert isinstance(estimator.codec_, TableCodec)
    header = ["row", *([] if judged.truth is None else ["true class"]), "prediction", "second", "lead"]
    lines = []
    for row in rows:
        first, second = np.argsort(-judged.scores[row], kind="stable")[:2]
        said = [f"{judged.names[k]} ({judged.scores[row, k]:.2f})" for k in (first, second)]
        true = [] if judged.truth is None else [judged.names[judged.truth[row]]]
        lines.append(
            [judged.rows.number(row), *true, *said, f"{judged.leads[row]:.2f}", *map(cell, judged.rows.x[row, :WIDE])]
        )
    return Grid(title, [*header, *estimator.codec_.names[:WIDE]], lines)
