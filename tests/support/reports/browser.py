"""A headless browser for tests of pages: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def chromium() -> str | None:
    """Returns the path of an installed Chromium, None without one."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@contextlib.contextmanager
def launched() -> Iterator[Any]:
    """Starts a browser; skips the test where there is none."""
    driver = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    path = chromium()
    if path is None:
        pytest.skip("needs Chromium: apt install chromium")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        try:
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def opened(
    browser: Any, path: Path, fragment: str = "", errors: bool = True, **options: Any
) -> Iterator[Any]:
    """Opens a page in a window of its own; the network is refused.

    Args:
        browser: what `launched` yields.
        path: file of the page.
        fragment: what follows `#` in its address.
        errors: whether errors and warnings of the page fail the test.
        options: of `new_context`, such as `color_scheme`.
    """
    found: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 800}, **options)
    page = context.new_page()
    page.set_default_timeout(5_000)
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", lambda message: found.append(message.text))
    page.on("request", lambda request: found.append(request.url) if _foreign(request.url) else None)
    try:
        page.goto(f"{path.as_uri()}#{fragment}")
        yield page
        assert not errors or not found, found
    finally:
        print("\n".join(found))
        context.close()


def _foreign(url: str) -> bool:
    """Whether something is fetched that is not the page itself."""
    return not url.startswith(("file:", "data:", "about:", "blob:"))
