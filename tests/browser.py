"""Pages in a real browser: Debian's Chromium, driven by playwright. Tests skip with a reason where one is missing."""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}  # pixels of a screen
MISSING = "" if CHROMIUM and importlib.util.find_spec("playwright") else "needs chromium and playwright"
needs_browser = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@dataclass
class Watched:
    """What a page said on the console, and the addresses that it asked for."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def elsewhere(self, *origins: str) -> list[str]:
        """Addresses other than data in the page and those that begin with an origin."""
        return [url for url in self.requests if not url.startswith(("data:", "blob:", *origins))]


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        root = hasattr(os, "geteuid") and os.geteuid() == 0  # its processes cannot be shut in
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] * root)
        try:
            yield browser
        finally:
            browser.close()


def watch(page: Any) -> Watched:
    """Write down the errors, warnings and requests of a page from now on."""
    watched = Watched()
    page.on("console", lambda m: watched.errors.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: watched.errors.append(str(error)))
    page.on("requestfailed", lambda request: watched.errors.append(f"{request.url}: {request.failure}"))
    page.on("request", lambda request: watched.requests.append(request.url))
    return watched
