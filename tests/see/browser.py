"""A browser for tests: the Chromium of the system, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """Where it is; a test without it is skipped."""
    found = os.environ.get("CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("There is no Chromium: run scripts/chromium, or set CHROMIUM to its path.")
    return found


@contextmanager
def browser() -> Iterator[object]:
    """A browser that is closed at the end."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: episode[see] has it.")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            yield opened
        finally:
            opened.close()
