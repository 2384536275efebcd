"""The studio as a person uses it: typing, running, clicking, cancelling, reloading; by keyboard alone; its colours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import episode.see.studio
from episode.see.studio import tables as gallery
from episode.see.studio.server import Serving
from tests.see.browser import browser

pytestmark = [pytest.mark.spark, pytest.mark.see]

PATIENCE = 60_000
"""Milliseconds that Spark has."""
LONG = "SELECT count(*) AS n FROM range(100000000) a CROSS JOIN range(100000000) b WHERE a.id % 7 = b.id % 11"
FALLS = """SELECT * FROM prices MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY ts
  MEASURES FIRST(ts) AS began, COUNT(*) AS n
  PATTERN (A B{2,}) DEFINE B AS B.v < PREV(B.v))"""
PRICES = pa.table({"k": ["x"] * 8, "ts": list(range(8)), "v": [5, 4, 3, 6, 5, 7, 6, 5]})


@pytest.fixture(scope="module")
def serving(spark: SparkSession) -> Iterator[Serving]:
    found = episode.see.studio.serve({"prices": PRICES}, spark=spark, port=0)
    yield found
    found.stop()


@pytest.fixture(scope="module")
def chrome() -> Iterator[Any]:
    with browser() as opened:
        yield opened


@pytest.fixture
def page(chrome: Any, serving: Serving) -> Iterator[Any]:
    """The page of somebody who opens the printed address; whatever it complains of fails the test."""
    context = chrome.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    made = entered(context, serving)
    wrong: list[str] = []
    made.on("pageerror", lambda error: wrong.append(str(error)))
    yield made
    context.close()
    assert wrong == []


def entered(context: Any, serving: Serving) -> Any:
    made = context.new_page()
    made.set_default_timeout(PATIENCE)
    made.goto(serving.address)
    made.locator("#query-view").wait_for()
    return made


def write(page: Any, text: str) -> None:
    """Type over what is there, key by key at the end."""
    page.locator("#editor-text").fill(text[:-3])
    page.locator("#editor-text").press("Control+End")
    page.keyboard.type(text[-3:])


def run(page: Any, state: str = "done") -> None:
    page.locator("#run").click()
    page.locator(f"#run-state[data-state={state}]").wait_for()


def test_without_the_token_there_is_nothing(chrome: Any, serving: Serving) -> None:
    context = chrome.new_context()
    for address in (serving.address.split("#")[0], re.sub("token=.*", "token=guessed", serving.address)):
        page = context.new_page()
        page.goto(address)
        page.locator("#gate").wait_for()
        assert page.locator("#query-view").is_hidden()
    context.close()


def test_the_token_does_not_stay_in_the_address(page: Any, serving: Serving) -> None:
    assert "token" not in page.url
    page.reload()
    page.locator("#query-view").wait_for()
    assert page.context.cookies()[0]["httpOnly"] is True


def test_a_mistake_is_marked_while_one_types(page: Any) -> None:
    write(page, FALLS.replace("B.v <", "B.w <"))
    marked = page.locator("#editor-colours .wrong")
    marked.first.wait_for()
    assert "".join(marked.all_text_contents()) == "B.w"
    assert page.locator("#editor-lines .at-fault").inner_text().strip() == "! 4"
    assert "There is no column w" in page.locator("#problem").inner_text()
    assert "^^^" in page.locator("#problem pre").inner_text()
    assert page.locator("#editor-text").get_attribute("aria-invalid") == "true"
    write(page, FALLS)
    page.locator("#check.is-right").wait_for()
    assert page.locator("#problem").is_hidden()
    assert page.locator("#check").inner_text() == "✓ Gives k, began, n"


def test_colours_of_all_languages(page: Any) -> None:
    for name, labels in (
        ("v_shape", {"STRT", "DOWN", "UP"}),
        ("searches", {"a", "b", "c"}),
        ("aired", {"hot", "open"}),
    ):
        page.locator(f".example[data-name={name}]").click()
        found = set(page.locator("#editor-colours .label").all_text_contents())
        assert labels <= found
        assert "PATTERN" in page.locator("#editor-colours .clause").all_text_contents()
    assert page.locator("#editor-colours .relation").all_text_contents() == ["overlaps"]
    assert page.locator("#editor-colours .comment").count() == 1


@pytest.mark.parametrize("example", gallery.EXAMPLES, ids=lambda one: one.name)
def test_every_example_runs_and_is_drawn(page: Any, example: gallery.Example) -> None:
    page.locator(f".example[data-name={example.name}]").click()
    page.locator("#check.is-right").wait_for()
    run(page)
    page.locator("#panel-rows table.grid tbody tr").first.wait_for()
    page.locator("#tab-plot").click()
    if example.language == gallery.WINDOWS:
        page.locator("#panel-plot .problem").wait_for()
        assert "not drawn" in page.locator("#panel-plot .problem").inner_text()
    else:
        page.locator("#panel-plot svg.marks").wait_for()
        assert page.locator("#panel-plot [role=figure]").get_attribute("aria-label")
    page.locator("#tab-plan").click()
    page.locator("#panel-plan svg").first.wait_for()


def test_a_click_asks_why_there_is_no_match(page: Any) -> None:
    write(page, FALLS)
    run(page)
    page.locator("#tab-plot").click()
    chart = page.locator("#panel-plot svg.marks")
    chart.wait_for()
    box = chart.bounding_box()
    page.mouse.click(box["x"] + 0.5 * box["width"], box["y"] + 0.45 * box["height"])
    page.locator("#panel-why .finding").first.wait_for()
    assert page.locator("#why-at").input_value()
    assert page.locator("#tab-why").get_attribute("aria-selected") == "true"


def test_asking_by_key_and_time_shows_the_place_in_the_query(page: Any) -> None:
    write(page, FALLS)
    run(page)
    page.locator("#tab-why").click()
    page.locator("#why-at").fill("3")
    page.locator("#panel-why button[type=submit]").click()
    finding = page.locator("#panel-why .finding").first
    finding.wait_for()
    finding.locator("button.link").click()
    selected = page.evaluate(
        "() => { const t = document.getElementById('editor-text');"
        " return t.value.slice(t.selectionStart, t.selectionEnd) }"
    )
    assert selected
    assert "".join(page.locator("#editor-colours .noted").all_text_contents()) == selected


def test_a_long_query_is_cancelled(page: Any) -> None:
    write(page, LONG)
    page.locator("#run").click()
    page.locator("#cancel:not([disabled])").click()
    page.locator("#run-state[data-state=cancelled]").wait_for()
    page.locator("#runs .entry[aria-current=true]", has_text="cancelled").wait_for()  # the list is asked for anew
    write(page, "SELECT 1 AS one")
    run(page)


def test_a_page_that_is_loaded_again_finds_its_run(page: Any) -> None:
    write(page, LONG)
    page.locator("#run").click()
    page.locator("#cancel:not([disabled])").wait_for()
    number = page.locator("#run-state").inner_text().split(" · ")[0]
    page.reload()
    page.locator("#run-state[data-state=running]").wait_for()
    assert page.locator("#editor-text").input_value() == LONG
    assert page.locator("#run-state").inner_text().startswith(number)
    page.locator("#cancel:not([disabled])").click()
    page.locator("#run-state[data-state=cancelled]").wait_for()


def test_two_tabs_do_not_disturb_each_other(page: Any, serving: Serving) -> None:
    other = entered(page.context, serving)
    write(page, "SELECT 'first' AS tab")
    write(other, "SELECT 'second' AS tab")
    page.locator("#run").click()
    run(other)
    page.locator("#run-state[data-state=done]").wait_for()
    for one, name in ((page, "first"), (other, "second")):
        one.locator("#panel-rows td", has_text=name).wait_for()
    other.reload()
    other.locator("#panel-rows td", has_text="second").wait_for()


def test_by_keyboard_alone(page: Any) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the query"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab") if page.evaluate("document.activeElement.id") != "editor-text" else None
    page.locator("#editor-text").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("SELECT 7 AS seven")
    page.keyboard.press("Control+Enter")
    page.locator("#panel-rows td", has_text="7").first.wait_for()
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "tab-rows":
            break
    assert page.evaluate("document.activeElement.id") == "tab-rows"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.id") == "tab-why"
    assert page.locator("#panel-why").is_visible()
    assert "no pattern" in page.locator("#panel-why").inner_text()
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_a_table_is_previewed_and_its_columns_inserted(page: Any) -> None:
    page.get_by_label("First rows of prices").click()
    page.locator("#panel-preview table.grid tbody tr").first.wait_for()
    assert page.locator("#panel-preview tbody tr").count() == 8
    write(page, "SELECT 1")
    page.get_by_title("Insert v", exact=True).click()
    assert page.locator("#editor-text").input_value() == "SELECT 1v"


def test_exports(page: Any, tmp_path: Path) -> None:
    write(page, FALLS)
    run(page)
    found = {}
    for name in ("sql", "notebook", "report"):
        with page.expect_download() as waiting:
            page.locator(f"#export-{name}").click()
        found[name] = Path(waiting.value.path()).read_text(encoding="utf-8")
    assert found["sql"] == FALLS
    assert "episode.sql(query, prices=prices)" in json.dumps(json.loads(found["notebook"]))
    assert "<html" in found["report"]


def test_running_streams_are_shown(page: Any, spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(PRICES, tmp_path / "prices.parquet")
    stream = spark.readStream.schema("k string, ts bigint, v bigint").parquet(str(tmp_path))
    query = stream.writeStream.format("memory").queryName("seen_prices").start()
    try:
        query.processAllAvailable()
        page.locator(".view-tab[data-view=streams]").click()
        card = page.locator("[data-stream=seen_prices]")
        card.wait_for()
        card.locator("table.grid tbody tr").first.wait_for()
        assert "8" in card.locator(".figures").inner_text()
    finally:
        query.stop()


CONTRAST = """() => {
  const shades = (text) => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((one) => {
      const share = one / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
  };
  const light = (text) => { const [r, g, b] = shades(text); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const probe = document.createElement('span');
  document.body.append(probe);
  const colour = (name) => { probe.style.color = `var(--${name})`; return light(getComputedStyle(probe).color); };
  const found = {};
  const pairs = { paper: ['text', 'quiet', 'accent', 'wrong', 'right', 'keyword', 'clause', 'label', 'string', 'number',
    'comment', 'function'], ground: ['text', 'quiet'], raised: ['text', 'quiet'], chosen: ['text', 'accent', 'quiet'],
    'wrong-ground': ['text', 'quiet', 'wrong', 'label', 'keyword', 'clause'], accent: ['on-accent'] };
  for (const [ground, names] of Object.entries(pairs)) for (const name of names) {
    const [one, other] = [colour(name), colour(ground)].sort((a, b) => b - a);
    found[`${name} on ${ground}`] = (one + 0.05) / (other + 0.05);
  }
  probe.remove();
  return found;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read(page: Any, theme: str) -> None:
    page.locator("#theme").select_option(theme)
    too_faint = {pair: ratio for pair, ratio in page.evaluate(CONTRAST).items() if ratio < 4.5}
    assert too_faint == {}


def test_everything_that_can_be_used_has_a_name(page: Any) -> None:
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('button, select, input, textarea')]
            .filter((one) => !one.innerText?.trim() && !one.ariaLabel && !one.labels?.length && !one.title)
            .map((one) => one.outerHTML)"""
    )
    assert nameless == []
    assert page.locator("h1").count() == 1
    assert page.evaluate("document.documentElement.lang") == "en"
