"""The plan of one situation pattern: everything the matcher needs, with nothing left to resolve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Union

from episode.errors import EpisodeAnalysisError, EpisodeSyntaxError, warn
from episode.lang.cursor import Cursor
from episode.lang.lexer import tokenize
from episode.lang.situations import allen
from episode.lang.situations.define import check_limits, check_pairs, check_window
from episode.lang.situations.syntax import (
    Moment,
    SituationAggregate,
    SituationAtom,
    SituationColumn,
    SituationDefinition,
    SituationQuery,
    SituationTime,
    situation_atoms,
)
from episode.lang.syntax import Aggregate, ColumnRef, Duration, ReturnItem, Scalar, Span
from episode.plan.event_time import Delays, EventTime, column_at_event, in_units_of_time, plain_values
from episode.plan.expressions import Condition, Current, conjuncts
from episode.plan.measures import Measures
from episode.plan.options import COMPLETE, EARLIEST
from episode.plan.output import (
    ATOM_PREFIX,
    ColumnAtPlace,
    Labels,
    MeasurePlan,
    Output,
    OutputAtom,
    PlannedMeasure,
    RowPlace,
    columns_read,
    expressions_of,
)
from episode.plan.parameters import Arguments, bound_duration
from episode.plan.pattern import CarriedReport, OrderColumn, PatternPlan
from episode.plan.places import substitute
from episode.plan.scalars import DerivedColumns, RowLocalScalars, refuse_depth
from episode.plan.schema import InputSchema, quote

# RETURN: to the planner of MEASURES a symbol is a label, and the events of its situation so far are the label's rows.

MATCH_START, DETECTED_AT = "match_start", "detected_at"


@dataclass(frozen=True)
class SituationMoment:
    """The start of a symbol's situation, or its end (null while it lasts)."""

    symbol: str
    end: bool


@dataclass(frozen=True)
class MatchMoment:
    """match_start: the least start of its situations. detected_at: when the match became certain."""

    name: str


SituationOutput = Union[OutputAtom, SituationMoment, MatchMoment]


def with_columns(scalar: Scalar, label: str | None) -> Scalar:
    """The scalar with columns of a row pattern (of a label) in place of columns of a situation's events."""
    atoms = []
    for name, atom in scalar.atoms:
        assert isinstance(atom, SituationColumn)
        atoms.append((name, ColumnRef(label, atom.path, atom.span)))
    return replace(scalar, atoms=tuple(atoms))


class SituationReturns(Measures):
    """Plans RETURN."""

    def item(self, item: ReturnItem) -> PlannedMeasure:
        scalar = item.expression
        names = [name for name, _ in scalar.atoms]
        parts = {name: self._situation_sql(atom) for name, atom in zip(names, situation_atoms(scalar))}
        sql = substitute(scalar.text, parts)
        return PlannedMeasure(item.name, sql, scalar.original, item.span)

    def whole(self, symbol: str) -> PlannedMeasure:
        """A symbol without RETURN: its interval."""
        start, end = self._moment(SituationMoment(symbol, False)), self._moment(SituationMoment(symbol, True))
        return PlannedMeasure(symbol, f"named_struct('start', {start}, 'end', {end})", symbol, self.source.span)

    def key(self, symbol: str, column: str) -> PlannedMeasure:
        """A partition column, as any event of the match has it."""
        place = RowPlace(frozenset((symbol,)), True, 0, 0, True)
        return self.measure_of(column, ColumnAtPlace(column, place))

    def times(self) -> list[PlannedMeasure]:
        return [
            PlannedMeasure(name, self._moment(MatchMoment(name)), name, self.source.span)
            for name in (MATCH_START, DETECTED_AT)
        ]

    def _moment(self, atom: SituationMoment | MatchMoment) -> str:
        atoms: dict[SituationOutput, str] = self.atoms  # type: ignore[assignment]
        if atom not in atoms:
            atoms[atom] = f"{ATOM_PREFIX}{len(atoms)}"
        return quote(atoms[atom])

    def _situation_sql(self, atom: SituationAtom) -> str:
        if isinstance(atom, SituationTime):
            start, end = (self._moment(SituationMoment(atom.symbol, end)) for end in (False, True))
            return {Moment.START: start, Moment.END: end, Moment.DURATION: f"({end} - {start})"}[atom.what]
        assert isinstance(atom, SituationAggregate)
        arguments = tuple(with_columns(argument, atom.symbol) for argument in atom.arguments)
        star = None if arguments else atom.symbol
        return f"({self._aggregate(Aggregate(atom.function, arguments, not arguments, star, None, atom.span))})"


# Durations of a situation pattern that are parameters: their values, and a check that a match can satisfy them.


def with_bound_durations(query: SituationQuery, arguments: Arguments) -> SituationQuery:
    """The query with durations in place of parameters, checked as those that are written out."""
    limits = [limit for one in query.definitions for limit in (one.at_least, one.at_most)]
    if all(duration is None or duration.parameter is None for duration in (*limits, query.within)):
        return query

    def bind(duration: Duration | None, zero: str) -> Duration | None:
        if duration is None or duration.parameter is None:
            return duration
        found = replace(bound_duration(duration, arguments, query.source), parameter=None)
        if found.amount == 0:
            raise query.source.error(EpisodeAnalysisError, zero, duration.span, "Give a longer duration.")
        return found

    longer = "A duration here must be longer than zero."
    definitions = tuple(
        replace(one, at_least=bind(one.at_least, longer), at_most=bind(one.at_most, longer))
        for one in query.definitions
    )
    within = bind(query.within, "No match fits WITHIN zero.")
    cursor = Cursor(query.source.text, tokenize(query.source.text))
    try:
        for one in definitions:
            check_limits(cursor, one.symbol, one.at_least, one.at_most)
        check_pairs(cursor, definitions, query.constraints)
        check_window(cursor, definitions, within)
    except EpisodeSyntaxError as error:
        raise EpisodeAnalysisError(
            error.message, source=error.source, position=error.position, length=error.length, hint=error.hint
        ) from None
    return replace(query, definitions=definitions, within=within)


# Reports of matchers of situation patterns.

Orders = tuple[tuple[int, ...], ...]
"""Symbols in the order of their search, for each symbol whose situations begin one: that symbol first."""


@dataclass(frozen=True)
class SymbolSearches:
    """Searches that situations of one symbol have begun, with the last plan.

    order: of symbols, itself first. estimated, actual: records after each step, by the cost model and on average.
    """

    order: tuple[int, ...]
    searches: int
    estimated: tuple[float, ...]
    actual: tuple[float, ...]


@dataclass(frozen=True)
class SituationReport(CarriedReport):
    """The work of one matcher. searches: by symbol, with the last plan. total: searches with all plans. sizes: of the
    buffers of symbols, and selectivities, as the cost model knows them in the end. plans: their number. changes: the
    first plans taken in place of others."""

    searches: tuple[SymbolSearches, ...]
    total: int
    sizes: tuple[float, ...]
    plans: int
    changes: tuple[Orders, ...]
    selectivities: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, kw_only=True)
class SituationPlan(PatternPlan):
    """One situation pattern over one input.

    symbols: a row's condition for symbol i is bit i. masks: relations (bits of `allen.Relation`) that the situation of
    the first symbol may have to that of the second; all of them if no constraint is about the two.
    at_least, at_most: in units of event time (None: no limit); limits: their places in the query, for each symbol.
    components: symbols that constraints connect, directly or over others; one tuple if the pattern is connected.
    eager: are matches reported as soon as they are certain, or when all situations have ended?
    """

    symbols: tuple[str, ...]
    masks: tuple[tuple[int, ...], ...]
    at_least: tuple[int | None, ...]
    at_most: tuple[int | None, ...]
    limits: tuple[tuple[Span | None, Span | None], ...]
    components: tuple[tuple[str, ...], ...]
    eager: bool
    time: str
    time_type: str

    @property
    def detect(self) -> str:
        return EARLIEST if self.eager else COMPLETE

    def event_time(self, limited: bool) -> EventTime:
        if self.within is None:
            self._check_unbounded(limited)
        return EventTime(self.time, self.time_type)

    def _check_unbounded(self, limited: bool) -> None:
        """Without WITHIN every finished situation is held: refused if situations are not even related."""
        parts = self.components
        if len(parts) > 1:
            groups = " and ".join("{" + ", ".join(part) + "}" for part in parts)
            raise self.source.error(
                EpisodeAnalysisError,
                f"The pattern is not connected ({groups}), and over a stream it needs WITHIN: without it every "
                "situation is paired with all that come after it.",
                self.source.pattern,
                "Write for example WITHIN 10 minutes after the pattern, or relate the situations.",
            )
        if not limited:
            warn(
                "The state of this stream is not bounded: every finished situation is held. "
                "Add WITHIN, or set StreamOptions(max_state_rows=…)."
            )

    def delays(self) -> Delays:
        """The delay of every output column that holds times of the match.

        A match is reported at the instant `detected_at`, which WITHIN relates to its earliest time.
        """
        delays: Delays = {}
        for name, atom in plain_values(self.measures):
            if isinstance(atom, MatchMoment):
                delays[name] = 0 if atom.name == DETECTED_AT else self.within
            elif isinstance(atom, SituationMoment) or column_at_event(atom) == self.time:
                delays[name] = self.within
        return delays


def plan_situation_pattern(
    query: SituationQuery, schema: InputSchema, time: str, keys: tuple[str, ...] = (), eager: bool = True
) -> SituationPlan:
    """Bind a query to its input and check it. time, keys: columns of the input."""
    with refuse_depth(query.source, "The expressions of this query", query.define_span.beginning):
        return _Planner(with_bound_durations(query, schema.arguments), schema, time, keys, eager).plan()


@dataclass
class _Planner:
    query: SituationQuery
    schema: InputSchema
    time: str
    keys: tuple[str, ...]
    eager: bool

    def __post_init__(self) -> None:
        self.time_type = self.schema.columns[self.time]
        self.derived = DerivedColumns(self.schema)
        self.rows = RowLocalScalars(self.query.source, self.schema, self.derived)
        self.rows.add_keys(self.query.input.expressions, self.keys)

    def plan(self) -> SituationPlan:
        query = self.query
        labels = Labels(query.symbols, {})
        conditions = {definition.symbol: self._condition(definition) for definition in query.definitions}
        returns = SituationReturns(query.source, self.schema, labels, self.derived)
        if query.returns is None:
            first = query.symbols[0]
            planned = [returns.key(first, key) for key in self.keys]
            planned += [returns.whole(symbol) for symbol in query.symbols]
        else:
            planned = [returns.item(item) for item in query.returns]
        planned += returns.times()
        measures = MeasurePlan(planned, returns.atoms)
        parts = [part for condition in conditions.values() for part in condition.row_local]
        read = columns_read(expressions_of(parts, measures), measures)
        needed = dict.fromkeys([*self.keys, self.time, *read])
        return SituationPlan(
            source=query.source,
            output=Output(labels, measures),
            order=(OrderColumn(self.time),),
            window=_span(query.within),
            symbols=query.symbols,
            masks=self._masks(),
            components=query.components(),
            at_least=tuple(self._units(definition.at_least) for definition in query.definitions),
            at_most=tuple(self._units(definition.at_most) for definition in query.definitions),
            limits=tuple((_span(one.at_least), _span(one.at_most)) for one in query.definitions),
            within=self._units(query.within),
            eager=self.eager,
            keys=self.keys,
            time=self.time,
            time_type=self.time_type,
            conditions=conditions,
            input_columns=tuple(needed),
            derived=self.derived.selections(needed),
            types=self.derived.types,
        )

    def _condition(self, definition: SituationDefinition) -> Condition:
        scalar = with_columns(definition.condition, None)
        expression = self.rows.compile(scalar, Current(0))
        hint = "What follows it was read as a limit of the duration; SQL's BETWEEN needs brackets around it."
        expression = self.rows.as_condition(
            expression, scalar.span, definition.symbol, hint if definition.at_most is not None else ""
        )
        return Condition(definition.symbol, tuple(conjuncts(expression)), ())

    def _masks(self) -> tuple[tuple[int, ...], ...]:
        number = {symbol: index for index, symbol in enumerate(self.query.symbols)}
        masks = [[allen.EVERY] * len(number) for _ in number]
        for constraint in self.query.constraints:
            left, right = number[constraint.left], number[constraint.right]
            allowed = allen.mask(constraint.relations)
            masks[left][right] &= allowed
            masks[right][left] &= allen.mirror_mask(allowed)
        return tuple(tuple(row) for row in masks)

    def _units(self, duration: Duration | None) -> int | None:
        """A duration in units of event time."""
        if duration is None:
            return None
        plain = "Write a plain number, in the unit of the time itself, for example 300."
        with_unit = f"Write for example {duration.amount} seconds."
        place = (duration, self.query.source, self.time, self.time_type)
        return in_units_of_time(*place, what="a duration", plain=plain, with_unit=with_unit)


def _span(duration: Duration | None) -> Span | None:
    return None if duration is None else duration.span


__all__ = ["COMPLETE", "EARLIEST", "SituationPlan", "SituationQuery", "plan_situation_pattern"]
