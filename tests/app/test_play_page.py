"""The page Play in a real browser: draw, erase, see it classified and completed; by mouse, by file, by keys."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from mmdgm import MMVAClassifier, load
from mmdgm.app.image_play import ImagePlay
from mmdgm.app.play import play_site
from tests.app.conftest import running, watched_page

STILL = {"reduced_motion": "reduce"}


@pytest.fixture(scope="module", name="served")
def serve_images(trained):
    estimator = load(trained, device="cpu")
    with running(play_site(estimator, name="digits")) as server:
        server.play = ImagePlay(estimator)
        yield server


@pytest.fixture(scope="module", name="table")
def serve_table(on_a_table):
    with running(play_site(on_a_table, name="table")) as server:
        yield server


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(255 - pixels).resize((240, 240), Image.Resampling.NEAREST).save(file, "PNG")  # ink on paper
    return file.getvalue()


def pixels_of(page, canvas):
    """What is painted on a canvas, as one text."""
    return page.evaluate("id => document.getElementById(id).toDataURL()", canvas)


def stroke(page, *points):
    """Draw a line through points, given as parts of the drawing area."""
    box = page.locator("#pad").bounding_box()
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=6)
    page.mouse.up()


def predicted(page):
    page.locator("#predicted:not(:text-is('–'))").wait_for()
    return page.text_content("#predicted")


def quiet(page):
    """Wait until all questions are answered."""
    page.locator("body[data-asking='0']").wait_for()


def last_answer(page, act):
    """Do something; return the answer to the last question about a drawing, when the page has become quiet."""
    asked = []
    page.on("request", lambda request: asked.append(request) if request.url.endswith("/api/look") else None)
    act()
    quiet(page)
    return asked[-1].response().json(), json.loads(asked[-1].post_data)


def test_draw_erase_and_see_it_completed(chromium, served):
    with watched_page(chromium, served, **STILL) as page:
        page.locator("#drawing").wait_for()
        assert page.text_content("#predicted") == "–"
        assert not page.is_visible("#rounds")
        answer, asked = last_answer(page, lambda: stroke(page, (0.5, 0.1), (0.5, 0.9)))
        assert predicted(page) == str(answer["prediction"])
        assert served.play.look(asked)["prediction"] == answer["prediction"]
        before = page.locator("#scores td:last-child").all_text_contents()
        page.check("[value=erase]")
        answer, asked = last_answer(page, lambda: stroke(page, (0.2, 0.6), (0.8, 0.6)))
        page.locator("#rounds").wait_for()
        assert predicted(page) == str(answer["prediction"])
        assert page.locator("#scores td:last-child").all_text_contents() != before
        assert page.text_content("#round-name") == "mean of draws"
        assert page.locator("#draws canvas").count() == served.play.draws
        mean = pixels_of(page, "completed")
        page.locator("#round").fill("0")
        assert page.text_content("#round-name") == "start: noise"
        assert pixels_of(page, "completed") != mean
        page.click("#animate")
        page.locator("#round-name:text-is('mean of draws')").wait_for()
        assert pixels_of(page, "completed") == mean
        page.click("#restore")
        page.locator("#rounds").wait_for(state="hidden")
        page.click("#undo")
        page.locator("#rounds").wait_for()
        page.click("#clear")
        page.locator("#predicted:text-is('–')").wait_for()


def test_a_file_changes_the_prediction_and_its_style_is_shown_in_all_classes(chromium, served):
    rows = served.play.estimator.sample(40, y=[0, 7] * 20, random_state=0)
    found = {
        str(served.play.estimator.predict(row[None])[0]): np.round(row * 15).clip(0, 255).astype(np.uint8)
        for row in rows
    }
    assert len(found) > 1
    with watched_page(chromium, served, **STILL) as page:
        page.locator("#drawing").wait_for()
        seen = []
        for name, image in list(found.items())[:2]:
            file = {"name": f"{name}.png", "mimeType": "image/png", "buffer": png(image)}
            answer, _ = last_answer(page, lambda file=file: page.set_input_files("#file", file))
            page.locator("#done:has-text('inverted')").wait_for()
            seen.append(predicted(page))
            assert seen[-1] == str(answer["prediction"])
        assert seen[0] != seen[1]
        average = pixels_of(page, "chosen")
        page.click("#style")
        page.locator("#classes-title:text-is('Your style in all classes')").wait_for()
        quiet(page)
        assert page.locator("#classes canvas").count() == 10
        assert pixels_of(page, "chosen") != average
        page.locator("#sliders input").first.fill("2")
        quiet(page)
        styled = pixels_of(page, "chosen")
        page.check("#classes [value='3']")
        assert pixels_of(page, "chosen") != styled
        page.click("#use")
        quiet(page)
        page.expected += ["400 (Bad Request)"]
        wrong = {"name": "x.png", "mimeType": "image/png", "buffer": b"no image"}
        page.set_input_files("#file", wrong)
        page.locator("#message:has-text('cannot be read as an image')").wait_for()
        large = {"name": "large.png", "mimeType": "image/png", "buffer": b"x" * (9 * 2**20)}
        page.set_input_files("#file", large)
        page.locator("#message:has-text('large.png: is larger than 8 MiB')").wait_for()
        page.click("#example")
        page.locator("#message").wait_for(state="hidden")


def test_everything_by_keyboard_alone(chromium, served):
    with watched_page(chromium, served, **STILL) as page:
        page.locator("#drawing").wait_for()
        keys = page.keyboard

        def to(element, key="Tab"):
            for _ in range(40):
                if page.evaluate("id => document.activeElement.matches(id)", element):
                    return
                keys.press(key)
            raise AssertionError(f"{element} cannot be reached by {key}")

        to("#pad")
        for key in ("ArrowUp", "ArrowUp", "ArrowUp", " ", *["ArrowDown"] * 5, " "):
            keys.press(key)
        assert predicted(page)
        assert page.text_content("#pad-place") == "tool lifted"
        page.locator("#spoken:has-text('predicted: ')").wait_for(state="attached")
        to("[name=tool]")
        keys.press("ArrowRight")
        to("#pad", "Shift+Tab")
        for _ in range(4):
            keys.press("Shift+ArrowLeft")
        page.locator("#rounds").wait_for()
        to("#round")
        keys.press("Home")
        assert page.text_content("#round-name") == "start: noise"
        to("#pad", "Shift+Tab")
        for _ in range(4):
            keys.press("Control+z")
        page.locator("#rounds").wait_for(state="hidden")
        to("#sliders input")
        before = pixels_of(page, "chosen")
        keys.press("End")
        quiet(page)
        page.wait_for_timeout(50)
        assert pixels_of(page, "chosen") != before
        to("#classes input")
        keys.press("ArrowRight")
        assert page.is_checked("#classes [value='1']")


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_its_window_and_every_control_has_a_name(chromium, served, table, width):
    for server in (served, table):
        with watched_page(chromium, server, viewport={"width": width, "height": 800}, **STILL) as page:
            page.locator("#prediction").wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") == width
            unnamed = page.evaluate(
                """() => [...document.querySelectorAll("button, input, select, canvas[role]")].filter(e =>
                !(e.labels?.length || e.getAttribute("aria-label") || e.textContent.trim())).map(e => e.outerHTML)"""
            )
            assert unnamed == []


def test_empty_cells_are_filled_and_the_prediction_follows(chromium, table):
    with watched_page(chromium, table) as page:
        page.locator("#prediction").wait_for()
        page.fill("#cell-0", "6")
        page.fill("#cell-2", "-3")
        page.locator("#predicted:text-is('b')").wait_for()
        page.fill("#cell-0", "-1")
        page.fill("#cell-2", "2")
        page.select_option("#cell-1", label="red")
        page.locator("#predicted:text-is('a')").wait_for()
        page.select_option("#cell-1", value="")
        page.locator("#fill-1:has-text('filled: ')").wait_for()
        page.fill("#cell-0", "")
        page.locator("#fill-0:has-text('90 % of draws')").wait_for()
        page.click("#row-typical")
        page.locator("#fill-0:has-text('filled')").wait_for(state="detached")
        page.click("#row-holes")
        page.locator(".cell.missing").first.wait_for(state="attached")


def test_colour_images_without_a_generator_by_class(chromium):
    X = np.random.default_rng(0).random((20, 8, 8, 3))
    model = MMVAClassifier(max_epochs=1, random_state=0, device="cpu", z=2).fit(X, np.array(["ja", "nein"] * 10))
    with running(play_site(model, name="colours")) as server, watched_page(chromium, server, **STILL) as page:
        page.locator("#drawing").wait_for()
        page.fill("#colour", "#ff8000")
        _, asked = last_answer(page, lambda: stroke(page, (0.5, 0.2), (0.5, 0.8)))
        pixels = np.frombuffer(base64.b64decode(asked["pixels"]), np.uint8).reshape(8, 8, 3)
        np.testing.assert_allclose(pixels.max(axis=(0, 1)), [255, 128, 0], atol=10)
        assert predicted(page) in ("ja", "nein")
        assert page.locator("#scores tr").count() == 2
        page.check("[value=erase]")
        stroke(page, (0.2, 0.5), (0.8, 0.5))
        page.locator("#rounds").wait_for()
        assert page.locator("#sliders input").count() == 2
        assert not page.is_visible("#classes")
        before = pixels_of(page, "chosen")
        page.click("#random")
        quiet(page)
        assert pixels_of(page, "chosen") != before
