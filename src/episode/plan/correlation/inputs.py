"""The events of two correlated patterns as one input: the columns that they share, and its order.

If both patterns are over one table, with the same time and the same keys, every row is an event of both. Otherwise the
rows of both tables are one input, each with the number of its side; a column of one side is null in the other's rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from episode.errors import EpisodeAnalysisError
from episode.lang.syntax import Source, Span
from episode.plan.pattern import OrderColumn, PatternPlan
from episode.plan.schema import OWN, quote
from episode.plan.types import NOT_EVENT_TIME, is_event_time

KEY, TIME = f"{OWN}key_", f"{OWN}time"
APART = (f"{OWN}live_", f"{OWN}archive_")


@dataclass(frozen=True)
class SideInput:
    """The input of one of the patterns. columns: (its own column, the column of the input) for each of its columns.
    selections: (SQL over its table, column of the input)."""

    columns: tuple[tuple[str, str], ...]
    selections: tuple[tuple[str, str], ...]

    @property
    def names(self) -> dict[str, str]:
        return dict(self.columns)


@dataclass(frozen=True)
class JointInput:
    """shared: is every row an event of both? keys: columns that both sides of a pair have equal. order: event time
    first."""

    live: SideInput
    archive: SideInput
    keys: tuple[str, ...]
    order: tuple[OrderColumn, ...]
    shared: bool

    @property
    def time(self) -> str:
        return self.order[0].column

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, without the number of the side."""
        every = [outer for one in (self.live, self.archive) for _, outer in one.selections]
        return tuple(dict.fromkeys(every))

    @property
    def selections(self) -> tuple[tuple[str, str], ...]:
        """(SQL, column) where both patterns are over one table."""
        by_name = {outer: sql for one in (self.live, self.archive) for sql, outer in one.selections}
        return tuple((sql, outer) for outer, sql in by_name.items())


def joint_input(
    live: PatternPlan,
    archive: PatternPlan,
    equal: tuple[tuple[str, str], ...],
    one_table: bool,
    source: Source,
    place: Span,
) -> JointInput:
    """equal: pairs of partition columns, of the live and the archive pattern, that pairs of matches have equal.
    one_table: are both over the same rows? source, place: of RECENCY, for errors."""
    types = [plan.types[plan.order[0].column] for plan in (live, archive)]
    for plan, type_ in zip((live, archive), types, strict=True):
        if not is_event_time(type_):
            message = f"{plan.order[0].column} is of type {type_}; RECENCY cannot measure it."
            raise plan.source.error(EpisodeAnalysisError, message, plan.order[0].span, NOT_EVENT_TIME)
    if types[0] != types[1]:
        message = (
            f"The event time of the live pattern is of type {types[0]}, that of the archive pattern of {types[1]}."
        )
        raise source.error(EpisodeAnalysisError, message, place, "Cast one of them in a subquery.")
    keys = _keys(live, archive, equal)
    same_keys = all(one == other for one, other in keys)
    if one_table and same_keys and live.order == archive.order:
        first, second = (_shared_columns(plan, other, prefix) for plan, other, prefix in _each(live, archive))
        return JointInput(first, second, tuple(one for one, _ in keys), live.order, True)
    return _union_of_tables(live, archive, keys)


def _each(live: PatternPlan, archive: PatternPlan) -> tuple[tuple[PatternPlan, PatternPlan, str], ...]:
    return (live, archive, APART[0]), (archive, live, APART[1])


def _keys(live: PatternPlan, archive: PatternPlan, equal: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """Pairs of columns of one type, each column once."""
    found: list[tuple[str, str]] = []
    for one, other in equal:
        used = any(one == left or other == right for left, right in found)
        if not used and live.types[one] == archive.types[other]:
            found.append((one, other))
    return found


def _shared_columns(plan: PatternPlan, other: PatternPlan, prefix: str) -> SideInput:
    """Return the columns of a table that both patterns read; computed columns get distinct names if they differ."""
    derived = {name: sql for sql, name in plan.derived}
    others = {name: sql for sql, name in other.derived}
    columns = {
        name: name if name not in derived or others.get(name, derived[name]) == derived[name] else f"{prefix}{name}"
        for name in plan.input_columns
    }
    selections = tuple((derived.get(name, quote(name)), outer) for name, outer in columns.items())
    return SideInput(tuple(columns.items()), selections)


def _union_of_tables(live: PatternPlan, archive: PatternPlan, keys: list[tuple[str, str]]) -> JointInput:
    """Rows of two tables."""
    given: list[dict[str, str]] = [{}, {}]
    names = []
    for number, (one, other) in enumerate(keys):
        name = one if one == other else f"{KEY}{number}"
        given[0][one], given[1][other] = name, name
        names.append(name)
    times = [plan.order[0].column for plan in (live, archive)]
    time = times[0] if times[0] == times[1] and times[0] not in given[0] else TIME
    sides = [
        _own_columns(plan, other, taken, own_time, time, prefix)
        for (plan, other, prefix), taken, own_time in zip(_each(live, archive), given, times, strict=True)
    ]
    order: dict[str, OrderColumn] = {}
    for plan, side in zip((live, archive), sides, strict=True):
        for column in plan.order[1:]:
            outer = side.names[column.column]
            order.setdefault(outer, replace(column, column=outer))
    order.pop(time, None)
    return JointInput(sides[0], sides[1], tuple(names), (OrderColumn(time), *order.values()), False)


def _own_columns(
    plan: PatternPlan, other: PatternPlan, given: dict[str, str], own_time: str, time: str, prefix: str
) -> SideInput:
    """The columns of one table in the united input: by their own names, unless these mean something else there.

    given: keys of pairs. A column by which only one of the patterns is ordered must not order the other's rows.
    """
    derived = {name: sql for sql, name in plan.derived}
    own_order, other_order = ({column.column for column in one.order[1:]} for one in (plan, other))
    others = {name.lower(): name for name in other.input_columns}
    columns, selections = {}, {}
    for name in plan.input_columns:
        sql = derived.get(name, quote(name))
        twin = others.get(name.lower())
        apart = twin is not None and (
            twin != name
            or plan.types[name] != other.types[name]
            or name in derived
            or (name in own_order) != (name in other_order)
        )
        reserved = name.lower() in (time.lower(), *(key.lower() for key in given.values()))
        own = f"{prefix}{name}" if apart or reserved else name
        columns[name] = given.get(name, time if name == own_time else own)
        selections[columns[name]] = sql
    selections[time] = quote(own_time)
    return SideInput(tuple(columns.items()), tuple((sql, name) for name, sql in selections.items()))
