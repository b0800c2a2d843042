"""A page of sections as one HTML file, which needs no other file: charts as SVG, pictures as PNG data."""

import base64
import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from numpy.typing import NDArray
from PIL import Image

from mmdgm.report.plots import image_grid
from mmdgm.report.style import CHART, DARK, LIGHT, variables

FOLDER = Path(__file__).parent
_numbers = count()


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True)
class Facts:
    """Names with values."""

    kind: ClassVar[str] = "facts"
    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Grid:
    """A table. The first cell of each row is its header. `shares` in [0, 1] colour the other cells."""

    kind: ClassVar[str] = "grid"
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    shares: Sequence[Sequence[float]] | None = None


@dataclass(frozen=True)
class Charts:
    """Charts beside each other, as (SVG, caption)."""

    kind: ClassVar[str] = "charts"
    charts: Sequence[tuple[Markup, str]]


@dataclass(frozen=True)
class Picture:
    """A picture."""

    kind: ClassVar[str] = "picture"
    source: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Strips:
    """Lines of images, as (label, picture, alternative text)."""

    kind: ClassVar[str] = "strips"
    caption: str
    rows: Sequence[tuple[str, str, str]]


@dataclass(frozen=True)
class Cards:
    """Single images with lines of text, as (picture, alternative text, title, lines)."""

    kind: ClassVar[str] = "cards"
    cards: Sequence[tuple[str, str, str, Sequence[str]]]


@dataclass(frozen=True)
class Code:
    """Text in a fixed-width font. `summary`: show it only when the reader opens it."""

    kind: ClassVar[str] = "code"
    text: str
    summary: str | None = None


Block = Text | Facts | Grid | Charts | Picture | Strips | Cards | Code


@dataclass(frozen=True)
class Section:
    """A part of the page under a heading."""

    title: str
    blocks: Sequence[Block]

    @property
    def anchor(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


def render(title: str, lead: str, facts: Sequence[tuple[str, str, str]], sections: Sequence[Section]) -> bytes:
    """Return the page. `facts`: the most important figures, as (name, value, remark)."""
    colours = {"light": variables(LIGHT), "dark": variables(DARK)}
    style = template("style.css").render(colours)
    parts = {"title": title, "lead": lead, "facts": facts, "sections": sections}
    parts["style"] = Markup(style)  # noqa: S704 - our own file
    page: str = template("page.html").render(parts)
    return page.encode()


@cache
def template(name: str) -> Any:
    """Return a template of this folder, in which text is escaped."""
    loader = FileSystemLoader(FOLDER)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(name)


def svg(axes: Axes, description: str) -> Markup:
    """Return the figure of these axes as inline SVG. Its colours are the page's variables."""
    buffer = io.StringIO()
    with rc_context(CHART), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # the browser has more glyphs than matplotlib
        axes.get_figure().savefig(buffer, format="svg", transparent=True, metadata={"Date": None})  # type: ignore[union-attr]
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    for name, colour in LIGHT.items():
        text = text.replace(colour, f"var(--{name})")
    head, body = text.split(">", 1)
    box = re.search(r'viewBox="([^"]*)"', head)
    assert box is not None
    body = _own_ids(body, f"c{next(_numbers)}-")
    width = float(box[1].split()[2]) * 4 / 3
    opening = f'<svg viewBox="{box[1]}" width="{width:.0f}" role="img" aria-label="{Markup.escape(description)}">'
    return Markup(opening + body.strip())  # noqa: S704 - matplotlib escapes the text of figures


def _own_ids(body: str, prefix: str) -> str:
    """Drop the ids to which nothing refers; the others get a prefix, so that several charts fit into one page."""
    used = set(re.findall(r'(?:url\(|href=")#([^)"]+)', body))
    body = re.sub(r' id="([^"]+)"', lambda m: f' id="{prefix}{m[1]}"' if m[1] in used else "", body)
    return re.sub(r'(url\(|href=")#', rf"\1#{prefix}", body)


def png(pixels: NDArray[np.uint8]) -> str:
    """Return a picture `(height, width, 3)` as a data URI."""
    buffer = io.BytesIO()
    grey = bool((pixels == pixels[..., :1]).all())
    Image.fromarray(pixels[..., 0] if grey else pixels).save(buffer, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def strip(pictures: NDArray[Any]) -> str:
    """Return pictures `(columns, channels, height, width)` in [0, 1] side by side, as a data URI."""
    return png(image_grid(pictures[None]))
