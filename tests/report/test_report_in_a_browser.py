"""Reports in a real browser: they load nothing, and are readable on any screen and on paper."""

import numpy as np
import pytest
from PIL import Image

import browser
from browser import NARROW, WIDE
from mmdgm.data import datasets
from mmdgm.experiments.reports import read_run, rows_of, training_rows
from mmdgm.report import page as pages
from mmdgm.report.run_report import run_report

pytestmark = browser.needs_browser
KINDS = ("digits", "large", "table")
SIZE = 3 * 2**20

# text that a reader sees, whose contrast to the colour behind it is below 4.5 (WCAG AA)
FAINT = """() => {
  const channel = c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
  const rgba = s => { const n = s.match(/[\\d.]+/g).map(Number), k = s.startsWith('color(') ? 255 : 1;
                      return [k * n[0], k * n[1], k * n[2], n[3] ?? 1]; };
  const light = c => .2126 * channel(c[0]) + .7152 * channel(c[1]) + .0722 * channel(c[2]);
  const over = (top, below) => [0, 1, 2].map(i => top[3] * top[i] + (1 - top[3]) * below[i]);
  const behind = e => { const around = e.parentElement ? behind(e.parentElement) : [255, 255, 255];
                        return over(rgba(getComputedStyle(e).backgroundColor), around); };
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement, style = getComputedStyle(e);
    if (!walk.currentNode.textContent.trim() || !e.getClientRects().length) continue;
    const below = behind(e), ink = over(rgba(e.closest('svg') ? style.fill : style.color), below);
    const [low, high] = [light(below), light(ink)].sort((a, b) => a - b);
    if ((high + .05) / (low + .05) < 4.5) found.push(`${walk.currentNode.textContent.trim()}: ${ink} on ${below}`);
  }
  return found;
}"""
# what sticks out of the page to the right, unless the reader can scroll to it
CUT = """() => [...document.querySelectorAll('body *')]
  .filter(e => !e.closest('.scroll, pre, .skip, svg') && e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => e.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module", name="reports")
def make_reports(trained, own, tmp_path_factory):
    """Reports of digits, of images of MNIST's size, and of a wide table with long names."""
    folder = tmp_path_factory.mktemp("reports")
    run = read_run(trained, device="cpu")
    (folder / "digits.html").write_bytes(run_report(run, rows_of(run, trained)))
    (folder / "large.html").write_bytes(with_larger_pictures(run))
    run = read_run(own / "rows", device="cpu")
    run.estimator.codec_ = run.estimator.codec_.named(
        [f"a very long name of the column {k} of this table" for k in range(3)]
    )
    (folder / "table.html").write_bytes(run_report(run, rows_of(read_run(own / "rows", device="cpu"), own / "rows")))
    return folder


def with_larger_pictures(run):
    """The report of a run whose pictures are drawn with noise of 28 × 28 pixels, the worst case for their size."""
    drawn, noise = pages.png, np.random.default_rng(0)

    def png(pixels):
        factor = 28 / 48  # the grids draw digits with 48 pixels
        size = (max(1, int(pixels.shape[1] * factor)), max(1, int(pixels.shape[0] * factor)))
        smaller = np.asarray(Image.fromarray(pixels).resize(size))
        return drawn((smaller + noise.integers(0, 99, smaller.shape)).clip(0, 255).astype(np.uint8))

    with pytest.MonkeyPatch.context() as patch:
        for module in ("page", "image_sections"):
            patch.setattr(f"mmdgm.report.{module}.png", png)
        return run_report(run, training_rows(datasets.load("digits").x_train[:, 0]))


@pytest.fixture(scope="module", name="chromium")
def make_chromium():
    with browser.chromium() as found:
        yield found


@pytest.fixture(name="show")
def make_show(chromium, reports):
    """Open a report; it must not say anything on the console, nor ask for anything else, until the test ends."""
    opened = []

    def show(kind, screen=WIDE, scheme="light"):
        context = chromium.new_context(viewport=screen, color_scheme=scheme)
        page = context.new_page()
        opened.append((context, browser.watch(page)))
        page.goto((reports / f"{kind}.html").as_uri())
        return page

    yield show
    for context, watched in opened:
        context.close()
        assert watched.errors == []
        assert len(watched.elsewhere()) == 1, watched.elsewhere()  # the file itself


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", [WIDE, NARROW], ids=["wide", "narrow"])
def test_a_report_is_readable_on_every_screen(show, reports, kind, screen, scheme):
    page = show(kind, screen, scheme)
    assert (reports / f"{kind}.html").stat().st_size < SIZE
    assert page.evaluate("document.documentElement.scrollWidth") <= screen["width"]
    assert page.evaluate(CUT) == []
    assert page.evaluate(FAINT) == []
    assert page.evaluate("[...document.images].filter(i => !i.naturalWidth).length") == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_on_paper_is_light_and_cuts_nothing(show, kind):
    page = show(kind, {"width": 718, "height": 1000}, "dark")  # A4 without its margins, in CSS pixels
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.evaluate(FAINT) == []
    wide = "[...document.querySelectorAll('table, img, svg, pre')].filter(e => e.getBoundingClientRect().right > 719)"
    assert page.evaluate(f"{wide}.map(e => e.outerHTML.slice(0, 80))") == []
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_can_be_used_with_the_keyboard_alone(show, kind):
    page = show(kind)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0  # visible while it has the focus
    stops = "[...document.querySelectorAll('a, summary, [tabindex=\"0\"]')].filter(e => !e.closest('details > pre'))"
    wanted = page.evaluate(f"{stops}.length")
    reached = set()
    for _ in range(wanted):
        reached.add(page.evaluate("[...document.querySelectorAll('*')].indexOf(document.activeElement)"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        page.keyboard.press("Tab")
    assert len(reached) == wanted
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("details").first.get_attribute("open") is not None


def test_faint_text_and_text_that_is_cut_are_found(show):
    page = show("table")
    page.evaluate("document.querySelector('h1').style.color = '#999'")
    assert [line.partition(":")[0] for line in page.evaluate(FAINT)] == ["Report"]
    page.evaluate("document.querySelector('h1').style.width = '3000px'")
    assert len(page.evaluate(CUT)) == 1
