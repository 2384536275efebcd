"""Random situation patterns and random events for them (hypothesis).

`cases()` draws a pattern, as the oracle takes it and as text, with its events. The events come first: for most cases
situations are picked from them, one per symbol, and the constraints are drawn around the relations between these, so
that most patterns match somewhere.

The events have the columns COLUMNS. The conditions change at indices that are drawn once per key and shared by the
columns, so that situations often begin and end together.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from hypothesis import strategies as st

from tests.reference.situations import (
    MIRROR,
    PREFIX_GROUPS,
    RELATIONS,
    Constraint,
    Definition,
    Event,
    Match,
    Pattern,
    Situation,
    Value,
    matches,
    relation_of,
    situations,
)

SMALL = [0, 1, 2, 3, -5]
HUGE = [2**62, -(2**62), 2**63 - 1, -(2**63)]
CONDITIONS = ["a", "b", "c", "d"]  # boolean, sometimes null
COLUMNS = [*CONDITIONS, "x", "n", "s"]  # x: float, sometimes null; n: integer; s: string
SYMBOLS = ["A", "B", "C", "D"]
TABLE, KEY = "t", "k"
NUMERIC = ["first", "last", "sum", "avg", "min", "max", "count", "stddev"]
TEXTUAL = ["first", "last", "min", "max", "count"]
TIMES = ["start", "end", "duration"]


@dataclass(frozen=True)
class Case:
    """text: the query, without the choice of detection, which is an option beside it (pattern.detect).

    keyed: the text has PARTITION BY k; else the key of all events is None.
    """

    pattern: Pattern
    text: str
    events: list[Event]
    keyed: bool

    def matches(self) -> list[Match]:
        """The oracle's answer."""
        return matches(self.pattern, self.events)


@st.composite
def cases(draw: st.DrawFn, max_events: int = 14, max_keys: int = 3, detect: str | None = None) -> Case:
    """max_events: of each key. detect: this detection only; None: any."""
    keyed = draw(st.sampled_from([True, True, True, False]))
    keys = list(range(draw(st.integers(1, max_keys)))) if keyed else [None]
    all_events = draw(events(keys, max_events))
    count = draw(st.integers(2, 4))
    plain = [Definition(symbol, column) for symbol, column in zip(SYMBOLS, draw(_columns(count)))]
    pairs = draw(_pairs(SYMBOLS[:count]))
    of_witness = draw(st.sampled_from(keys))
    witness = draw(_witness(plain, [event for event in all_events if event.key == of_witness]))
    definitions = tuple(draw(_limited(definition, witness)) for definition in plain)
    constraints = tuple(draw(_constraint(left, right, witness)) for left, right in pairs)
    within = draw(st.sampled_from([None, None, 8, 12, 5, 20, 3]))
    if not _is_connected(constraints):
        within = within or 8
    if within is not None:
        within = max(within, *(definition.at_least or 0 for definition in definitions))
    pattern = Pattern(
        definitions,
        constraints,
        within,
        tuple(draw(st.lists(_values(SYMBOLS[:count]), min_size=1, max_size=5))),
        detect or draw(st.sampled_from(["earliest", "earliest", "complete"])),
    )
    if not is_satisfiable(pattern) or not has_room(pattern):
        pattern = replace(pattern, constraints=tuple(_widened(constraints)))
    return Case(pattern, render(pattern, keyed=keyed, mirrored=draw(st.integers(0, 2**16 - 1))), all_events, keyed)


# ---- events ---------------------------------------------------------------------------------------


@st.composite
def events(draw: st.DrawFn, keys: list, max_events: int) -> list[Event]:
    """In order of time, those of different keys between each other."""
    drawn = [event for key in keys for event in draw(_events_of_key(key, max_events))]
    return sorted(drawn, key=lambda event: event.time)


@st.composite
def _events_of_key(draw: st.DrawFn, key: object, max_events: int) -> list[Event]:
    count = 1 if draw(st.integers(0, 31)) == 13 else draw(st.integers(max_events // 2, max_events))
    steps = draw(_several(count, [1, 1, 1, 2, 1, 3, 0, 0]))
    times = list(itertools.accumulate(steps))
    # The events in stretches, such as 0 0 1 2 2 2 3: most changes of conditions are between two stretches.
    changes = draw(_several(count, [True, True, False]))
    stretches = list(itertools.accumulate(int(change) for change in changes))
    columns = {name: draw(_condition(stretches)) for name in CONDITIONS}
    columns["x"] = draw(_several(count, [0.0, 1.0, 2.0, -1.0, 4.0, 7.0, None]))
    columns["n"] = draw(_several(count, draw(st.sampled_from([SMALL, SMALL, [*SMALL, *HUGE]]))))
    columns["s"] = draw(_several(count, ["p", "q", "r", ""]))
    return [
        Event(time, {name: column[index] for name, column in columns.items()}, key) for index, time in enumerate(times)
    ]


def _several(count: int, items: list) -> st.SearchStrategy[list]:
    return st.lists(st.sampled_from(items), min_size=count, max_size=count)


@st.composite
def _condition(draw: st.DrawFn, stretches: list[int]) -> list[bool | None]:
    """Runs of one or more stretches with one or more between them; sometimes one event is different."""
    count = stretches[-1] + 1
    lengths = draw(_several(count, [1, 2, 1, 3]))
    runs = itertools.chain.from_iterable([index % 2 == 0] * length for index, length in enumerate(lengths))
    by_stretch = [False] * draw(st.integers(0, 2)) + list(runs)
    condition: list[bool | None] = [by_stretch[stretch] for stretch in stretches]
    if draw(st.sampled_from([False, False, True])):
        other = draw(st.integers(0, len(condition) - 1))
        condition[other] = draw(st.sampled_from([not condition[other], None]))
    if draw(st.sampled_from([False, False, True])):
        condition = [None if not holds and index % 2 else holds for index, holds in enumerate(condition)]
    return condition


# ---- patterns -------------------------------------------------------------------------------------


def _columns(count: int) -> st.SearchStrategy[list[str]]:
    """One for each symbol, mostly different ones."""
    different = st.permutations(CONDITIONS).map(lambda columns: columns[:count])
    same = st.lists(st.sampled_from(CONDITIONS), min_size=count, max_size=count)
    return st.one_of(different, different, different, same)


@st.composite
def _limited(draw: st.DrawFn, definition: Definition, witness: dict[str, Situation]) -> Definition:
    """Maybe with limits of the duration, near the duration of the witness."""
    near = 3
    if definition.symbol in witness:
        near = witness[definition.symbol].end - witness[definition.symbol].start
    low = max(1, near - draw(st.sampled_from([0, 1, 2, 0, -1])))
    high = max(low, near + draw(st.sampled_from([0, 1, 3, 2, -1])))
    match draw(st.sampled_from(["", "", "", "", "at least", "at least", "at most", "between"])):
        case "at least":
            return replace(definition, at_least=low)
        case "at most":
            return replace(definition, at_most=high)
        case "between":
            return replace(definition, at_least=low, at_most=high)
    return definition


@st.composite
def _pairs(draw: st.DrawFn, symbols: list[str]) -> list[tuple[str, str]]:
    """Pairs that every symbol is in; maybe several of the same symbols, and for four symbols maybe in two parts."""
    order = draw(st.permutations(symbols))
    if len(order) == 4 and draw(st.integers(0, 3)) == 2:
        pairs = [(order[0], order[1]), (order[2], order[3])]
    else:
        pairs = [(order[draw(st.integers(0, index - 1))], order[index]) for index in range(1, len(order))]
        pairs += draw(st.lists(st.sampled_from(list(itertools.combinations(symbols, 2))), max_size=2))
    return [pair if draw(st.booleans()) else pair[::-1] for pair in pairs]


@st.composite
def _witness(draw: st.DrawFn, definitions: list[Definition], own: list[Event]) -> dict[str, Situation]:
    """For most symbols a situation of theirs. One that lasts is taken to end some time."""
    witness = {}
    for definition in definitions:
        found = situations(definition, own)
        if found:
            at = draw(st.integers(0, len(found) - 1))
            end = found[at].end or own[-1].time + draw(st.integers(1, 3))
            witness[definition.symbol] = Situation(definition.symbol, found[at].start, end, ())
    return witness


@st.composite
def _constraint(draw: st.DrawFn, left: str, right: str, witness: dict[str, Situation]) -> Constraint:
    """Around the relation of the witnesses, mostly; often with the prefix group that it is in."""
    relation = draw(st.sampled_from(RELATIONS))
    if left in witness and right in witness and draw(st.integers(0, 9)) != 6:
        relation = relation_of(witness[left], witness[right])
    group = next(group for group in PREFIX_GROUPS if relation in group)
    match draw(st.sampled_from(["one", "group", "group", "part", "some", "groups", "many"])):
        case "one":
            relations = set()
        case "group":
            relations = set(group)
        case "part":
            relations = set(group) - {draw(st.sampled_from(sorted(group)))}
        case "some":
            relations = draw(st.sets(st.sampled_from(RELATIONS), max_size=4))
        case "groups":
            relations = group | draw(st.sampled_from(PREFIX_GROUPS))
        case "many":
            relations = set(RELATIONS) - draw(st.sets(st.sampled_from(RELATIONS), max_size=6))
    return Constraint(left, right, frozenset(relations | {relation}))


def _values(symbols: list[str]) -> st.SearchStrategy[Value]:
    symbol = st.sampled_from(symbols)
    return st.one_of(
        st.builds(Value, symbol, st.sampled_from(NUMERIC), st.just("x")),
        st.builds(Value, symbol, st.sampled_from(NUMERIC), st.just("n")),
        st.builds(Value, symbol, st.sampled_from(TEXTUAL), st.just("s")),
        st.builds(Value, symbol, st.just("count")),
        st.builds(Value, symbol, st.sampled_from(TIMES)),
    )


def _is_connected(constraints: tuple[Constraint, ...]) -> bool:
    reached = {constraints[0].left}
    for _ in constraints:
        for constraint in constraints:
            if {constraint.left, constraint.right} & reached:
                reached |= {constraint.left, constraint.right}
    return all(constraint.left in reached for constraint in constraints)


# ---- satisfiable patterns -------------------------------------------------------------------------


def is_satisfiable(pattern: Pattern) -> bool:
    """Whether some intervals satisfy all constraints; durations are not looked at (`has_room` does).

    Only the order and the coincidences of the end points matter, so intervals over as many points are enough.
    """
    uses = Counter(symbol for constraint in pattern.constraints for symbol in (constraint.left, constraint.right))
    symbols = [symbol for symbol, _ in uses.most_common()]  # what is most constrained is soonest refuted
    return _can_place(symbols, {}, 2 * len(symbols), pattern.constraints)


Interval = tuple[int, int]


def _can_place(symbols: list[str], placed: dict[str, Interval], size: int, constraints: tuple[Constraint, ...]) -> bool:
    if len(placed) == len(symbols):
        return True
    symbol = symbols[len(placed)]
    for interval in itertools.combinations(range(size), 2):
        now = {**placed, symbol: interval}
        decided = [c for c in constraints if symbol in (c.left, c.right) and c.left in now and c.right in now]
        if all(_relation(now[c.left], now[c.right]) in c.relations for c in decided) and _can_place(
            symbols, now, size, constraints
        ):
            return True
    return False


@functools.cache
def _relation(left: Interval, right: Interval) -> str:
    return relation_of(Situation("", *left, ()), Situation("", *right, ()))


def has_room(pattern: Pattern) -> bool:
    """Whether the limits of durations leave a relation to every pair, each pair taken by itself.

    Only how the two durations compare matters, so it is enough to try those around the limits.
    """
    limits = {definition.symbol: definition for definition in pattern.definitions}
    for left, right in {(constraint.left, constraint.right) for constraint in pattern.constraints}:
        about = [
            c.relations if c.left == left else {MIRROR[relation] for relation in c.relations}
            for c in pattern.constraints
            if {c.left, c.right} == {left, right}
        ]
        allowed = frozenset.intersection(*map(frozenset, about))
        if not any(relation in allowed for relation in _relations_of_limits(limits[left], limits[right])):
            return False
    return True


def _relations_of_limits(left: Definition, right: Definition) -> Iterator[str]:
    bounds = [d for limit in (left, right) for d in (limit.at_least, limit.at_most) if d is not None] or [1]
    durations = [Fraction(2 * bound + half, 2) for bound in bounds for half in (-1, 0, 1)]
    step = Fraction(1, 4)
    for a, b in itertools.product(durations, repeat=2):
        if not _keeps_to(left, a) or not _keeps_to(right, b):
            continue
        for start in (a + 1, a, a - step, step, 0, -step, a - b, step - b, -b, -b - 1):
            yield relation_of(Situation("", 0, a, ()), Situation("", start, start + b, ()))


def _keeps_to(definition: Definition, duration: Fraction) -> bool:
    return (definition.at_least or 0) <= duration <= (definition.at_most or math.inf)


def _widened(constraints: tuple[Constraint, ...]) -> Iterator[Constraint]:
    """With the alternative that the situations come one after the other, in order of their symbols."""
    for constraint in constraints:
        relation = "before" if constraint.left < constraint.right else "after"
        yield Constraint(constraint.left, constraint.right, constraint.relations | {relation})


# ---- text -----------------------------------------------------------------------------------------


def render(pattern: Pattern, *, keyed: bool = True, mirrored: int = 0) -> str:
    """The query in the language. mirrored: a bit for each alternative, to write it as its mirror."""
    bits = itertools.cycle(bool(mirrored >> bit & 1) for bit in range(16))
    clauses = [
        f"FROM {TABLE} PARTITION BY {KEY}" if keyed else f"FROM {TABLE}",
        "DEFINE " + ", ".join(_definition_text(definition) for definition in pattern.definitions),
        "PATTERN " + " AND ".join(_constraint_text(constraint, bits) for constraint in pattern.constraints),
    ]
    if pattern.within is not None:
        clauses.append(f"WITHIN {pattern.within}")
    values = [f"{_value_text(value)} AS v{index}" for index, value in enumerate(pattern.values)]
    clauses.append("RETURN " + ", ".join(values))
    return " ".join(clauses)


def _definition_text(definition: Definition) -> str:
    text = f"{definition.symbol} AS {definition.column}"
    match definition.at_least, definition.at_most:
        case None, None:
            return text
        case low, None:
            return f"{text} AT LEAST {low}"
        case None, high:
            return f"{text} AT MOST {high}"
        case low, high:
            return f"{text} BETWEEN {low} units AND {high} units"


def _constraint_text(constraint: Constraint, mirrored: Iterator[bool]) -> str:
    left, right = constraint.left, constraint.right
    return "; ".join(
        f"{right} {MIRROR[relation]} {left}" if next(mirrored) else f"{left} {relation} {right}"
        for relation in sorted(constraint.relations)
    )


def _value_text(value: Value) -> str:
    if value.function in TIMES:
        return f"{value.symbol}.{value.function}"
    return f"{value.function}({value.symbol}.{value.column or '*'})"
