"""Reads conformance cases from their files; README.md says how they are written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from episode.errors import EpisodeError
from episode.lang.events.syntax import EventQuery
from episode.lang.situations.syntax import SituationQuery
from episode.lang.statement import Statement, TablePattern, parse_statement
from episode.plan.options import Options
from tests.conformance.values import arrow_type, canonical, columns_of, parse_cell, split_cells
from tests.support.flat_options import grouped

HERE = Path(__file__).parent
LANGUAGES = ("rows", "events", "situations")
"""A folder of cases each."""
PLACES = ("process", "oracle", "spark")
SECTION = re.compile(
    r"-- (?:(?P<kind>table) (?P<name>\w+) \((?P<columns>.*)\)"
    r"|(?P<query>query)"
    r"|(?P<result>result)(?P<ordered> in order)? \((?P<outputs>.*)\)"
    r"|(?P<error>error) (?P<class>Episode\w+)"
    r"|(?P<options>options) (?P<option>\w+) = (?P<setting>\w+)"
    r"|(?P<runs>runs on) (?P<places>[\w, ]+)"
    r"|(?P<fails>fails on) (?P<where>[\w, ]+): (?P<reason>.+))\s*"
)


@dataclass(frozen=True)
class Table:
    """A table in order of arrival."""

    name: str
    types: dict[str, str]
    rows: list[dict[str, Any]]

    @property
    def arrow(self) -> pa.Table:
        schema = pa.schema([(column, arrow_type(type_)) for column, type_ in self.types.items()])
        return pa.Table.from_pylist(self.rows, schema=schema)


@dataclass(frozen=True)
class Case:
    """One query over tables, with the rows or the error it must give. options: those of the query."""

    language: str
    file: str
    title: str
    tables: dict[str, Table]
    query: str
    types: dict[str, str] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    ordered: bool = False
    error: str | None = None
    message: tuple[str, ...] = ()
    runs_on: tuple[str, ...] = PLACES
    fails_on: dict[str, str] = field(default_factory=dict)
    options: Options = field(default_factory=Options)

    @property
    def id(self) -> str:
        return f"{self.language}: {self.file}: {self.title}"

    def clause(self) -> TablePattern | None:
        """The one clause of `SELECT * FROM table MATCH_RECOGNIZE (…) [AS alias]`; None for any other statement."""
        return _plain_clause(parse_statement(self.query))

    def whole(self) -> EventQuery | SituationQuery | None:
        """The event or situation pattern that is the whole statement."""
        return parse_statement(self.query).whole

    def used_tables(self) -> list[Table]:
        return [table for table in self.tables.values() if re.search(rf"\b{table.name}\b", self.query)]

    def expected(self, ordered: bool) -> list[tuple]:
        return comparable(self.rows, self.types, ordered)


def comparable(rows: list[dict[str, Any]], types: dict[str, str], ordered: bool) -> list[tuple]:
    """Rows as tuples that compare, in order or sorted."""
    tuples = [tuple(canonical(row[column], type_) for column, type_ in types.items()) for row in rows]
    return tuples if ordered else sorted(tuples, key=repr)


def _plain_clause(statement: Statement) -> TablePattern | None:
    if len(statement.patterns) != 1 or statement.common_tables:
        return None
    pattern = statement.patterns[0]
    before = [token.text.upper() for token in statement.tokens if token.start < pattern.span.start]
    after = [token for token in statement.tokens[:-1] if token.start >= pattern.span.end]
    named = pattern.name is not None and len(after) <= 2
    return pattern if before == ["SELECT", "*", "FROM"] and named else None


# ---- reading --------------------------------------------------------------------------------------


@cache
def all_cases(language: str) -> tuple[Case, ...]:
    return tuple(case for path in sorted((HERE / language).glob("*.case")) for case in read_cases(path))


def cases_for(place: str, language: str = "rows") -> list[Case]:
    """The cases of a language that run in a place; in process and on the oracle only single patterns can."""
    cases = [case for case in all_cases(language) if place in case.runs_on]
    return cases if place == "spark" else [case for case in cases if _is_single(case)]


def _is_single(case: Case) -> bool:
    try:
        return case.clause() is not None if case.language == "rows" else case.whole() is not None
    except EpisodeError:
        return True  # expected or not, the error is for the test to see


def read_cases(path: Path) -> list[Case]:
    head, *parts = re.split(r"^== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    shared = {table.name: table for table in _tables(_sections(head))}
    cases = [_case(path, part, shared) for part in parts]
    titles = [case.title for case in cases]
    repeated = {title for title in titles if titles.count(title) > 1}
    if repeated:
        raise ValueError(f"{path.name}: titles occur twice: {repeated}")
    return cases


Section = tuple[re.Match, list[str]]


def _sections(text: str) -> list[Section]:
    """Every section with the lines below it; what stands before the first one is prose."""
    sections: list[Section] = []
    for line in text.splitlines():
        heading = SECTION.fullmatch(line)
        if heading:
            sections.append((heading, []))
        elif sections:
            sections[-1][1].append(line)
    return sections


def _tables(sections: list[Section]) -> list[Table]:
    tables = []
    for heading, lines in sections:
        if heading["kind"]:
            types = columns_of(heading["columns"])
            tables.append(Table(heading["name"], types, _rows(lines, types)))
    return tables


def _rows(lines: list[str], types: dict[str, str]) -> list[dict[str, Any]]:
    rows = []
    for line in lines:
        if not line.strip():
            continue
        cells = split_cells(line)
        if len(cells) != len(types):
            raise ValueError(f"{len(types)} cells wanted: {line}")
        rows.append({name: parse_cell(cell, types[name]) for name, cell in zip(types, cells)})
    return rows


def _case(path: Path, text: str, shared: dict[str, Table]) -> Case:
    title, _, body = text.partition("\n")
    sections = _sections(body)
    tables = {**shared, **{table.name: table for table in _tables(sections)}}
    values: dict[str, Any] = {"fails_on": {}}
    options: dict[str, Any] = {}
    for heading, lines in sections:
        if heading["query"]:
            values["query"] = "\n".join(lines).strip()
        elif heading["result"]:
            values["types"] = columns_of(heading["outputs"])
            values["rows"] = _rows(lines, values["types"])
            values["ordered"] = heading["ordered"] is not None
        elif heading["error"]:
            values["error"] = heading["class"]
            values["message"] = tuple(line.strip() for line in lines if line.strip())
        elif heading["options"]:
            setting = heading["setting"]
            options[heading["option"]] = int(setting) if setting.isdecimal() else setting
        elif heading["runs"]:
            values["runs_on"] = _places(heading["places"])
        elif heading["fails"]:
            values["fails_on"].update(dict.fromkeys(_places(heading["where"]), heading["reason"]))
    if "query" not in values or ("error" in values) == ("types" in values):
        raise ValueError(f"{path.name}: {title}: a case needs a query, and a result or an error")
    query = str(values.get("query", ""))  # tables that a query does not name are refused
    named = {name: table for name, table in tables.items() if re.search(rf"(?i)\b{re.escape(name)}\b", query)}
    values["options"] = grouped(**options)
    return Case(path.parent.name, path.stem, title.strip(), named, **values)


def _places(text: str) -> tuple[str, ...]:
    places = tuple(place.strip() for place in text.split(","))
    unknown = set(places) - set(PLACES)
    if unknown:
        raise ValueError(f"unknown places: {unknown}")
    return places
