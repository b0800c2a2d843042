"""Pages: blocks become HTML that parses, in which text stays text; charts become SVG without links to elsewhere."""

import base64
import io

import numpy as np
from PIL import Image

from html_pages import check_page
from mmdgm.report import charts
from mmdgm.report.page import Cards, Charts, Code, Facts, Grid, Picture, Section, Strips, Text, png, render, strip, svg
from mmdgm.report.style import LIGHT

EVIL = "<script>alert(1)</script>\"'&"


def page_of(*blocks, title="A page", facts=()):
    return check_page(render(title, "lead", facts, [Section("First part", blocks)]))


def test_text_stays_text_everywhere():
    picture = png(np.zeros((2, 2, 3), np.uint8))
    axes = charts.embedding(np.eye(2), np.array([0, 1]), [EVIL, "$x$"])
    page = page_of(
        Text(EVIL),
        Facts([(EVIL, EVIL)]),
        Grid(EVIL, ["a", EVIL], [[EVIL, EVIL]], shares=[[0.5]]),
        Charts([(svg(axes, EVIL), EVIL)]),
        Picture(picture, EVIL, EVIL),
        Strips(EVIL, [(EVIL, picture, EVIL)]),
        Cards([(picture, EVIL, EVIL, [EVIL])]),
        Code(EVIL),
        Code("inside", EVIL),
        title=EVIL,
        facts=[(EVIL, EVIL, EVIL)],
    )
    assert page.all("h1")[0].text == EVIL
    assert page.all("svg")[0].attributes["aria-label"] == EVIL
    assert [image.attributes["alt"] for image in page.all("img")] == [EVIL] * 3
    assert page.text.count(EVIL) == 20
    assert "$x$" in page.text  # no formula


def test_a_table_has_headers_on_both_sides_and_colours_by_share():
    page = page_of(Grid("counts", ["true class", "a", "b"], [["a", "1", "0"], ["b", "2", "3"]], [[1, 0], [0.4, 0.6]]))
    headers = [(cell.attributes["scope"], cell.text) for cell in page.all("th")]
    assert headers == [("col", "true class"), ("col", "a"), ("col", "b"), ("row", "a"), ("row", "b")]
    cells = [(cell.text, cell.attributes["style"]) for cell in page.all("td")]
    assert cells == [
        (n, f"--share: {share}") for n, share in zip("1023", ["1.000", "0.000", "0.400", "0.600"], strict=True)
    ]


def test_several_charts_have_ids_of_their_own_and_the_page_s_colours():
    axes = charts.curves({"loss": ([1, 2, 3], [3.0, 2.0, 1.0])}, title="loss")
    page = page_of(Charts([(svg(axes, "falling"), "a"), (svg(axes, "falling"), "b")]))
    assert [element.attributes["aria-label"] for element in page.all("svg")] == ["falling"] * 2
    assert page.source.count("var(--blue)") >= 2
    body = page.source.partition("<body>")[2]
    assert not [colour for colour in LIGHT.values() if colour in body]


def test_pictures_are_png_data():
    image = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8).repeat(2, axis=0)
    for pictures, mode in ((image, "L"), (image * np.array([1, 0.5, 0]).reshape(1, 3, 1, 1), "RGB")):
        kind, _, content = strip(pictures).partition(",")
        assert kind == "data:image/png;base64"
        with Image.open(io.BytesIO(base64.b64decode(content))) as found:
            assert (found.mode, found.height) == (mode, 52)
            assert np.asarray(found)[-4, -4].max() == 255


def test_sections_have_anchors():
    assert Section("Columns and their fills", []).anchor == "columns-and-their-fills"


def test_names_need_not_be_utf8():
    assert page_of(Text("r\udcff"), title="r\udcff").all("h1")[0].text == "r\\udcff"
