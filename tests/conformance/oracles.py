"""The oracles' answers to cases: each language's reference over the tables of the case."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

from episode.lang.events.syntax import EventClass, EventInput, EventQuery
from episode.lang.situations.syntax import (
    Constraint,
    SituationAggregate,
    SituationColumn,
    SituationInput,
    SituationQuery,
    SituationTime,
)
from episode.lang.statement import parse_statement
from episode.lang.syntax import RowKey
from tests.conformance.cases import Case
from tests.reference import event_patterns, row_patterns, situations
from tests.reference.scalars import give_null, scalar_value

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)


def answer(case: Case) -> list[dict[str, Any]]:
    """Rows with the columns of the expected result."""
    if case.language == "rows":
        return _rows(case)
    query = case.whole()
    return _events(case, query) if isinstance(query, EventQuery) else _situations(case, query)


def _rows(case: Case) -> list[dict[str, Any]]:
    pattern = parse_statement(case.query).patterns[0]
    table = case.tables[pattern.name]
    return row_patterns.evaluate(pattern.clause, table.rows, columns=list(table.types))


# ---- times: whole numbers, as the oracles have them -----------------------------------------------


def _number(value: Any) -> int:
    """Microseconds of a timestamp or date, or the integer itself."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - EPOCH) // MICROSECOND
    if isinstance(value, date):
        return (datetime(value.year, value.month, value.day) - EPOCH) // MICROSECOND
    return int(value)


def _time(number: Any, like: str) -> Any:
    """The time of a number, of a type."""
    if number is None or like.endswith("int"):
        return None if number is None else int(number)
    moment = EPOCH + int(number) * MICROSECOND
    return moment.date() if like == "date" else moment.replace(tzinfo=timezone.utc if like == "timestamp" else None)


def _with_keys(row: dict[str, Any], given: EventInput | SituationInput) -> dict[str, Any]:
    """A row with the values of keys that are expressions."""

    def value(key: RowKey) -> Any:
        atoms = dict(key.expression.atoms)
        return scalar_value(key.expression.tree, lambda name: row[atoms[name].path[0]], give_null)

    return row | {key.name: value(key) for key in given.expressions}


# ---- event patterns -------------------------------------------------------------------------------


def _events(case: Case, query: EventQuery) -> list[dict[str, Any]]:
    given = query.input
    table = case.tables[given.table]
    rows = sorted((_with_keys(row, given) for row in table.rows), key=lambda row: _number(row[given.time]))
    events = [
        event_patterns.Event(number, _number(row[given.start or given.time]), _number(row[given.time]), row)
        for number, row in enumerate(rows)
    ]

    def member(place: EventClass, event: event_patterns.Event) -> bool:
        return given.type_column is None or event.values[given.type_column] == place.name

    def key(event: event_patterns.Event) -> tuple:
        return tuple(event.values[column] for column in given.partition_by)

    found = event_patterns.matches(query, events, member=member, key=key if given.partition_by else None)
    type_ = table.types[given.time]
    answers = []
    for match in found:
        *values, start, end = event_patterns.returned(query, match)
        answers.append(dict(zip(case.types, [*values, _time(start, type_), _time(end, type_)], strict=True)))
    return answers


# ---- situation patterns ---------------------------------------------------------------------------


def _situations(case: Case, query: SituationQuery) -> list[dict[str, Any]]:
    """The conditions become columns of truth values; RETURN is made of single aggregates and times, or left out."""
    given = query.input
    table = case.tables[given.table]
    by_name = {name.lower(): name for name in (*table.types, *(key.name for key in given.expressions))}
    time = by_name[given.time.lower()]

    def values(row: dict[str, Any]) -> dict[str, Any]:
        truths = {one.symbol: _holds(one.condition, row, by_name) for one in query.definitions}
        return {**{f"is_{symbol}": truth for symbol, truth in truths.items()}, **row}

    events = [
        situations.Event(
            _number(row[time]), values(row), tuple(row[by_name[name.lower()]] for name in given.partition_by)
        )
        for row in (_with_keys(row, given) for row in table.rows)
    ]
    names, wanted = _returned(query)
    pattern = situations.Pattern(
        tuple(
            situations.Definition(
                one.symbol,
                f"is_{one.symbol}",
                None if one.at_least is None else one.at_least.amount,
                None if one.at_most is None else one.at_most.amount,
            )
            for one in query.definitions
        ),
        tuple(_constraint(one) for one in query.constraints),
        None if query.within is None else query.within.amount,
        tuple(wanted),
        case.options.detect,
    )
    answers = []
    for match in situations.matches(pattern, events):
        row = dict(zip(names, match.values))
        found = {
            name: _time(value, table.types[time]) if item.function in ("start", "end") else value
            for (name, value), item in zip(row.items(), wanted)
        }
        if query.returns is None:
            found = dict(zip(given.partition_by, match.key)) | _intervals(found, query)
        moments = (min(match.starts.values()), match.detected_at)
        answers.append(
            found | dict(zip(("match_start", "detected_at"), (_time(m, table.types[time]) for m in moments)))
        )
    return answers


def _holds(condition: Any, row: dict[str, Any], by_name: dict[str, str]) -> bool | None:
    atoms = dict(condition.atoms)
    return scalar_value(condition.tree, lambda name: row[by_name[atoms[name].path[0].lower()]], give_null)


def _constraint(one: Constraint) -> situations.Constraint:
    return situations.Constraint(one.left, one.right, frozenset(relation.value for relation in one.relations))


def _returned(query: SituationQuery) -> tuple[list[str], list[situations.Value]]:
    """Names and values of RETURN; without it the start and end of each symbol."""
    if query.returns is None:
        pairs = [(f"{symbol} {what}", symbol, what) for symbol in query.symbols for what in ("start", "end")]
        return [name for name, _, _ in pairs], [situations.Value(symbol, what) for _, symbol, what in pairs]
    return [item.name for item in query.returns], [_value(item.expression.atoms[0][1]) for item in query.returns]


def _value(atom: Any) -> situations.Value:
    if isinstance(atom, SituationTime):
        return situations.Value(atom.symbol, atom.what.value)
    assert isinstance(atom, SituationAggregate)
    function = {"first_value": "first", "last_value": "last", "stddev_samp": "stddev"}.get(atom.function, atom.function)
    if not atom.arguments:
        return situations.Value(atom.symbol, function)
    ((_, column),) = atom.arguments[0].atoms
    assert isinstance(column, SituationColumn)
    return situations.Value(atom.symbol, function, column.path[0])


def _intervals(found: dict[str, Any], query: SituationQuery) -> dict[str, Any]:
    return {symbol: {"start": found[f"{symbol} start"], "end": found[f"{symbol} end"]} for symbol in query.symbols}
