"""Imprecise time (SASE++, section 2.3): where the times of events are uncertain, and what follows from it for a plan.

A closure is *correlated* where a condition or a returned value depends on the order of its events; then a match has a
sequence of them, each after the one before. Otherwise a match has a set of them, and nothing is said of their order.
See decisions 92 and 94.
"""

from __future__ import annotations

from dataclasses import dataclass

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.events.syntax import (
    Closure,
    Conjunction,
    EventAggregate,
    EventAtom,
    EventClass,
    EventPattern,
    EventQuery,
    Index,
    Interval,
    Negation,
    Reach,
    Strategy,
    children,
    classes_of,
    event_atoms,
    nodes_of,
)
from episode.lang.functions import AGGREGATES
from episode.lang.syntax import Duration
from episode.plan.event_time import in_units_of_time, time_column
from episode.plan.events.returns import EventTimes, Imprecision
from episode.plan.parameters import bound_duration, duration_in
from episode.plan.schema import InputSchema
from episode.plan.types import is_integer
from episode.words import DAY

OF_PROBABILITIES = ("array<double>", "array<float>")
ORDERED = (Index.BACK, Index.AT, Index.LAST)
NO_TIE_BREAKER = (
    "Events of equal time have no order, and a second column does not give them one: make the times unique, as by "
    "ts * 1000 + seq, or use MATCH_RECOGNIZE with ORDER BY ts, seq."
)
WIDER = "Write TIME BETWEEN lo AND hi WIDTH 20 seconds (in Python: interval_width='20 seconds')."


@dataclass(frozen=True)
class ClosureOrder:
    """A closure's variable. why: what makes it correlated; None: its events are a set."""

    variable: str
    why: str | None


@dataclass(frozen=True)
class ImprecisePlan:
    """threshold: the least confidence of a match (0: any above 0). closures: of what kind each is."""

    threshold: float
    closures: tuple[ClosureOrder, ...]

    @property
    def sets(self) -> frozenset[str]:
        """Closures whose events are in no order."""
        return frozenset(one.variable for one in self.closures if one.why is None)


# ---- the columns of time -----------------------------------------------------------------------------


def imprecise_times(query: EventQuery, schema: InputSchema, interval: Interval) -> EventTimes:
    """The columns of an interval, checked, with durations in units of time."""
    source = query.source
    lo, hi = (time_column(source, schema, name, "") for name in (interval.lo, interval.hi))
    type_ = schema.columns[hi]
    if schema.columns[lo] != type_:
        raise source.error(
            EpisodeAnalysisError,
            f"{lo} is of type {schema.columns[lo]} and {hi} of type {type_}.",
            interval.span,
            "The earliest and the latest time of an event must be of one type: cast one of them."
            + ("" if query.input.interval is not None else f" {NO_TIE_BREAKER}"),
        )
    granularity = _granularity(query, schema, interval, hi, type_)
    width = None
    if interval.width is not None:
        width = _units(query, schema, interval.width, hi, type_, "WIDTH")
    return EventTimes(hi, lo, type_, Imprecision(granularity, _probabilities(query, schema, interval), width))


def _granularity(query: EventQuery, schema: InputSchema, interval: Interval, hi: str, type_: str) -> int:
    if interval.granularity is None:
        if is_integer(type_):
            return 1
        if type_ == "date":
            return DAY
        message = f"{hi} is of type {type_}: which of the times between lo and hi are possible?"
        hint = "Add GRANULARITY 1 second, or finer (in match: granularity='1 second')."
        raise query.source.error(EpisodeAnalysisError, message, interval.span, hint)
    granularity = _units(query, schema, interval.granularity, hi, type_, "GRANULARITY")
    if granularity == 0 or (type_ == "date" and granularity % DAY):
        raise query.source.error(
            EpisodeAnalysisError,
            "GRANULARITY is the distance between two possible times"
            + (" and cannot be 0." if granularity == 0 else f", and {hi} has whole days."),
            interval.granularity.span,
            "Write for example GRANULARITY 1 day." if type_ == "date" else "Leave it out, or give a positive one.",
        )
    return granularity


def _units(query: EventQuery, schema: InputSchema, duration: Duration, column: str, type_: str, what: str) -> int:
    duration = bound_duration(duration, schema.arguments, query.source)
    plain = f"Write a plain number, in the unit of the time itself: {what} 5."
    return in_units_of_time(duration, query.source, column, type_, what=what, plain=plain)


def _probabilities(query: EventQuery, schema: InputSchema, interval: Interval) -> str | None:
    if interval.probabilities is None:
        return None
    column = schema.find(interval.probabilities)
    if column is None or schema.columns[column] not in OF_PROBABILITIES:
        found = "is not there" if column is None else f"is of type {schema.columns[column]}"
        raise query.source.error(
            EpisodeAnalysisError,
            f"The column of probabilities, {interval.probabilities}, {found}.",
            interval.span,
            f"It is an array<double>, with a number for each possible time. "
            f"Columns of the input: {', '.join(schema.columns)}.",
        )
    return column


def duration_of(name: str, value: object) -> Duration:
    """An argument of `match` that is a duration."""
    found = duration_in(value)
    if found is None:
        hint = "Write for example '1 second', or 5 where event time is a number."
        raise EpisodeAnalysisError(f"{name}={value!r} is not a duration.", hint=hint)
    return found


# ---- what is not evaluated over imprecise time ---------------------------------------------------------


def check_imprecise(query: EventQuery, strategy: Strategy) -> None:
    """Only choices of events, in order: what needs to know that an event did not happen is refused."""
    if strategy is not Strategy.ANY:
        raise query.source.error(
            EpisodeUnsupportedError,
            f"Over imprecise time, {strategy.value} is not evaluated: which event is next is not certain.",
            query.strategy_span if query.strategy is not None else query.source.pattern,
            "Use skip-till-any-match.",
        )
    for node in nodes_of(query.pattern):
        wrong = _unsupported_part(node)
        if wrong is not None:
            raise query.source.error(EpisodeUnsupportedError, f"Over imprecise time, {wrong[0]}", node.span, wrong[1])
    for item in query.returns or ():
        if item.name.lower() == "confidence":
            message = f"A column of RETURN cannot be called {item.name}."
            hint = "confidence is added to every result over imprecise time; choose another name with AS."
            raise query.source.error(EpisodeAnalysisError, message, item.span, hint)


def check_results(query: EventQuery, engine: bool, collapsed: bool) -> None:
    """Options for closures that rest on a certain order. engine: was one asked for?"""
    if engine:
        message = "Tuning(closure=…): over imprecise time closures are evaluated in one way."
        raise query.source.error(EpisodeAnalysisError, message, query.source.pattern, "Leave the option out.")
    if collapsed:
        message = "Over imprecise time, results are not collapsed: each match has its own confidence."
        hint = "Leave COLLAPSED out; CONFIDENCE >= 0.9 gives fewer matches."
        raise query.source.error(EpisodeUnsupportedError, message, query.collapsed or query.source.pattern, hint)


def check_aggregated(query: EventQuery, times: EventTimes) -> None:
    """Matches that are not enumerated have no confidence."""
    if times.imprecise is None:
        check_confidence_has_meaning(query)
        return
    assert query.aggregate is not None
    message = "Over imprecise time, AGGREGATE is not evaluated: each match has its own confidence."
    hint = "Write RETURN, and aggregate the matches with Spark."
    raise query.source.error(EpisodeUnsupportedError, message, query.aggregate.span, hint)


def _unsupported_part(node: EventPattern) -> tuple[str, str] | None:
    if isinstance(node, Negation):
        return "a negation is not evaluated: whether an event lies between two others is not certain.", "Leave it out."
    if isinstance(node, Conjunction):
        return "a conjunction is not evaluated.", "Write the orders as alternatives: SEQ(A a, B b) | SEQ(B b, A a)."
    if isinstance(node, Closure) and node.groups:
        return (
            "a closure that takes all events between two others is not evaluated.",
            "Write SEQ(A a, B+ b[], C c) for every choice of events.",
        )
    return None


def check_confidence_has_meaning(query: EventQuery) -> None:
    """Without imprecise time every match is certain."""
    if query.confidence is not None:
        message = "CONFIDENCE is for imprecise time."
        hint = "Name the two columns between which the time lies: time=('lo', 'hi'), in SQL TIME BETWEEN lo AND hi."
        raise query.source.error(EpisodeAnalysisError, message, query.confidence.clause, hint)


# ---- the plan ------------------------------------------------------------------------------------------


def plan_imprecise(query: EventQuery, schema: InputSchema) -> ImprecisePlan:
    """The threshold, and of what kind each closure is."""
    return ImprecisePlan(_threshold(query, schema), tuple(closure_orders(query)))


def _threshold(query: EventQuery, schema: InputSchema) -> float:
    confidence = query.confidence
    if confidence is None:
        return 0.0
    if confidence.parameter is None:
        return confidence.value
    value = schema.arguments.get(confidence.parameter)
    try:
        number = float(value) if not isinstance(value, (bool, str)) else -1.0  # type: ignore[arg-type]
    except TypeError:
        number = -1.0
    if not 0 <= number <= 1:
        message = f"The value of :{confidence.parameter} is not a confidence: {value!r}."
        raise query.source.error(EpisodeAnalysisError, message, confidence.span, "Give a number between 0 and 1.")
    return number


def closure_orders(query: EventQuery) -> list[ClosureOrder]:
    """All closure variables of a query as written, in order of appearance, each once."""
    scalars = [*query.conditions, *(item.expression for item in query.returns or ())]
    atoms = [atom for scalar in scalars for atom in event_atoms(scalar)]
    found: dict[str, ClosureOrder] = {}
    for closure in _outermost(query.pattern):
        for one in classes_of(closure):
            why = None
            if not isinstance(closure.part, EventClass):
                why = "it repeats more than one event"
            mine = [atom for atom in atoms if atom.variable.lower() == one.variable.lower()]
            ordered = next((atom for atom in mine if _depends_on_order(atom)), None)
            if why is None and ordered is not None:
                why = " ".join(query.source.text_at(ordered.span).split())
            if one.variable not in found or found[one.variable].why is None:
                found[one.variable] = ClosureOrder(one.variable, why)
    return list(found.values())


def _outermost(pattern: EventPattern) -> list[Closure]:
    if isinstance(pattern, Closure):
        return [pattern]
    return [closure for part in children(pattern) for closure in _outermost(part)]


def _depends_on_order(atom: EventAtom) -> bool:
    if isinstance(atom, EventAggregate):
        known = atom.function.upper() in AGGREGATES  # a user's aggregate may depend on anything
        return atom.reach is not Reach.ALL or atom.function in ("first_value", "last_value") or not known
    return atom.index in ORDERED
