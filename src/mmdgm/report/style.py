"""The one style of charts and pages: colours for light and dark, which colour-blind readers can tell apart.

Charts are drawn in the light colours. In a page, each of these colours becomes a CSS variable, which has another value
on a dark screen.
"""

from contextlib import AbstractContextManager
from typing import Any

from matplotlib import rc_context

LIGHT = {
    "page": "#ffffff",
    "panel": "#f4f6f8",
    "ink": "#1b1f24",
    "muted": "#57606a",
    "line": "#ccd3da",
    "accent": "#0b5cad",
    "blue": "#0072b2",
    "orange": "#c75200",
    "green": "#00805a",
    "purple": "#a5438a",
    "gold": "#8a6a00",
    "sky": "#3a86b8",
    "grey": "#6e7781",
}
DARK = {
    "page": "#14181d",
    "panel": "#1d232a",
    "ink": "#e6edf3",
    "muted": "#a3adb8",
    "line": "#3b444e",
    "accent": "#79bbff",
    "blue": "#56b4e9",
    "orange": "#ff8f47",
    "green": "#35c496",
    "purple": "#e59cc6",
    "gold": "#e6bf2e",
    "sky": "#a9d3ff",
    "grey": "#b3bbc4",
}
SERIES = ("blue", "orange", "green", "purple", "gold", "sky", "grey")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
CHART: Any = {  # matplotlib's parameters
    "axes.edgecolor": LIGHT["muted"],
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": LIGHT["ink"],
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": LIGHT["ink"],
    "axes.titlesize": 10,
    "font.size": 9,
    "grid.color": LIGHT["line"],
    "grid.linewidth": 0.6,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "svg.fonttype": "none",
    "svg.hashsalt": "mmdgm",
    "text.color": LIGHT["ink"],
    "text.parse_math": False,  # a class may be called $x$
    "xtick.color": LIGHT["muted"],
    "xtick.labelsize": 8,
    "ytick.color": LIGHT["muted"],
    "ytick.labelsize": 8,
}


def chart_style() -> AbstractContextManager[None]:
    """Return a context in which charts are drawn in the style."""
    return rc_context(CHART)


def series(number: int) -> tuple[str, str]:
    """Return the colour and the marker of a series; 49 pairs differ."""
    return LIGHT[SERIES[number % len(SERIES)]], MARKERS[(number + number // len(SERIES)) % len(MARKERS)]


def variables(colours: dict[str, str]) -> str:
    """Return colours as CSS variables."""
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())
