"""Plans as pictures: what is in them, in the order of reading. The SVG and the page must say the same."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from episode.lang.events.parser import parse_event_query
from episode.lang.events.syntax import EventQuery
from episode.lang.rows.parser import parse_clause
from episode.lang.situations.syntax import SituationQuery
from episode.lang.statement import parse_statement
from episode.plan.events.explain import aggregated_section, event_section
from episode.plan.rows.explain import row_section
from episode.plan.rows.plan import plan_row_pattern
from episode.plan.rows.windows import plan_window
from episode.plan.schema import InputSchema
from episode.plan.sections import Bar, Diagram, FactLine, Section, fact, lines_of
from episode.plan.situations.explain import situation_section
from episode.queries.explaining import ExplainedPattern
from episode.see.pictures.plans.diagrams import draw
from episode.see.pictures.plans.formats import render
from episode.see.pictures.plans.svg import blocks_of, caption_of
from tests.golden.cases import SCHEMA, Case, check, parametrized, plan_aggregates, plan_events, plan_situations
from tests.golden.test_trees import type_of

SVG = "{http://www.w3.org/2000/svg}"


def explained(text: str) -> ExplainedPattern:
    """A pattern of any language over SCHEMA, as `explain` knows it."""
    section = section_of(text)
    return ExplainedPattern(replace(section, blocks=(*section.blocks, fact("scan", "rows"), fact("shards", "2"))))


def section_of(text: str) -> Section:
    if not text.startswith("FROM"):
        clause = parse_clause(text)
        return row_section(plan_row_pattern(clause, InputSchema(SCHEMA)), clause.pattern)
    query = parse_statement(text).whole
    if isinstance(query, SituationQuery):
        return situation_section(plan_situations(query))
    assert isinstance(query, EventQuery)
    return section_of_events(query)


def section_of_events(query: EventQuery) -> Section:
    if query.aggregate is not None:
        return aggregated_section(plan_aggregates(query))
    return event_section(plan_events(query))


def contents(section: Section) -> list[str]:
    """What a section has, in words."""
    lines = [section.title]
    for block in blocks_of(section):
        if isinstance(block, Diagram):
            lines += [f"diagram: {caption_of(block)}", *(f"  {line}" for line in titles(block))]
        elif isinstance(block, FactLine):
            lines += [f"  {name} = {value}" for name, value in block.items]
        else:
            lines.append(f"table: {caption_of(block)} ({' | '.join(column.name for column in block.columns)})")
            for number, row in enumerate(block.rows):
                cells = " | ".join(f"[{one.text}]" if isinstance(one, Bar) else one for one in row)
                lines.append(f"  {'* ' if number in block.strong else ''}{cells}")
    return lines


def titles(diagram: Diagram) -> list[str]:
    """What the groups of a diagram say they are, with their class."""
    root = ElementTree.fromstring(f"<svg>{''.join(draw(diagram.data).parts)}</svg>")
    return [
        f"{group.get('class', 'mark')}: {title.text}"
        for group in root.iter()
        for title in group.findall("title")
        if group.tag in ("g", "circle")
    ]


def words(text: str) -> str:
    one = explained(text)
    drawn(one.section)
    return "\n".join(contents(one.section))


def check_svg(svg: str, section: Section) -> None:
    """Well formed, with a title and a description; all there is to read lies within the picture."""
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    assert root.get("role") == "img"
    assert [child.tag for child in root][:2] == [f"{SVG}title", f"{SVG}desc"]
    assert root[1].text == "\n".join(lines_of(section))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for x, y in places(root, 0.0, 0.0):
        assert 0 <= x <= width
        assert 0 <= y <= height
    read = " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
    for block in blocks_of(section):
        if isinstance(block, FactLine):
            assert all(name in read for name, _ in block.items)


def places(element: ElementTree.Element, x: float, y: float) -> list[tuple[float, float]]:
    """Where texts begin and boxes end."""
    move = element.get("transform", "")
    if move:
        right, down = move.removeprefix("translate(").rstrip(")").split()
        x, y = x + float(right), y + float(down)
    found = []
    if element.tag == f"{SVG}text":
        found.append((x + float(element.get("x", 0)), y + float(element.get("y", 0))))
    if element.tag == f"{SVG}rect":
        found.append(
            (
                x + float(element.get("x", 0)) + float(element.get("width", 0)),
                y + float(element.get("y", 0)) + float(element.get("height", 0)),
            )
        )
    return found + [place for child in element for place in places(child, x, y)]


class Reader(HTMLParser):
    """Tags that are open, and all text."""

    VOID = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert not any(name in ("src", "href") for name, _ in attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def check_page(page: str, section: Section) -> None:
    """Tags are closed, nothing is fetched, and the plan in words is there."""
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert "\n".join(lines_of(section)) in reader.text
    assert reader.seen.count("svg") == sum(isinstance(block, Diagram) for block in blocks_of(section))
    assert page.startswith("<!DOCTYPE html>")


@parametrized("picture")
def test_picture(case: Case) -> None:
    check(case, words)


@parametrized("plan")
def test_every_plan_of_row_patterns(case: Case) -> None:
    if not case.expected.startswith("Traceback"):
        clause = parse_clause(case.text)
        drawn(row_section(plan_row_pattern(clause, InputSchema(SCHEMA, type_of)), clause.pattern))


@parametrized("window_plan")
def test_every_plan_of_windows(case: Case) -> None:
    (select,) = parse_statement(case.text).windowed
    window = select.windows[0]
    drawn(row_section(plan_window(window, InputSchema(SCHEMA, type_of)), window.clause.pattern))


@parametrized("event_plan")
def test_every_plan_of_event_patterns(case: Case) -> None:
    drawn(section_of_events(parse_event_query(case.text)))


@parametrized("situation_plan")
def test_every_plan_of_situation_patterns(case: Case) -> None:
    query = parse_statement(case.text).whole
    assert isinstance(query, SituationQuery)
    drawn(situation_section(plan_situations(query)))


def drawn(section: Section) -> None:
    """It can be drawn, and what is drawn is whole."""
    one = ExplainedPattern(section)
    check_svg(render([one], "", "svg"), section)
    check_page(render([one], "", "html"), section)


@pytest.mark.parametrize("format", ["svg", "html"])
def test_several_patterns_are_one_picture(format: str) -> None:
    one = explained("ORDER BY ts MEASURES count(*) AS n PATTERN (A B) DEFINE B AS B.ok")
    two = explained("FROM t TYPE BY symbol PATTERN A; B WITHIN 5 minutes")
    text = render([one, two], "", format)
    assert text.count("MATCH_RECOGNIZE: ONE ROW PER MATCH") >= 1
    assert text.count("EVENTS: A; B") >= 1
    assert render([], "No pattern at all.", format).count("No pattern at all.") >= 1


def test_a_large_pattern_is_drawn_so_far() -> None:
    labels = " ".join(f"L{number % 60}" for number in range(400))
    one = explained(f"ORDER BY ts MEASURES count(*) AS n PATTERN ({labels})")
    found = contents(one.section)
    assert "  label: more, which is not drawn" in found
    assert sum(line.startswith("  label: L") for line in found) == 150
