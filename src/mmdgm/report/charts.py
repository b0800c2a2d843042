"""Charts of arrays. Each function draws into given axes, or into a figure of its own, and returns the axes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mmdgm.report.style import LIGHT, chart_style, series

POINTS = 300  # of a curve that has more


def new_axes(width: float, height: float) -> Axes:
    """Return the axes of a new figure of this size in inches."""
    with chart_style():
        return Figure(figsize=(width, height), layout="constrained").subplots()


def curves(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, title: str, axes: Axes | None = None
) -> Axes:
    """Draw one term of the objective against the step, as named lines of (steps, values)."""
    axes = axes or new_axes(3.2, 2.1)
    shown = []
    with chart_style():
        for number, (name, (steps, values)) in enumerate(lines.items()):
            colour, marker = series(number)
            thin = np.unique(np.linspace(0, len(steps) - 1, POINTS).astype(int))
            few = marker if len(thin) < 5 else None
            axes.plot(np.take(steps, thin), np.take(values, thin), color=colour, marker=few, label=name)
            shown.append(np.asarray(values[len(values) // 20 :], float))  # the first steps would hide the rest
        axes.set_ylim(*limits(np.concatenate(shown)))
        axes.set_title(title, loc="left")
        axes.set_xlabel("step")
        if len(lines) > 1:
            axes.legend()
    return axes


def limits(values: NDArray[np.floating]) -> tuple[float, float]:
    """Return the range of an axis on which all finite values lie, with a margin."""
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    margin = 0.05 * (high - low) or max(1e-3, 0.1 * abs(low))
    return low - margin, high + margin


def rounds(errors: Mapping[int, float], levels: Mapping[str, float], *, axes: Axes | None = None) -> Axes:
    """Draw the squared error of missing values against the round of imputation, and named levels to compare with."""
    axes = axes or new_axes(4.6, 2.6)
    with chart_style():
        colour, marker = series(0)
        axes.plot(list(errors), list(errors.values()), color=colour, marker=marker, label="after each round")
        for number, (name, level) in enumerate(levels.items(), 1):
            axes.axhline(level, color=series(number)[0], linestyle=("--", ":")[number % 2], label=name)
        axes.set(xlabel="round", ylabel="mean squared error")
        axes.set_ylim(0, 1.1 * max(*errors.values(), *levels.values(), 1e-9))
        axes.set_xticks(list(errors))
        axes.legend()
    return axes


def principal_components(features: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return features `(rows, d)` on their first two principal components, `(rows, 2)`, and the shares of variance."""
    centred = np.asarray(features, np.float64) - features.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(features), 2))
    kept = min(2, len(sizes))
    points[:, :kept] = left[:, :kept] * sizes[:kept]
    shares = np.zeros(2)
    shares[:kept] = sizes[:kept] ** 2 / max(float((sizes**2).sum()), 1e-300)
    return points, shares


def embedding(
    points: NDArray[Any], codes: NDArray[np.int64], names: Sequence[str], *, axes: Axes | None = None
) -> Axes:
    """Draw points `(rows, 2)` with a colour and a marker per class."""
    axes = axes or new_axes(5.2, 4.6)
    with chart_style():
        for number in np.unique(codes).tolist():
            colour, marker = series(number)
            of_class = points[codes == number]
            axes.plot(*of_class.T, linestyle="", marker=marker, color=colour, alpha=0.75, label=names[number])
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set(xlabel="first component", ylabel="second component")
        axes.figure.legend(loc="outside lower center", ncols=4, markerscale=1.4, labelcolor=LIGHT["ink"])
    return axes
