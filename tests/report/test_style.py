"""The style: contrast by WCAG's formula, and colours that differ for colour-blind readers too."""

import itertools
import re

import numpy as np
import pytest

from mmdgm.report.page import FOLDER, render
from mmdgm.report.style import DARK, LIGHT, MARKERS, SERIES, series

# cone responses without the cones for red or for green (Viénot, Brettel and Mollon, 1999), on linear RGB
BLIND = {
    "red": np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]),
    "green": np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]),
}


def linear(colour):
    """A colour #rrggbb in linear RGB."""
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """WCAG's ratio of luminances."""
    bright, dark = sorted((linear(c) @ [0.2126, 0.7152, 0.0722] for c in (one, other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def mixed(over, under, share):
    """`over` at an opacity on `under`, as a browser mixes sRGB."""
    parts = [round(share * int(over[i : i + 2], 16) + (1 - share) * int(under[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{part:02x}" for part in parts)


def test_the_formula_of_contrast():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


def colours_of_page():
    """The CSS variables of a written page: on a light screen, on a dark one, on paper."""
    source = render("title", "lead", [], []).decode()
    blocks = re.findall(r":root \{(.*?)\}", source)
    assert len(blocks) == 3
    return [dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", block)) for block in blocks]


def test_a_page_has_the_colours_of_the_style_and_paper_is_light():
    assert colours_of_page() == [LIGHT, DARK, LIGHT]


@pytest.mark.parametrize("number", [0, 1])
def test_text_passes_wcag_aa(number):
    colours = colours_of_page()[number]
    for text, ground in itertools.product(("ink", "muted", "accent"), ("page", "panel")):
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    (share,) = re.findall(r"calc\(var\(--share\) \* (\d+)%\)", (FOLDER / "style.css").read_text())
    assert contrast(colours["ink"], mixed(colours["blue"], colours["page"], int(share) / 100)) >= 4.5


@pytest.mark.parametrize("number", [0, 1])
def test_lines_and_points_pass_wcag_for_graphics(number):
    colours = colours_of_page()[number]
    for name in SERIES:
        assert contrast(colours[name], colours["page"]) >= 3, name


def test_series_differ_in_colour_or_marker():
    pairs = [series(number) for number in range(len(SERIES) * len(MARKERS))]
    assert len(set(pairs)) == len(pairs)
    # the first three series, of which most charts have fewer, differ for colour-blind readers as well
    for colours, matrix in itertools.product((LIGHT, DARK), BLIND.values()):
        seen = [np.clip(matrix @ linear(colours[name]), 0, 1) ** (1 / 2.4) for name in SERIES[:3]]
        for one, other in itertools.combinations(seen, 2):
            assert np.abs(one - other).max() > 0.15


def test_variables_of_the_style_sheet_exist():
    sheet = (FOLDER / "style.css").read_text()
    used, own = (set(re.findall(pattern, sheet)) for pattern in (r"var\(--(\w+)\)", r"--(\w+):"))
    assert used - {"share"} - own <= set(LIGHT) == set(DARK)
