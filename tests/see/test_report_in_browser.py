"""A report in a browser: it opens from the disk, draws itself, asks nothing of the network, and says so of no error."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import episode
from episode import samples

pytestmark = [pytest.mark.see, pytest.mark.spark, pytest.mark.filterwarnings("ignore::ResourceWarning")]

QUERY = """
    SELECT * FROM ticks MATCH_RECOGNIZE (
      PARTITION BY symbol ORDER BY ts MEASURES count(*) AS ticks
      PATTERN (STRT DOWN{8,} UP{8,}) DEFINE DOWN AS price < PREV(price), UP AS price > PREV(price))"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = samples.stock_ticks(3, symbols=("ACME", "BOLT", "CRUX"), ticks=4000).table
    return episode.report(episode.sql(QUERY, ticks=table), tmp_path_factory.mktemp("report") / "r.html", plots=3)


@pytest.fixture
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as tools:
        found = tools.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield found
        found.close()


def test_a_report_opens_from_the_disk(report: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    assert said == []
    assert [url for url in asked if not url.startswith(("data:", "file:"))] == []
    assert [url for url in asked if url.startswith("file:")] == [report.as_uri()]
    assert page.locator("section").count() == 7
    pictures = page.locator("figure img")
    assert pictures.count() == 3
    sizes = [pictures.nth(at).evaluate("one => [one.naturalWidth, one.alt.length]") for at in range(3)]
    assert all(width > 300 and words > 20 for width, words in sizes)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 1200  # nothing makes the page scroll sideways
    for link in page.locator("nav a").all():
        anchor = link.get_attribute("href")
        assert page.locator(f"section{anchor} h2").count() == 1


def test_a_report_fits_a_small_screen(report: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 420, "height": 800})
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
