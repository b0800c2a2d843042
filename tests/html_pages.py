"""What tests ask of a page: its elements, and rules that every page must keep."""

import itertools
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "input", "hr", "base", "source", "wbr"}
LARGEST = 3 * 2**20


@dataclass
class Element:
    tag: str
    attributes: dict
    inside: list = field(default_factory=list)  # names of the elements around it
    text: str = ""  # with that of its children


class Page(HTMLParser):
    """All elements of a page in order. An end without a begin, or the reverse, is an error."""

    def __init__(self, content: bytes):
        super().__init__()
        self.source, self.elements, self.open = content.decode(), [], []
        self.feed(self.source)
        self.close()
        assert not self.open, [element.tag for element in self.open]

    def handle_starttag(self, tag, attrs):
        assert len(dict(attrs)) == len(attrs), (tag, attrs)
        element = Element(tag, dict(attrs), [other.tag for other in self.open])
        self.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.elements.append(Element(tag, dict(attrs), [other.tag for other in self.open]))

    def handle_endtag(self, tag):
        assert self.open.pop().tag == tag, f"</{tag}> ends nothing, line {self.getpos()[0]}"

    def handle_data(self, data):
        for element in self.open:
            element.text += data

    def all(self, tag):
        return [element for element in self.elements if element.tag == tag]

    @property
    def headings(self):
        return [element.text for element in self.all("h2")]

    @property
    def text(self):
        return " ".join(self.all("body")[0].text.split())


def check_page(content: bytes) -> Page:
    """Check the rules that hold for every page; return it."""
    page = Page(content)
    assert len(content) < LARGEST
    assert page.source.startswith("<!doctype html>")
    (html,), (title,) = page.all("html"), [e for e in page.all("title") if "svg" not in e.inside]
    assert html.attributes["lang"] == "en"
    assert title.text.strip() == page.all("h1")[0].text.strip() != ""
    assert {m.attributes.get("name"): m.attributes.get("content") for m in page.all("meta")}["viewport"]
    for landmark in ("header", "nav", "main", "footer", "h1"):
        assert len(page.all(landmark)) == 1, landmark
    levels = [int(element.tag[1]) for element in page.elements if re.fullmatch("h[1-6]", element.tag)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    check_alone(page)
    ids = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
    assert len(set(ids)) == len(ids)
    assert {a.attributes["href"][1:] for a in page.all("a")} <= set(ids)
    for image in page.all("img"):
        assert image.attributes["alt"].strip()
    for chart in page.all("svg"):
        assert chart.attributes["role"] == "img"
        assert chart.attributes["aria-label"].strip()
    for cell in page.all("th"):
        assert cell.attributes["scope"] in ("row", "col")
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(caption.text.strip() for caption in page.all("caption"))
    return page


def check_alone(page: Page) -> None:
    """Check that a browser loads nothing and executes nothing for the page."""
    assert not [e for e in page.elements if e.tag in ("script", "link", "iframe", "object", "embed", "base", "form")]
    assert not [name for e in page.elements for name in e.attributes if name.startswith("on")]
    for element in page.elements:
        for name in ("src", "srcset", "href", "xlink:href", "data", "poster", "action"):
            place = element.attributes.get(name)
            assert place is None or place.startswith(("#", "data:image/png;base64,")), place
    styles = [e.text for e in page.all("style")] + [e.attributes.get("style", "") for e in page.elements]
    places = [place for style in styles for place in re.findall(r"url\(([^)]*)\)", style)]
    places += re.findall(r"url\(([^)]*)\)", " ".join(str(v) for e in page.elements for v in e.attributes.values()))
    assert all(place.strip("\"'").startswith("#") for place in places), places
    assert not [style for style in styles if "@import" in style]
