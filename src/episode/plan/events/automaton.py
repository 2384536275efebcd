"""An event pattern as alternatives of linear sequences of steps, and the automaton that is built from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Union

from episode.errors import EpisodeUnsupportedError
from episode.lang.events.syntax import Closure, Disjunction, EventClass, EventPattern, EventQuery, Negation, Sequence
from episode.lang.syntax import Scalar
from episode.plan.events.conditions import Conjunct
from episode.plan.expressions import Apply, Exists, Expression, Navigated

MOST_ALTERNATIVES = 256
MOST_STEPS = 1 << 16


@dataclass(frozen=True)
class Take:
    """One event."""

    variable: str


@dataclass(frozen=True)
class Loop:
    """One of `bodies` after the other, at least `minimum` of them, at most `maximum` (None: any number)."""

    bodies: tuple[tuple[Step, ...], ...]
    minimum: int
    maximum: int | None

    @property
    def only(self) -> Take | None:
        """Return the repeated step, if it is a single event."""
        steps = self.bodies[0] if len(self.bodies) == 1 else ()
        return steps[0] if len(steps) == 1 and isinstance(steps[0], Take) else None


@dataclass(frozen=True)
class Not:
    """No match of these steps between the neighbours. variables: theirs, and those of closures passed over."""

    steps: tuple[Step, ...]
    variables: tuple[str, ...]

    @property
    def every(self) -> frozenset[str]:
        """Its variables, and those of negations inside it."""
        return frozenset(self.variables).union(*(one.every for one in nots_in(self.steps)))


Step = Union[Take, Loop, Not]
Alternatives = list[tuple[Step, ...]]
"""Sequences of steps. A step that several of them have in common is the same object."""


def linear(query: EventQuery, pattern: EventPattern, together: bool) -> list[Alternatives]:
    """The alternatives of a pattern, in groups that one run follows.

    together: all alternatives inside a sequence are one group (skip-till-next-match); else each is one.
    """
    groups = [_Linear(query).alternatives(part) for part in _alternatives_of(pattern)]
    count = sum(len(group) for group in groups)
    if count > MOST_ALTERNATIVES:
        raise _too_many(query, count)
    if sum(size_of(steps) for group in groups for steps in group) > MOST_STEPS:
        raise too_many_places(query)
    return groups if together else [[steps] for group in groups for steps in group]


def sequences_of(query: EventQuery, pattern: EventPattern) -> Alternatives:
    """The alternatives of a pattern, each for itself."""
    return [steps for group in linear(query, pattern, together=False) for steps in group]


def _alternatives_of(pattern: EventPattern) -> list[EventPattern]:
    """The parts of a union of whole patterns."""
    if isinstance(pattern, Disjunction):
        return [one for part in pattern.parts for one in _alternatives_of(part)]
    return [pattern]


def too_many_places(query: EventQuery) -> EpisodeUnsupportedError:
    message = f"The pattern has more than {MOST_STEPS:,} places, with every repetition that a count asks for."
    hint = "Use smaller counts, or + and a condition on count(b[])."
    return query.source.error(EpisodeUnsupportedError, message, query.source.pattern, hint)


def _too_many(query: EventQuery, count: int) -> EpisodeUnsupportedError:
    message = f"The pattern has {count:,} alternatives."
    return query.source.error(EpisodeUnsupportedError, message, query.source.pattern, "Split it.")


@dataclass(frozen=True)
class _Linear:
    query: EventQuery

    def alternatives(self, pattern: EventPattern) -> Alternatives:
        if isinstance(pattern, EventClass):
            return [(Take(pattern.variable),)]
        if isinstance(pattern, Disjunction):
            return [steps for part in pattern.parts for steps in self.alternatives(part)]
        if isinstance(pattern, Sequence):
            return self._in_order(pattern)
        if isinstance(pattern, Closure):
            return [(self._loop(pattern),)]
        parts = (pattern,) if isinstance(pattern, Negation) else pattern.parts
        negations = [part for part in parts if isinstance(part, Negation)]
        if len(negations) == len(parts):
            return [tuple(one for part in negations for one in self._nots(part))]
        raise self.query.source.error(
            EpisodeUnsupportedError,
            "A conjunction is evaluated under skip-till-any-match only, and not next to closures inside "
            "SEQ or negations inside negations.",
            pattern.span,
            "Write the orders as alternatives: SEQ(A a, B b) | SEQ(B b, A a).",
        )

    def _in_order(self, sequence: Sequence) -> Alternatives:
        choices = [self.alternatives(part) for part in sequence.parts]
        count = prod(map(len, choices))
        if count > MOST_ALTERNATIVES:
            raise _too_many(self.query, count)
        return [tuple(step for part in choice for step in part) for choice in product(*choices)]

    def _nots(self, negation: Negation) -> Iterator[Not]:
        """Yield a negation for each alternative of a negated choice. Optional parts also forbid their events."""
        for steps in self.alternatives(negation.part):
            yield from (Not(way, tuple(variables_in(steps))) for way in with_an_event(steps))

    def _loop(self, closure: Closure) -> Loop:
        bodies = [way for body in self.alternatives(closure.part) for way in with_an_event(body)]
        if len(bodies) > MOST_ALTERNATIVES:
            raise _too_many(self.query, len(bodies))
        count = closure.count
        return Loop(tuple(bodies), closure.minimum if count is None else count, count)


def may_be_empty(steps: tuple[Step, ...]) -> bool:
    """Can it be passed without an event?"""
    return all(isinstance(step, Not) or (isinstance(step, Loop) and step.minimum == 0) for step in steps)


def with_an_event(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """The ways through steps that take an event, without their way past all of them: `A* B*` is `A+ B*` or `B+`."""
    if not may_be_empty(steps):
        yield steps
        return
    for number, step in enumerate(steps):
        if isinstance(step, Loop):
            passed = tuple(before for before in steps[:number] if isinstance(before, Not))
            yield (*passed, replace(step, minimum=1), *steps[number + 1 :])


def steps_in(steps: tuple[Step, ...]) -> Iterator[Step]:
    """The steps, also inside loops."""
    for step in steps:
        yield step
        if isinstance(step, Loop):
            for body in step.bodies:
                yield from steps_in(body)


def variables_in(steps: tuple[Step, ...]) -> list[str]:
    return [step.variable for step in steps_in(steps) if isinstance(step, Take)]


def nots_in(steps: tuple[Step, ...]) -> list[Not]:
    return [step for step in steps_in(steps) if isinstance(step, Not)]


def size_of(steps: tuple[Step, ...]) -> int:
    """Places of the steps, with every repetition that a count asks for."""
    size = 0
    for step in steps:
        if isinstance(step, Take):
            size += 1
        elif isinstance(step, Not):
            size += size_of(step.steps)
        else:
            size += max(1, step.minimum) * sum(size_of(body) for body in step.bodies)
    return size


def is_linear(pattern: EventPattern) -> bool:
    """A sequence of single classes and negated ones: the automaton is an alternative to a tree."""
    parts = pattern.parts if isinstance(pattern, Sequence) else (pattern,)
    return all(isinstance(part.part if isinstance(part, Negation) else part, EventClass) for part in parts)


# The automaton of an event pattern: for contiguity, skip-till-next-match, and closures that choose their events.
#
# States and transitions, the conditions that they test, and the negations; `states` builds them from a pattern. A
# negated pattern of more than one event has its own states, which no run of the pattern reaches.

MIDDLE, FIRST, LAST = "between", "first", "last"


@dataclass(frozen=True)
class Check:
    """A condition. each: once per event of `loop`; else with the event just taken (or negating) as current row.

    back: nothing is demanded of the first `back` events of `loop`.
    """

    expression: Expression
    each: bool
    loop: str | None
    back: int
    text: str


@dataclass(frozen=True)
class Transition:
    """Takes an event of a variable. crosses: (negation, is it looked at now?) between it and the event before it."""

    source: int
    variable: str
    target: int
    checks: tuple[int, ...]
    crosses: tuple[tuple[int, bool], ...]


@dataclass(frozen=True)
class NegationPlan:
    """No event of a variable for which all checks hold; or, with a `start`, no way from that state to an accepting one,
    over events of the variables."""

    variables: tuple[str, ...]
    checks: tuple[int, ...]
    place: str
    start: int | None = None


@dataclass(frozen=True)
class AutomatonPlan:
    """starts: a state per run. accepting, in_last_place, end_checks, late: per state.
    required: places that every match fills, in order, as sets of variables (empty where alternatives differ).
    repeats: can runs find the same events in the same places several times?"""

    starts: tuple[int, ...]
    states: int
    transitions: tuple[Transition, ...]
    accepting: tuple[bool, ...]
    in_last_place: tuple[bool, ...]
    end_checks: tuple[tuple[int, ...], ...]
    late: tuple[tuple[int, ...], ...]
    checks: tuple[Check, ...]
    negations: tuple[NegationPlan, ...]
    required: tuple[frozenset[str], ...]
    waits: bool
    repeats: bool = False

    @property
    def looks_before(self) -> bool:
        """Does a negation precede the first event, in some way through the pattern?"""
        first = any(negation.place == FIRST for negation in self.negations)
        return first or any(one.crosses for one in self.transitions if one.source in self.starts)

    @property
    def longest(self) -> int | None:
        """Return the greatest number of events of a match; None for no limit."""
        following: dict[int, set[int]] = {}
        for one in self.transitions:
            following.setdefault(one.source, set()).add(one.target)
        reached, taken = set(self.starts), 0
        while True:
            reached = {target for state in reached for target in following.get(state, ())}
            if not reached:
                return taken
            taken += 1
            if taken > self.states:
                return None


Compile = Callable[[Scalar, "str | None"], "Expression | None"]


@dataclass
class AutomatonParts:
    """An automaton under construction.

    shared: numbers of states and negations, by the group, the steps that lead there and what distinguishes them.
    compile: see `EventScalars.compile`. same: the conditions of [attr] on an event, if it is not a partition key.
    """

    query: EventQuery
    conjuncts: list[Conjunct]
    compile: Compile
    same: list[Expression]
    forks: bool = False
    starts: list[int] = field(default_factory=list)
    transitions: dict[tuple[int, str, int], Transition] = field(default_factory=dict)
    accepting: list[bool] = field(default_factory=list)
    in_last_place: list[bool] = field(default_factory=list)
    end_checks: list[tuple[int, ...]] = field(default_factory=list)
    late: list[tuple[int, ...]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    negations: list[NegationPlan] = field(default_factory=list)
    waits: bool = False
    repeats: bool = False
    shared: dict[tuple[object, ...], int] = field(default_factory=dict)

    def result(self, required: tuple[frozenset[str], ...]) -> AutomatonPlan:
        return AutomatonPlan(
            tuple(self.starts),
            len(self.accepting),
            tuple(sorted(self.transitions.values(), key=lambda transition: transition.source)),
            tuple(self.accepting),
            tuple(self.in_last_place),
            tuple(self.end_checks),
            tuple(self.late),
            tuple(self.checks),
            tuple(self.negations),
            required,
            self.waits,
            self.repeats,
        )

    def state(self, key: tuple[object, ...]) -> int:
        """The state of a key, which may be there already."""
        if key not in self.shared:
            self.shared[key] = len(self.accepting)
            self.accepting.append(False)
            self.in_last_place.append(False)
            self.end_checks.append(())
            self.late.append(())
        return self.shared[key]

    def check(self, conjunct: Conjunct, current: str | None, each: bool, waits: tuple[Navigated, ...] = ()) -> int:
        """waits: nothing is demanded as long as one of these events is not there."""
        expression = self.compile(conjunct.scalar, current)
        assert expression is not None
        for at in waits:
            expression = Apply("or", (Apply("not", (Exists(at),), "boolean"), expression), "boolean")
        self.checks.append(Check(expression, each, conjunct.iterated, conjunct.back, conjunct.text))
        return len(self.checks) - 1

    def equal(self) -> range:
        """Checks for what [attr] demands."""
        self.checks += [Check(expression, False, None, 0, "[attr]") for expression in self.same]
        return range(len(self.checks) - len(self.same), len(self.checks))
