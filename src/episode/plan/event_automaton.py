"""The automaton of an event pattern: for contiguity, skip-till-next-match, and closures that choose their events.

A pattern is first written as alternatives of linear sequences; each becomes states and transitions. A conjunct is
tested by the transition that decides it: the one that takes the last event it mentions, or leaves the closure that it
covers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Union

from episode.errors import EpisodeUnsupportedError
from episode.lang.event_syntax import (
    Closure,
    Disjunction,
    EventClass,
    EventPattern,
    EventQuery,
    Negation,
    Sequence,
    nodes_of,
)
from episode.lang.syntax import Span
from episode.plan.event_conditions import Conjunct
from episode.plan.expressions import Expression

MIDDLE, FIRST, LAST = "between", "first", "last"
MOST_ALTERNATIVES = 256
END = 1 << 30


@dataclass(frozen=True)
class Take:
    variable: str


@dataclass(frozen=True)
class Loop:
    """`body` at least `minimum` times, at most `maximum` (None: any number of times)."""

    body: tuple[Step, ...]
    minimum: int
    maximum: int | None


@dataclass(frozen=True)
class Not:
    variable: str


Step = Union[Take, Loop, Not]


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
    variable: str
    checks: tuple[int, ...]
    place: str


@dataclass(frozen=True)
class AutomatonPlan:
    """starts: a state per alternative. accepting, in_last_place, end_checks, late: per state.
    required: places that every match fills, in order, as sets of variables (empty where alternatives differ)."""

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


# ---- linear form ----------------------------------------------------------------------------------------


def linear(query: EventQuery, pattern: EventPattern) -> list[tuple[Step, ...]]:
    """The alternatives of a pattern, each a sequence of steps."""
    found = _linear(query, pattern)
    if len(found) > MOST_ALTERNATIVES:
        raise _unsupported(query, query.pattern_span, f"The pattern has {len(found):,} alternatives.", "Split it.")
    return found


def _linear(query: EventQuery, pattern: EventPattern) -> list[tuple[Step, ...]]:
    if isinstance(pattern, EventClass):
        return [(Take(pattern.variable),)]
    if isinstance(pattern, Disjunction):
        return [steps for part in pattern.parts for steps in _linear(query, part)]
    if isinstance(pattern, Sequence):
        return [
            tuple(step for part in choice for step in part)
            for choice in product(*(_linear(query, part) for part in pattern.parts))
        ]
    if isinstance(pattern, Negation):
        return [tuple(Not(name) for name in _negated(query, pattern))]
    if isinstance(pattern, Closure):
        bodies = _linear(query, pattern.part)
        if len(bodies) > 1:
            raise repeated_alternatives(query, pattern)
        if all(isinstance(step, Loop) and step.minimum == 0 for step in bodies[0]):
            hint = "At least one part of it must be there: use + instead of *."
            raise _unsupported(query, pattern.span, "A closure of what may be empty is not evaluated.", hint)
        count = pattern.count
        return [(Loop(bodies[0], pattern.minimum if count is None else count, count),)]
    if all(isinstance(part, Negation) for part in pattern.parts):
        return [tuple(Not(name) for part in pattern.parts for name in _negated(query, part))]  # type: ignore[arg-type]
    raise _unsupported(
        query,
        pattern.span,
        "A conjunction is evaluated under skip-till-any-match only, and not beside closures inside SEQ.",
        "Write the orders as alternatives: SEQ(A a, B b) | SEQ(B b, A a).",
    )


def _negated(query: EventQuery, negation: Negation) -> list[str]:
    parts = negation.part.parts if isinstance(negation.part, Disjunction) else (negation.part,)
    if all(isinstance(part, EventClass) for part in parts):
        return [part.variable for part in parts if isinstance(part, EventClass)]
    raise _unsupported(
        query,
        negation.span,
        "The negation of a sequence or conjunction is evaluated under skip-till-any-match only, and not beside "
        "closures inside SEQ.",
        "Negate single classes.",
    )


def repeated_alternatives(query: EventQuery, closure: Closure) -> EpisodeUnsupportedError:
    """`(B | C)+`: not the same as `B+ | C+`, and `SEQ(B b, C c)+` even less."""
    hint = "A closure repeats one class or one SEQ."
    alternatives = [node for node in nodes_of(closure) if isinstance(node, Disjunction)]
    parts = alternatives[0].parts
    if len(alternatives) == 1 and all(isinstance(part, EventClass) for part in parts):
        names = ", ".join(f"'{part.name}'" for part in parts if isinstance(part, EventClass))
        sign = "*" if closure.minimum == 0 else "+" if closure.count is None else f"^{closure.count}"
        hint = f"Without a type column, one class can stand for all: X{sign} with X.type IN ({names}) in WHERE."
    return _unsupported(query, closure.span, "A closure of alternatives is not evaluated.", hint)


def _unsupported(query: EventQuery, span: Span, message: str, hint: str) -> EpisodeUnsupportedError:
    return EpisodeUnsupportedError(
        message, source=query.source, position=span.start, length=span.end - span.start, hint=hint
    )


def is_linear(pattern: EventPattern) -> bool:
    """A sequence of single classes and negated ones: the automaton is an alternative to a tree."""
    parts = pattern.parts if isinstance(pattern, Sequence) else (pattern,)
    return all(
        isinstance(part, EventClass) or (isinstance(part, Negation) and isinstance(part.part, EventClass))
        for part in parts
    )


# ---- states ------------------------------------------------------------------------------------------------

Compile = Callable[[Conjunct, "str | None"], Expression]


def plan_automaton(
    alternatives: list[tuple[Step, ...]],
    conjuncts: list[Conjunct],
    compile_: Compile,
    same: Callable[[str], list[Expression]],
) -> AutomatonPlan:
    """The automaton of all alternatives. same: what [attr] demands of an event, where it is no partition key."""
    plan = _Automaton(conjuncts, compile_, same)
    for steps in alternatives:
        plan.add(steps)
    return plan.result(_required(alternatives))


def _required(alternatives: list[tuple[Step, ...]]) -> tuple[frozenset[str], ...]:
    if len(alternatives) != 1:
        return ()
    places = []
    for step in alternatives[0]:
        if isinstance(step, Take):
            places.append(frozenset((step.variable,)))
        elif isinstance(step, Loop) and step.minimum > 0:
            places.append(frozenset(_variables(step.body)))
    return tuple(places)


def _variables(steps: tuple[Step, ...]) -> list[str]:
    found: list[str] = []
    for step in steps:
        if isinstance(step, Take):
            found.append(step.variable)
        elif isinstance(step, Loop):
            found += _variables(step.body)
    return found


@dataclass
class _Node:
    """A point of an alternative before epsilon moves are taken out of it."""

    takes: list[tuple[str, int]] = field(default_factory=list)
    moves: list[tuple[int, int | None]] = field(default_factory=list)


@dataclass
class _Automaton:
    conjuncts: list[Conjunct]
    compile: Compile
    same: Callable[[str], list[Expression]]
    starts: list[int] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    accepting: list[bool] = field(default_factory=list)
    in_last_place: list[bool] = field(default_factory=list)
    end_checks: list[tuple[int, ...]] = field(default_factory=list)
    late: list[tuple[int, ...]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    negations: list[NegationPlan] = field(default_factory=list)
    waits: bool = False

    def result(self, required: tuple[frozenset[str], ...]) -> AutomatonPlan:
        return AutomatonPlan(
            tuple(self.starts),
            len(self.accepting),
            tuple(sorted(self.transitions, key=lambda transition: transition.source)),
            tuple(self.accepting),
            tuple(self.in_last_place),
            tuple(self.end_checks),
            tuple(self.late),
            tuple(self.checks),
            tuple(self.negations),
            required,
            self.waits,
        )

    def add(self, steps: tuple[Step, ...]) -> None:
        """The states of one alternative."""
        alternative = _Alternative(self, steps)
        alternative.build()

    def check(self, conjunct: Conjunct, current: str | None, each: bool) -> int:
        expression = self.compile(conjunct, current)
        loop = conjunct.iterated
        self.checks.append(Check(expression, each, loop, conjunct.back, conjunct.text))
        return len(self.checks) - 1


class _Alternative:
    """One linear alternative on its way into the automaton."""

    def __init__(self, automaton: _Automaton, steps: tuple[Step, ...]) -> None:
        self.automaton = automaton
        self.steps = steps
        self.place: dict[str, int] = {}
        self.closed: set[str] = set()
        self.negated: dict[str, int] = {}
        for place, step in enumerate(steps):
            if isinstance(step, Not):
                self.negated[step.variable] = place
            elif isinstance(step, Take):
                self.place[step.variable] = place
            else:
                for name in _variables(step.body):
                    self.place[name] = place
                    self.closed.add(name)
        mine = [
            conjunct
            for conjunct in automaton.conjuncts
            if conjunct.variables <= self.place.keys() | self.negated.keys()
        ]
        self.conjuncts = [conjunct for conjunct in mine if not conjunct.variables & self.negated.keys()]
        # Of several negated classes one event is at most one: what relates two of them rests.
        self.about_negated = [conjunct for conjunct in mine if len(conjunct.variables & self.negated.keys()) == 1]
        self.nodes: list[_Node] = []

    def build(self) -> None:
        negation_numbers = self._negations()
        first_transition = len(self.automaton.transitions)
        at_end: list[tuple[int, ...] | None] = []
        start = self._node()
        end = self._thread(self.steps, start, negation_numbers)
        base = len(self.automaton.accepting)
        # A state per point that an event leads to, and the start.
        points = [start, *sorted({target for node in self.nodes for _, target in node.takes})]
        number = {point: base + index for index, point in enumerate(points)}
        place_before = {start: -1}
        for node in self.nodes:
            for variable, target in node.takes:
                place_before[target] = self.place[variable]
        self.automaton.starts.append(number[start])
        for point in points:
            accepting = False
            end_crossed: tuple[int, ...] = ()
            seen: set[tuple[str, int]] = set()
            for reached, crossed in self._reach(point):
                if reached == end:
                    accepting, end_crossed = True, crossed
                for variable, target in self.nodes[reached].takes:
                    if (variable, target) in seen:
                        continue
                    seen.add((variable, target))
                    self._transition(number, place_before, point, variable, target, crossed, start)
            self.automaton.accepting.append(accepting and point != start)
            self.automaton.in_last_place.append(place_before[point] == max(self.place.values()))
            self.automaton.end_checks.append(self._decided_at_end(place_before[point]) if accepting else ())
            at_end.append(end_crossed if accepting else None)
        deferred = {
            negation
            for transition in self.automaton.transitions[first_transition:]
            for negation, now in transition.crosses
            if not now
        }
        deferred |= {n for n in negation_numbers.values() if self.automaton.negations[n].place == FIRST}
        for crossed_last in at_end:
            self.automaton.late.append(() if crossed_last is None else tuple(sorted(deferred | set(crossed_last))))
            self.automaton.waits |= bool(crossed_last)

    # ---- points ------------------------------------------------------------------------------------------

    def _node(self) -> int:
        self.nodes.append(_Node())
        return len(self.nodes) - 1

    def _thread(self, steps: tuple[Step, ...], at: int, negations: dict[str, int]) -> int:
        for step in steps:
            following = self._node()
            if isinstance(step, Take):
                self.nodes[at].takes.append((step.variable, following))
            elif isinstance(step, Not):
                self.nodes[at].moves.append((following, negations[step.variable]))
            else:
                self._loop(step, at, following, negations)
            at = following
        return at

    def _loop(self, loop: Loop, at: int, following: int, negations: dict[str, int]) -> None:
        for _ in range(loop.minimum):
            begin, at = at, self._thread(loop.body, at, negations)
        if loop.maximum is None:
            if loop.minimum == 0:
                begin = at
                at = self._thread(loop.body, at, negations)
                self.nodes[begin].moves.append((following, None))
            self.nodes[at].moves += [(begin, None), (following, None)]
        else:
            self.nodes[at].moves.append((following, None))

    def _reach(self, point: int) -> list[tuple[int, tuple[int, ...]]]:
        """Points that can be reached without an event, with the negations on the way."""
        found: dict[int, tuple[int, ...]] = {point: ()}
        pending = [point]
        while pending:
            at = pending.pop(0)
            for target, negation in self.nodes[at].moves:
                if target not in found:
                    found[target] = found[at] if negation is None else (*found[at], negation)
                    pending.append(target)
        return list(found.items())

    # ---- what is tested where --------------------------------------------------------------------------------

    def _transition(
        self,
        number: dict[int, int],
        place_before: dict[int, int],
        point: int,
        variable: str,
        target: int,
        crossed: tuple[int, ...],
        start: int,
    ) -> None:
        place, before = self.place[variable], place_before[point]
        checks = []
        for conjunct in self.conjuncts:
            if self._decided_by(conjunct, variable, before, place):
                checks.append(self._check(conjunct, variable))
        if point != start:
            for expression in self.automaton.same(variable):
                self.automaton.checks.append(Check(expression, False, None, 0, "[attr]"))
                checks.append(len(self.automaton.checks) - 1)
        crosses = tuple(
            (negation, point != start and self._known(negation, place))
            for negation in crossed
            if self.automaton.negations[negation].place == MIDDLE
        )
        self.automaton.transitions.append(Transition(number[point], variable, number[target], tuple(checks), crosses))

    def _ready(self, conjunct: Conjunct) -> tuple[int, bool]:
        """(place, is it decided only behind that place?)."""
        last, behind = -1, False
        for name in conjunct.variables:
            place = self.place[name]
            waits = name in conjunct.whole
            if place > last or (place == last and waits):
                last, behind = place, waits or (place == last and behind)
        return last, behind

    def _decided_by(self, conjunct: Conjunct, variable: str, before: int, place: int) -> bool:
        last, behind = self._ready(conjunct)
        if behind:
            return before <= last < place
        return place == last and variable in conjunct.variables

    def _check(self, conjunct: Conjunct, variable: str) -> int:
        if conjunct.iterated == variable:
            return self.automaton.check(conjunct, variable, False)
        return self.automaton.check(conjunct, conjunct.iterated, conjunct.iterated is not None)

    def _decided_at_end(self, place: int) -> tuple[int, ...]:
        found = []
        for conjunct in self.conjuncts:
            last, behind = self._ready(conjunct)
            if behind and last >= place:
                found.append(self.automaton.check(conjunct, conjunct.iterated, conjunct.iterated is not None))
        return tuple(found)

    # ---- negations ---------------------------------------------------------------------------------------------

    def _negations(self) -> dict[str, int]:
        numbers: dict[str, int] = {}
        positives = [place for place, step in enumerate(self.steps) if not isinstance(step, Not)]
        for variable, place in self.negated.items():
            checks = tuple(
                self.automaton.check(conjunct, variable, False)
                for conjunct in self.about_negated
                if variable in conjunct.variables
            )
            where = FIRST if place < positives[0] else LAST if place > positives[-1] else MIDDLE
            for expression in self.automaton.same(variable):
                self.automaton.checks.append(Check(expression, False, None, 0, "[attr]"))
                checks = (*checks, len(self.automaton.checks) - 1)
            numbers[variable] = len(self.automaton.negations)
            self.automaton.negations.append(NegationPlan(variable, checks, where))
        return numbers

    def _known(self, negation: int, place: int) -> bool:
        """Are all events that its conditions mention known when an event at a place is taken?"""
        variable = self.automaton.negations[negation].variable
        for conjunct in self.about_negated:
            if variable in conjunct.variables:
                for name in conjunct.variables - self.negated.keys():
                    if self.place[name] > place or (self.place[name] == place and name in self.closed):
                        return False
        return True
