"""The page of a report: its sections and numbers, nothing from elsewhere, nothing of the data taken for markup."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timezone
from html.parser import HTMLParser

import pytest

from episode.see.reports.charts import Bins
from episode.see.reports.data import (
    ColumnRow,
    Histogram,
    InputPart,
    KeyRow,
    MatchPart,
    PatternPart,
    Report,
    ReportPicture,
    ResultPart,
)
from episode.see.reports.page import page_of
from episode.see.reports.tables import TimeFormat, highlight
from episode.words import MINUTE, SECOND

NASTY = "<script>alert('x')</script>&"
QUERY = "-- a comment < here\nSELECT * FROM t MATCH_RECOGNIZE (PATTERN (A B+) DEFINE B AS B.v < 3 AND B.s = '<b>')"
FOUND = MatchPart(
    matches=7,
    placed=6,
    rows=21,
    first=0.0,
    last=50.0 * MINUTE,
    lengths=(1.0 * SECOND, 2.0 * SECOND, 5.0 * SECOND, 9.0 * SECOND, 9.0 * SECOND, 3.0 * SECOND),
    clock=TimeFormat(True),
    over_time=Histogram(Bins(0.0, MINUTE, 51), {0: 2, 3: 1, 50: 3}),
    by_length=Histogram(Bins(0.0, SECOND, 10), {1: 4, 9: 2}),
    key_names=("k",),
    keys=3,
    top_keys=(KeyRow((NASTY,), 4), KeyRow((None,), 2)),
    rarest=KeyRow(("rare",), 1),
)
PATTERN = PatternPart(
    kind="row pattern",
    text=QUERY,
    labels=("A", "B"),
    found=FOUND,
    reason="",
    inputs=(InputPart("", 100, (5, 40), (ColumnRow("k", "key", "string", 2, "a", NASTY),)),),
    plan="<pre>plan</pre>",
    pictures=(
        ReportPicture("The longest match", f"k {NASTY}", "<svg xmlns='http://www.w3.org/2000/svg'/>"),
        ReportPicture("The shortest match", "k b", None, "It could not be drawn: too small."),
    ),
)
REPORT = Report(
    title=f"Report {NASTY}",
    query=QUERY,
    arguments={"low": 1},
    result=ResultPart(3, ("k", "v"), ((NASTY, 1), (None, 2))),
    patterns=(PATTERN,),
    written=datetime(2026, 3, 2, tzinfo=timezone.utc),
    version="0",
    session="Spark",
    timings=(("the query", 1.5), ("the plan", 0.5)),
)


class Outline(HTMLParser):
    """Elements, texts and what would be loaded."""

    VOID = frozenset(("meta", "link", "img", "br", "line", "rect"))

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name in ("src", "href", "data", "action"):
                (self.links if (value or "").startswith("#") else self.loaded).append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style",):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def test_sections_and_numbers() -> None:
    page = page_of(REPORT)
    seen = Outline(page)
    assert not seen.open
    sections = ["query", "matches", "pictures", "result", "input", "plan", "timings"]
    assert [one for one in seen.ids if one in sections] == sections
    assert [one.removeprefix("#") for one in seen.links] == sections
    assert "found 7 times" in seen.text
    assert "1 match without rows" in seen.text
    assert "The statement around the pattern makes 3 rows of them." in seen.text
    assert "The first 2 of 3 rows." in seen.text
    assert "1 more key with 1 match; the fewest, 1, has rare." in seen.text
    assert "In 2 rows (2.0 %) the key (k) is null." in seen.text
    assert ":low = 1" in seen.text
    assert "It could not be drawn: too small." in seen.text
    assert seen.tags.count("rect") == len(FOUND.over_time.counts) + len(FOUND.by_length.counts)  # type: ignore[union-attr]


def test_nothing_is_loaded_and_nothing_is_run() -> None:
    page = page_of(REPORT)
    seen = Outline(page)
    assert all(one.startswith("data:image/svg+xml;base64,") for one in seen.loaded)
    assert "script" not in seen.tags
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org)", page)
    assert not [tag for tag in seen.tags if tag in ("iframe", "object", "embed", "form")]


def test_texts_of_the_data_are_no_markup() -> None:
    page = page_of(REPORT)
    assert NASTY not in page
    assert page.count("&lt;script&gt;") >= 4


def test_a_pattern_without_matches_of_its_own() -> None:
    nothing = replace(PATTERN, found=None, reason="AGGREGATE counts matches without making any.", pictures=())
    seen = Outline(page_of(replace(REPORT, patterns=(nothing, PATTERN))))
    assert "AGGREGATE counts matches" in seen.text
    assert "matches-1" in seen.ids
    assert "pictures-2" in seen.ids


def test_no_match_at_all() -> None:
    none = replace(
        FOUND, matches=0, placed=0, rows=0, first=None, last=None, lengths=(), over_time=None, by_length=None, keys=0,
        top_keys=(), rarest=None,
    )  # fmt: skip
    page = page_of(
        replace(REPORT, patterns=(replace(PATTERN, found=none, pictures=()),), result=ResultPart(0, ("k",), ()))
    )
    assert "The pattern was not found in these rows." in page
    assert "No row." in page


@pytest.mark.parametrize(
    "text", [QUERY, "PATTERN A; !B; C+ WHERE A.x > 'it''s' -- end", "SELECT 'open", "/* a */ x /* b"]
)
def test_highlighting_keeps_the_text(text: str) -> None:
    marked = highlight(text, ["A", "B"])
    assert "".join(Outline(f"<pre>{marked}</pre>").words) == text


def test_words_are_marked_by_what_they_are() -> None:
    marked = highlight(QUERY, ["A", "B"])
    assert '<span class="co">-- a comment &lt; here</span>' in marked
    assert '<span class="kw">PATTERN</span>' in marked
    assert '<span class="la">B</span>.v' in marked
    assert '<span class="st">&#x27;&lt;b&gt;&#x27;</span>' in marked
