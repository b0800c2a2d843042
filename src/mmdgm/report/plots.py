"""Figures from arrays and metric rows. This module does not train or load models."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mmdgm.files import write_whole

GAP = 2  # pixels between the images of a grid
LEAST_SIDE = 48  # small images are enlarged to at least this many pixels
HOLE = np.array([0.95, 0.45, 0.25])  # the colour of missing pixels


def image_grid(images: NDArray[Any]) -> NDArray[np.uint8]:
    """Return a picture of images `(rows, columns, channels, height, width)` in [0, 1]; NaN is drawn in colour."""
    rows, columns, channels, height, width = images.shape
    colour = np.broadcast_to(images, (rows, columns, 3, height, width)) if channels == 1 else images
    holes = np.isnan(colour).any(axis=2, keepdims=True)
    colour = np.where(holes, HOLE[:, None, None], colour)
    factor = -(-LEAST_SIDE // min(height, width))
    colour = colour.repeat(factor, axis=3).repeat(factor, axis=4)
    colour = np.pad(colour, ((0, 0), (0, 0), (0, 0), (0, GAP), (0, GAP)), constant_values=1)
    colour = np.pad(
        colour.transpose(0, 3, 1, 4, 2).reshape(rows * (height * factor + GAP), columns * (width * factor + GAP), 3),
        ((GAP, 0), (GAP, 0), (0, 0)),
        constant_values=1,
    )
    return np.round(255 * colour.clip(0, 1)).astype(np.uint8)


def save_grid(path: Path, images: NDArray[Any]) -> None:
    """Write `image_grid` as a PNG."""
    buffer = io.BytesIO()
    Image.fromarray(image_grid(images)).save(buffer, "PNG", optimize=True)
    write_whole(path, buffer.getvalue())


def save_curves(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write a PNG with one panel per term of the objective, against the step. Terms that are always 0 are left out."""
    from matplotlib.figure import Figure

    known = {"stage", "step", "epoch", "learning_rate", "images_per_second", "seconds"}
    names = [name for name in rows[0] if name not in known and any(row[name] for row in rows)]
    columns = min(4, len(names))
    lines = -(-len(names) // columns)
    figure = Figure(figsize=(3 * columns, 2.4 * lines), layout="constrained", dpi=110)
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    steps = [row["step"] for row in rows]
    for axis, name in zip(axes, names, strict=False):
        values = [row[name] for row in rows]
        axis.plot(steps, values, linewidth=1.2, color="#2a5d9f", marker="o" if len(rows) < 5 else None)
        # without the first steps, whose range would hide the rest
        shown = np.array(values[len(values) // 20 :])
        spread = np.ptp(shown)
        margin = 0.05 * spread if spread else max(1e-3, 0.1 * abs(shown[0]))
        axis.set_ylim(shown.min() - margin, shown.max() + margin)
        axis.set_title(name.replace("_", " "), fontsize=9)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3)
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    _save(path, figure)


def save_panels(path: Path, pictures: dict[str, NDArray[np.uint8]]) -> None:
    """Write pictures side by side, each under its title."""
    from matplotlib.figure import Figure

    tallest = max(picture.shape[0] / picture.shape[1] for picture in pictures.values())
    figure = Figure(figsize=(3.2 * len(pictures), 3.2 * tallest + 0.3), layout="constrained", dpi=150)
    for axis, (title, picture) in zip(
        figure.subplots(1, len(pictures), squeeze=False)[0], pictures.items(), strict=True
    ):
        axis.imshow(picture)
        axis.set_title(title, fontsize=10)
        axis.axis("off")
    _save(path, figure)


def save_contact_sheet(path: Path, pictures: NDArray[Any], titles: list[str], *, columns: int = 10) -> None:
    """Write pictures `(rows, channels, height, width)` in [0, 1] in lines, each under its title."""
    from matplotlib.figure import Figure

    lines = -(-len(pictures) // columns)
    figure = Figure(figsize=(1.1 * columns, 1.35 * lines), layout="constrained", dpi=110)
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for axis in axes:
        axis.axis("off")
    for axis, picture, title in zip(axes, pictures, titles, strict=False):
        axis.imshow(image_grid(picture[None, None])[GAP:-GAP, GAP:-GAP])
        axis.set_title(title, fontsize=7)
    _save(path, figure)


def save_scatter(path: Path, panels: dict[str, NDArray[Any]], y: NDArray[Any]) -> None:
    """Write a scatter plot with one panel per title, coloured by class."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(panels), 5), layout="constrained", dpi=110)
    for axis, (title, points) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        dots = axis.scatter(*points.T, c=y, cmap="tab10", s=5)
        axis.set_title(title, fontsize=10)
        axis.set_xticks([])
        axis.set_yticks([])
    figure.legend(*dots.legend_elements(), loc="outside right center", frameon=False)
    _save(path, figure)


def save_lines(path: Path, lines: dict[str, dict[int, float]], *, levels: dict[str, float], x: str, y: str) -> None:
    """Write a plot of named lines of y over x, with named horizontal levels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained", dpi=130)
    axis = figure.subplots()
    for name, points in lines.items():
        axis.plot(list(points), list(points.values()), marker="o", markersize=4, linewidth=1.2, label=name)
    for name, level in levels.items():
        axis.axhline(level, color="0.4", linewidth=0.8, linestyle="--")
        axis.annotate(
            name,
            (0.99, level),
            xycoords=("axes fraction", "data"),
            xytext=(0, -2),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=8,
        )
    axis.set(xlabel=x, ylabel=y, ylim=(0, None))
    axis.set_xticks(sorted({place for points in lines.values() for place in points}))
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, fontsize=8)
    _save(path, figure)


class HeatMap(NamedTuple):
    """A table of figures to draw in colour."""

    title: str
    values: NDArray[Any]  # (rows, columns)
    rows: list[str]
    columns: list[str]
    marked: tuple[int, int]  # a cell of interest; the smallest value is marked too


def save_heat_maps(path: Path, maps: Sequence[HeatMap], *, x: str, y: str, values: str, columns: int = 4) -> None:
    """Write heat maps in lines, with their figures. The smallest has a solid frame, the marked cell a dashed one.

    Colours go from the smallest figure to twice as much.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    lines = -(-len(maps) // columns)
    figure = Figure(figsize=(3.1 * columns, 3.6 * lines), layout="constrained", dpi=100)
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    lowest = min(float(part.values.min()) for part in maps)
    for axis, part in zip(axes, maps, strict=False):
        axis.imshow(part.values, vmin=lowest, vmax=2 * lowest, cmap="viridis_r", aspect="auto")
        for (i, j), value in np.ndenumerate(part.values):
            colour = "white" if value > 1.6 * lowest else "black"
            axis.text(j, i, f"{value:.1f}", ha="center", va="center", fontsize=8, color=colour)
        best = divmod(int(part.values.argmin()), part.values.shape[1])
        for (i, j), style in ((best, "-"), (part.marked, "--")):
            look: dict[str, Any] = {"edgecolor": "red", "linewidth": 2.2, "linestyle": style, "clip_on": False}
            axis.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, **look))
        axis.set_title(part.title, fontsize=9)
        axis.set_xticks(range(len(part.columns)), part.columns, fontsize=8)
        axis.set_yticks(range(len(part.rows)), part.rows, fontsize=8)
        axis.set(xlabel=x, ylabel=y)
    figure.suptitle(f"{values}; solid frame: the smallest, dashed frame: the paper's choice", fontsize=10)
    _save(path, figure)


def _save(path: Path, figure: Any) -> None:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    write_whole(path, buffer.getvalue())
