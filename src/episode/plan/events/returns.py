"""RETURN of an event pattern, and conditions on whole groups: what the matcher delivers, and Spark's part around it.

A match is a few rows with a variable each; to the planner of MEASURES it is a row pattern's match with those labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from episode.errors import EpisodeUnsupportedError
from episode.lang.events.syntax import EventAggregate, EventAtom, EventColumn, Index, Reach, WholeEvent, event_atoms
from episode.lang.spark_expression import with_null_for_zero, write_expression
from episode.lang.syntax import Aggregate, ColumnRef, ReturnItem, Scalar
from episode.lang.trees import exp
from episode.plan.events.alternatives import MARK, Presence
from episode.plan.events.classes import EventClasses
from episode.plan.events.conditions import Conjunct
from episode.plan.expressions import Current, Load
from episode.plan.measures import Measures
from episode.plan.output import Extreme, PlaceExists, PlannedMeasure, RowAggregate, RowArray, RowPlace
from episode.plan.places import substitute
from episode.plan.schema import quote
from episode.plan.types import decimal_of, is_float

MATCH_START, MATCH_END = "match_start", "match_end"
COUNTED = "matches"
"""The column of collapsed results with the number of matches."""
CONFIDENCE = "confidence"
"""The column with the probability of a match, if time is imprecise."""
KEEP = "__keep_"
"""Conditions that Spark evaluates on a finished match."""


@dataclass(frozen=True)
class Imprecision:
    """The possible times of an event between its earliest and its latest.

    granularity: the step from one of them to the next, in units of time. probabilities: the column of their
    probabilities; None: all are equally probable. width: the longest interval; None: unknown.
    """

    granularity: int
    probabilities: str | None = None
    width: int | None = None


@dataclass(frozen=True)
class EventTimes:
    """The columns of event time: of the end, and of the start where events last.

    Where time is imprecise, these are the latest and the earliest time that an event can have.
    """

    end: str
    start: str | None
    type: str
    imprecise: Imprecision | None = None


@dataclass(kw_only=True)
class Returns(Measures):
    """Plans RETURN. Atoms of events are answered by atoms of MEASURES over the match's rows.

    presences: of closures that not every match has."""

    classes: EventClasses
    closures: frozenset[str]
    presences: dict[str, Presence]

    def item(self, item: ReturnItem) -> PlannedMeasure:
        scalar = item.expression
        sql = substitute(scalar.text, {name: self.event_sql(atom) for name, atom in scalar.atoms})  # type: ignore[arg-type]
        return PlannedMeasure(item.name, sql, scalar.original, item.span)

    def whole(self, name: str) -> PlannedMeasure:
        """Return the column of a variable, in a query without RETURN."""
        span = next(one.span for variable, one in self.classes.by_variable.items() if variable.split(MARK)[0] == name)
        return PlannedMeasure(name, self.event_sql(WholeEvent(name, Index.PLAIN, 0, span)), name, span)

    def times(self, times: EventTimes) -> list[PlannedMeasure]:
        end = Load(times.end, Current(0), times.type)
        start = end if times.start is None else Load(times.start, Current(0), times.type)
        return [
            self.measure_of(MATCH_START, Extreme("min", None, True, start, start)),
            self.measure_of(MATCH_END, Extreme("max", None, True, end, end)),
        ]

    def condition(self, conjunct: Conjunct, number: int) -> PlannedMeasure:
        """Return a conjunct that Spark tests on a finished match; if about each event of a closure, for all of them."""
        scalar = conjunct.scalar
        if conjunct.iterated is None:
            parts = {name: self.event_sql(atom) for name, atom in scalar.atoms}  # type: ignore[arg-type]
            demanded = substitute(_condition(scalar), parts)
        else:
            parts = {name: self._atom_of_each(atom, conjunct.iterated) for name, atom in scalar.atoms}  # type: ignore[arg-type]
            count = self._count(conjunct.iterated)
            first = conjunct.back + 1
            inner = substitute(_condition(scalar), parts)
            demanded = (
                f"({count} < {first} OR forall(sequence({first}, CAST({count} AS INT)), "
                f"__i -> coalesce({inner}, false)))"
            )
        certain = (conjunct.variables - self.closures) | (conjunct.variables & self.presences.keys())
        absent = " OR ".join(f"NOT {self._is_there(name)}" for name in sorted(certain))
        sql = f"coalesce({demanded}, false)" + (f" OR {absent}" if absent else "")
        return PlannedMeasure(f"{KEEP}{number}", sql, scalar.original, scalar.span)

    # ---- atoms -----------------------------------------------------------------------------------------------

    def event_sql(self, atom: EventAtom) -> str:
        sql = self._event_sql(atom)
        if atom.variable in self.presences:
            return f"CASE WHEN {self._is_there(atom.variable)} THEN {sql} END"
        return sql

    def _is_there(self, name: str) -> str:
        """Is a variable part of the match?"""
        if name not in self.presences:
            return self._output(PlaceExists(self._place(name)))
        presence = self.presences[name]
        found = self._output(PlaceExists(RowPlace(presence.variables, False, 0, 0, True)))
        return f"(NOT {found})" if presence.others else found

    def _event_sql(self, atom: EventAtom) -> str:
        if isinstance(atom, WholeEvent):
            return self._whole(atom)
        if isinstance(atom, EventAggregate):
            arguments = tuple(self._with_labels(argument) for argument in atom.arguments)
            aggregate = Aggregate(atom.function, arguments, False, None, None, atom.span)
            return f"({self._aggregate(aggregate) if arguments else self._count(atom.variable)})"
        if atom.variable in self.closures and atom.index in (Index.PLAIN, Index.ALL):
            return self._array(atom)
        return self._column(self.classes.column(atom.variable, atom.path, atom.span), self._index(atom))

    def _members_of(self, variable: str) -> frozenset[str]:
        members = self.labels.members(variable)
        assert members is not None
        return members

    def _place(self, variable: str) -> RowPlace:
        return RowPlace(self._members_of(variable), False, 0, 0, True)

    def _index(self, atom: EventColumn | WholeEvent) -> RowPlace:
        if atom.index is Index.AT:
            return RowPlace(self._members_of(atom.variable), True, atom.number - 1, 0, True)
        return self._place(atom.variable)

    def _array(self, atom: EventColumn) -> str:
        """Return the array of an attribute of all events of a closure, with nulls."""
        value = self.rows.load(self.classes.column(atom.variable, atom.path, atom.span), Current(0))
        return self._output(RowArray(self._members_of(atom.variable), True, value, False))

    def _count(self, variable: str) -> str:
        return self._output(RowAggregate("count", self._members_of(variable), True, None, "bigint"))

    def _whole(self, atom: WholeEvent) -> str:
        own = self.classes.own_columns(atom.variable)
        if atom.variable in self.closures and atom.index in (Index.PLAIN, Index.ALL):
            members = self._members_of(atom.variable)
            arrays = [
                self._output(RowArray(members, True, Load(column, Current(0), self.schema.columns[column]), False))
                for column in own.values()
            ]
            fields = ", ".join(f"{quote(name)}: {self.schema.columns[column]}" for name, column in own.items())
            return f"CAST(arrays_zip({', '.join(arrays)}) AS ARRAY<STRUCT<{fields}>>)"
        place = self._index(atom)
        pairs = ", ".join(
            f"{_string(name)}, {self._column(ColumnRef(None, (column,), atom.span), place)}"
            for name, column in own.items()
        )
        return f"CASE WHEN {self._output(PlaceExists(place))} THEN named_struct({pairs}) END"

    def _with_labels(self, scalar: Scalar) -> Scalar:
        """The argument with labelled columns of the input in place of attributes."""
        atoms = []
        for name, atom in scalar.atoms:
            assert isinstance(atom, EventColumn)
            column = self.classes.column(atom.variable, atom.path, atom.span)
            atoms.append((name, replace(column, label=atom.variable)))
        return replace(scalar, atoms=tuple(atoms))

    # ---- conditions on each event of a group -----------------------------------------------------------------

    def _atom_of_each(self, atom: EventAtom, variable: str) -> str:
        """An atom inside `forall(sequence(…), __i -> …)`."""
        if atom.variable != variable:
            return self.event_sql(atom)
        if isinstance(atom, EventColumn) and atom.index in (Index.PLAIN, Index.EACH, Index.BACK):
            return f"try_element_at({self._array(atom)}, __i - {atom.number})"
        if isinstance(atom, EventAggregate) and atom.reach is not Reach.ALL:
            return self._partial(atom)
        return self.event_sql(atom)

    def _partial(self, atom: EventAggregate) -> str:
        """An aggregate over the events up to, or before, the current one."""
        length = "__i" if atom.reach is Reach.CURRENT else "__i - 1"
        if not atom.arguments:
            return f"CAST({length} AS BIGINT)"
        scalar = atom.arguments[0]
        plain = len(scalar.atoms) == 1 and scalar.text.strip() == scalar.atoms[0][0]
        forms = {
            "min": "array_min({0})", "max": "array_max({0})", "first_value": "try_element_at({0}, 1)",
            "last_value": "try_element_at({0}, -1)",
            "count": "CAST(size(filter({0}, x -> x IS NOT NULL)) AS BIGINT)",
            "sum": "aggregate(filter({0}, x -> x IS NOT NULL), CAST(NULL AS {1}), "
            "(s, x) -> CAST(coalesce(s + x, x) AS {1}))",
            "avg": "(aggregate(filter({0}, x -> x IS NOT NULL), CAST(0 AS DOUBLE), (s, x) -> s + x) / "
            "nullif(size(filter({0}, x -> x IS NOT NULL)), 0))",
        }  # fmt: skip
        if atom.function not in forms or not plain:
            message = f"{atom.function} over part of a group is not evaluated here."
            hint = f"These are, of a plain attribute: {', '.join(sorted(forms))}."
            raise self.source.error(EpisodeUnsupportedError, message, atom.span, hint)
        (inner,) = event_atoms(scalar)
        assert isinstance(inner, EventColumn)
        array = self._array(replace(inner, index=Index.ALL))
        value = self.rows.load(self.classes.column(inner.variable, inner.path, inner.span), Current(0))
        decimal = decimal_of(value.type)
        total = "DOUBLE" if is_float(value.type) else f"DECIMAL(38, {decimal[1]})" if decimal else "BIGINT"
        return forms[atom.function].format(f"slice({array}, 1, {length})", total)


def _string(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _condition(scalar: Scalar) -> str:
    """The text of a condition, null where it divides by zero."""
    if scalar.tree.find(exp.Div, exp.Mod) is None:
        return scalar.text
    return write_expression(with_null_for_zero(scalar.tree))
