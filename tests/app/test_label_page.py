"""The page Label in a browser: by keys alone, with a server that is killed, slow, or shared by two browsers."""

import csv
import io
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pytest

from mmdgm.app import label_session
from mmdgm.app.label import label_site
from tests.app.conftest import running, watched_page
from tests.app.label_data import get, session_of, write_digits

SAVED = '#saved[data-waiting="0"]'


@pytest.fixture(name="served")
def serve_some_digits(tmp_path):
    """A server of 60 digits in files, its session, and the classes."""
    truth = write_digits(tmp_path / "digits", 60)
    session = session_of(tmp_path / "digits")
    try:
        with running(label_site(session)) as server:
            yield server, session, truth
    finally:
        session.close()


def shown_row(page):
    page.wait_for_selector("#row[data-row] img")
    return int(page.get_attribute("#row", "data-row"))


def press(page, key):
    """Press a key for a class; where no class has it yet, the page asks for a name and suggests the key."""
    page.keyboard.press(key)
    if page.locator("#dialog").is_visible():
        page.keyboard.press("Enter")


def answer(page, truth):
    """Give the shown row its class, and wait until the next row is shown and the answer is kept; returns the row."""
    row = shown_row(page)
    press(page, truth[row])
    page.wait_for_selector(f'#row:not([data-row="{row}"])')
    page.wait_for_selector(SAVED)
    return row


class Address(NamedTuple):
    """What `watched_page` and `get` need to know of a server."""

    address: str
    port: int
    token: str


@contextmanager
def label_process(folder, port=None):
    """The command `mmdgm app` in a process of its own, which is killed at the end; yields its Address and process."""
    words = [sys.executable, "-m", "mmdgm", "app", "digits", "--no-browser", *(["--port", str(port)] if port else [])]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().strip()
            yield Address(address, int(re.search(r":(\d+)/", address)[1]), address.partition("token=")[2]), process
        finally:
            process.send_signal(signal.SIGKILL)


@pytest.mark.slow
def test_thirty_labels_of_digits_leave_three_percent_and_a_killed_server_loses_none(chromium, tmp_path):
    truth, labels = write_digits(tmp_path / "digits"), {}
    with label_process(tmp_path) as (server, process), watched_page(chromium, server) as page:
        page.expected += ["Failed to load resource"]
        page.wait_for_selector("text=Guesses come with the first labels")
        for _ in range(15):
            row = answer(page, truth)
            labels[row] = truth[row]
            page.wait_for_timeout(100)
        process.send_signal(signal.SIGKILL)
        process.wait()
        row = shown_row(page)
        press(page, truth[row])  # while the server is gone
        labels[row] = truth[row]
        page.wait_for_selector("#saved.lost")
        assert page.get_attribute("#saved", "data-waiting") == "1"
        with label_process(tmp_path, server.port) as (server, process):
            page.goto(server.address)
            page.wait_for_selector(SAVED)
            page.wait_for_selector("text=/guessed, propagated/")
            while len(labels) < 30:
                row = answer(page, truth)
                labels[row] = truth[row]
                page.wait_for_timeout(100)
            with (tmp_path / "digits-labels.csv").open() as file:
                assert {int(line["row"]): line["label"] for line in csv.DictReader(file)} == labels
            page.wait_for_timeout(1000)
            _, _, content = get(server, "/api/label/export/predictions.csv")
    lines = csv.DictReader(io.StringIO(content.decode()))
    wrong = [line["prediction"] != truth[int(line["row"])] for line in lines if not line["label"]]
    assert len(wrong) == 1797 - 30
    assert np.mean(wrong) <= 0.03


def test_two_browsers_ask_for_different_rows_and_see_the_same(chromium, served):
    server, session, truth = served
    assert session.guessing.wait(0)
    with watched_page(chromium, server) as one, watched_page(chromium, server) as two:
        assert shown_row(one) is not None
        one.wait_for_timeout(1200)  # both have said that they are there
        rows = [answer(page, truth) for _ in range(8) for page in (one, two)]
        assert len(set(rows)) >= 15  # the first row may have been shown to both
        for page in (one, two):
            page.wait_for_selector(f"#labeled:text-is('{len(set(rows))}')")
        mine = answer(one, truth)
        again = {"id": "x", "do": "label", "row": mine, "label": "other"}
        session.add("third", [again])
        one.keyboard.press("Backspace")  # the last word on the row is not this browser's
        one.wait_for_selector("#message:has-text('was changed since')")
        assert session.store.labels()[mine] == "other"
        for page in (one, two):
            page.wait_for_selector("#keys button[aria-label^='other,']")
            counts = dict(session.store.counts())
            for name, n in counts.items():
                page.wait_for_selector(
                    f"#keys button[aria-label='{name}, key {session.store.classes[name]}, {n} labeled']"
                )


def test_a_thousand_rapid_key_presses_are_kept_in_order_by_a_slow_server(chromium, tmp_path, monkeypatch):
    names = np.array(["ant", "bee", "cat"])
    y = [*names, *["-1"] * 1097]
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).random((1100, 8, 8)), y=np.array(y))
    session, real = session_of(tmp_path / "x.npz"), label_session.LabelSession.add

    def slow(self, who, events):
        time.sleep(0.3 if events else 0)
        return real(self, who, events)

    monkeypatch.setattr(label_session.LabelSession, "add", slow)
    numbers = np.random.default_rng(1).integers(0, 3, 1000)
    try:
        with running(label_site(session)) as server, watched_page(chromium, server) as page:
            shown_row(page)
            page.evaluate(PRESS_ALL, "".join(str(number + 1) for number in numbers))
            page.wait_for_selector("#labeled:text-is('1,003')")
            assert page.get_attribute("#saved", "data-waiting") == "0"
        lines = [line for line in session.store.since(0) if line["kind"] == "label"]
        assert [line["label"] for line in lines] == names[numbers].tolist()
        assert len({line["row"] for line in lines}) == 1000
    finally:
        session.close()


PRESS_ALL = """keys => {
  for (const key of keys) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
}"""


def test_everything_is_done_by_keys_alone(chromium, served):
    server, session, _ = served
    assert session.guessing.wait(0)
    with watched_page(chromium, server) as page:
        first = shown_row(page)
        page.keyboard.press("Enter")
        page.keyboard.type("two words")
        page.keyboard.press("Enter")
        page.wait_for_selector("#keys button[aria-label='two words, key 1, 1 labeled']")
        assert session.store.labels() == {first: "two words"}
        page.keyboard.press("Backspace")
        page.wait_for_selector(f'#row[data-row="{first}"]')
        page.wait_for_selector(SAVED)
        assert session.store.labels() == {}
        page.keyboard.press("Space")
        page.wait_for_selector(f'#row:not([data-row="{first}"])')
        second = shown_row(page)
        page.keyboard.press("?")
        page.wait_for_selector(f'#row:not([data-row="{second}"])')
        page.wait_for_selector(SAVED)
        assert session.store.closed_rows() == {first: "skip", second: "unsure"}
        page.keyboard.press("Enter")
        page.keyboard.type("x, y")
        page.keyboard.press("Enter")
        page.wait_for_selector("#keys button[aria-label='y, key y, 0 labeled']")
        third = shown_row(page)
        page.keyboard.press("y")
        page.wait_for_selector(f'#row:not([data-row="{third}"])')
        page.keyboard.press("x")
        page.wait_for_selector(SAVED)
        assert set(session.store.labels().values()) == {"x", "y"}
        spoken = page.inner_text("#spoken")
        assert spoken == "x"
        unnamed = """() => [...document.querySelectorAll("button, input, select, a, img")].filter((element) =>
            !(element.getAttribute("aria-label") || element.textContent.trim() || element.labels?.length
              || element.alt !== undefined)).length"""
        assert page.evaluate(unnamed) == 0


def test_the_wall_is_corrected_by_keys_and_by_clicks(chromium, served):
    server, session, truth = served
    session.add("me", [{"id": f"{i}", "do": "label", "row": i, "label": truth[i]} for i in range(30)])
    assert session.guessing.wait(session.store.version)
    guessed = session.state()["guessed"]
    name = max(guessed, key=guessed.get)
    with watched_page(chromium, server) as page:
        page.click(f"#bars button[aria-label^='{name}:']")
        page.wait_for_selector("#tiles .tile")
        expected = [tile["row"] for tile in session.wall(name, labeled=False, start=0, n=60)["tiles"]]
        shown = page.eval_on_selector_all("#tiles .tile", "tiles => tiles.map((tile) => Number(tile.dataset.row))")
        assert shown == expected
        page.focus("#tiles [tabindex='0']")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("7")
        page.wait_for_selector("#tiles .tile.said")
        page.wait_for_selector(SAVED)
        assert session.store.labels()[expected[1]] == "7"
        page.click(f"#tiles [data-row='{expected[0]}']")
        page.click(f"#tiles [data-row='{expected[2]}']")
        page.click(f"#keys button[aria-label^='{name},']")
        page.wait_for_selector(SAVED)
        assert [session.store.labels()[row] for row in (expected[0], expected[2])] == [name, name]
        page.keyboard.press("Backspace")
        page.wait_for_selector(SAVED)
        assert expected[2] not in session.store.labels()
        page.check("input[value=labeled]")
        page.wait_for_selector("#wall-note:has-text('rows labeled')")
        page.check("input[value=ask]")
        shown_row(page)


def test_a_table_is_shown_as_cards_with_unusual_values(chromium, tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{rng.normal():.3f},{'red' if i % 2 else 'blue'}" for i in range(59)]
    (tmp_path / "t.csv").write_text("size,colour\n" + "\n".join([*lines, "99.5,green"]) + "\n")
    session = session_of(tmp_path / "t.csv")
    try:
        with running(label_site(session)) as server, watched_page(chromium, server) as page:
            page.wait_for_selector("#row .card dt:text-is('colour')")
            page.evaluate("() => document.activeElement.blur()")
            for _ in range(60):
                row = int(page.get_attribute("#row", "data-row"))
                if row == 59:
                    break
                page.keyboard.press("Space")
                page.wait_for_selector(f'#row:not([data-row="{row}"])')
            page.wait_for_selector("#row .unusual:has-text('99.5')")
            assert page.locator("#row .unusual").count() == 2
    finally:
        session.close()


def test_skipped_rows_come_again_when_there_are_no_others(chromium, tmp_path):
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).random((6, 8, 8)))
    session = session_of(tmp_path / "x.npz")
    try:
        with running(label_site(session)) as server, watched_page(chromium, server) as page:
            skipped = shown_row(page)
            page.keyboard.press("Space")
            page.wait_for_selector(f'#row:not([data-row="{skipped}"])')
            for _ in range(5):
                row = shown_row(page)
                press(page, "a")
                page.wait_for_selector(f'#row:not([data-row="{row}"])')
            page.wait_for_selector(f'#row[data-row="{skipped}"] img')
            press(page, "b")
            page.wait_for_selector("text=Every row is answered")
            page.wait_for_selector(SAVED)
            assert session.store.labels() == {row: "b" if row == skipped else "a" for row in range(6)}
    finally:
        session.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast_and_nothing_is_wider_than_a_phone(chromium, served, scheme):
    server, session, truth = served
    session.add("me", [{"id": f"{i}", "do": "label", "row": i, "label": truth[i]} for i in range(30)])
    options = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme}
    with watched_page(chromium, server, **options) as page:
        shown_row(page)
        page.wait_for_selector("#bars button")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        low = page.evaluate(CONTRAST)
        assert low == []


CONTRAST = """() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => parts(colour).slice(0, 3).map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((parts(colour)[3] ?? 1) > 0.99) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const low = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("[disabled], [aria-disabled], option")) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(behind(element))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push(element.textContent.trim());
  }
  return low;
}"""
