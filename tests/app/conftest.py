"""Real servers in threads of this process, and Debian's Chromium (or Chrome) driven by playwright."""

import threading
from contextlib import contextmanager

import numpy as np
import pytest

import browser
from mmdgm import MMCVAClassifier

pytest.importorskip("starlette", reason="the page needs starlette and uvicorn: pip install 'mmdgm[app]'")
pytest.importorskip("uvicorn", reason="the page needs starlette and uvicorn: pip install 'mmdgm[app]'")

from mmdgm.app.server import PageServer

NAMES = ["width", "colour", "height"]


@contextmanager
def running(site, **limits):
    """A server of this site in a thread, which ends with the block."""
    server = PageServer(site, **limits)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(timeout=10)
        assert not thread.is_alive()


@pytest.fixture(scope="session")
def on_a_table():
    """A classifier of a table with numbers, a category, and missing values."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    colour = np.where(rng.random(60) < 0.9, np.array(["red", "blue"])[y], "deep, green").astype(object)
    colour[::7] = None
    width = np.where(np.arange(60) % 5, np.round(rng.normal(4 * y), 2), np.nan)
    X = np.stack([width.astype(object), colour, rng.normal(-y).astype(object)], axis=1)
    fitted = MMCVAClassifier(hidden=(16,), max_epochs=20, random_state=0, device="cpu")
    fitted.fit(X, np.array(["a", "b"])[y])
    fitted.codec_ = fitted.codec_.named(NAMES)  # as `mmdgm fit` does
    return fitted


@pytest.fixture(scope="module")
def chromium():
    """A browser; tests open contexts of it, because a context is a new profile.

    For a module, not longer: while it is there, playwright's event loop runs in this thread, and others cannot.
    """
    if reason := browser.MISSING:
        pytest.skip(reason)
    with browser.chromium() as started:
        yield started


@contextmanager
def watched_page(chromium, server, **options):
    """A page of the server that has been opened by its address.

    At the end: no console error, no exception, and no request to another host.
    """
    context = chromium.new_context(**options)
    page, wrong = context.new_page(), []
    page.on("console", lambda line: wrong.append(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    own = (f"http://127.0.0.1:{server.port}/", "data:", "blob:")
    page.on("request", lambda request: None if request.url.startswith(own) else wrong.append(request.url))
    page.expected = []  # parts of console lines that the test provokes
    try:
        page.goto(server.address)
        yield page
        page.wait_for_timeout(50)
        assert [line for line in wrong if not any(part in line for part in page.expected)] == []
    finally:
        context.close()
