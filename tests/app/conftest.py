"""Real servers in threads of this process, and Debian's Chromium (or Chrome) driven by playwright."""

import os
import shutil
import threading
from contextlib import contextmanager

import pytest

pytest.importorskip("starlette", reason="the page needs starlette and uvicorn: pip install 'mmdgm[app]'")
pytest.importorskip("uvicorn", reason="the page needs starlette and uvicorn: pip install 'mmdgm[app]'")

from mmdgm.app.server import PageServer


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
def chromium():
    """A browser; tests open contexts of it, because a context is a new profile."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("needs a browser: apt-get install chromium")
    options = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


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
