"""The automaton of an event pattern: for contiguity, skip-till-next-match, and closures that choose their events.

A pattern is first written as alternatives of linear sequences; each becomes states and transitions. Alternatives that
one run follows (skip-till-next-match) have the states of their common beginning in common. A conjunct is tested by the
transition that decides it: the one that takes the last event it mentions, or leaves the closure that it covers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Union

from episode.errors import EpisodeUnsupportedError
from episode.lang.events.syntax import (
    Closure,
    Disjunction,
    EventClass,
    EventPattern,
    EventQuery,
    Negation,
    Sequence,
    nodes_of,
)
from episode.plan.events.conditions import Conjunct
from episode.plan.expressions import Expression

MIDDLE, FIRST, LAST = "between", "first", "last"
MOST_ALTERNATIVES = 256
END = 1 << 30
RUN_EACH = "write the alternatives out, SEQ(…) | SEQ(…), to have a run for each."


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
    """starts: a state per run. accepting, in_last_place, end_checks, late: per state.
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


Alternatives = list[tuple[Step, ...]]
"""Sequences of steps. A step that several of them have in common is the same object."""


def linear(query: EventQuery, pattern: EventPattern, together: bool) -> list[Alternatives]:
    """The alternatives of a pattern, in groups that one run follows.

    together: all alternatives inside a sequence (skip-till-next-match); else each is a group of its own.
    """
    groups = [_linear(query, part) for part in _united(pattern)]
    count = sum(len(group) for group in groups)
    if count > MOST_ALTERNATIVES:
        raise query.source.error(
            EpisodeUnsupportedError, f"The pattern has {count:,} alternatives.", query.source.pattern, "Split it."
        )
    return groups if together else [[steps] for group in groups for steps in group]


def _united(pattern: EventPattern) -> list[EventPattern]:
    """The parts of a union of whole patterns."""
    if isinstance(pattern, Disjunction):
        return [one for part in pattern.parts for one in _united(part)]
    return [pattern]


def _linear(query: EventQuery, pattern: EventPattern) -> Alternatives:
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
            raise query.source.error(
                EpisodeUnsupportedError, "A closure of what may be empty is not evaluated.", pattern.span, hint
            )
        count = pattern.count
        return [(Loop(bodies[0], pattern.minimum if count is None else count, count),)]
    if all(isinstance(part, Negation) for part in pattern.parts):
        return [tuple(Not(name) for part in pattern.parts for name in _negated(query, part))]  # type: ignore[arg-type]
    raise query.source.error(
        EpisodeUnsupportedError,
        "A conjunction is evaluated under skip-till-any-match only, and not beside closures inside SEQ.",
        pattern.span,
        "Write the orders as alternatives: SEQ(A a, B b) | SEQ(B b, A a).",
    )


def _negated(query: EventQuery, negation: Negation) -> list[str]:
    parts = negation.part.parts if isinstance(negation.part, Disjunction) else (negation.part,)
    if all(isinstance(part, EventClass) for part in parts):
        return [part.variable for part in parts if isinstance(part, EventClass)]
    raise query.source.error(
        EpisodeUnsupportedError,
        "The negation of a sequence or conjunction is evaluated under skip-till-any-match only, and not beside "
        "closures inside SEQ.",
        negation.span,
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
    return query.source.error(
        EpisodeUnsupportedError, "A closure of alternatives is not evaluated.", closure.span, hint
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
    query: EventQuery,
    groups: list[Alternatives],
    conjuncts: list[Conjunct],
    compile_: Compile,
    same: Callable[[str], list[Expression]],
) -> AutomatonPlan:
    """The automaton of all alternatives. same: what [attr] demands of an event, where it is no partition key."""
    plan = _Automaton(query, conjuncts, compile_, same)
    for number, group in enumerate(groups):
        for steps in group:
            _Alternative(plan, number, steps).build()
    return plan.result(_required([steps for group in groups for steps in group]))


def _required(alternatives: Alternatives) -> tuple[frozenset[str], ...]:
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
    """shared: numbers of states and negations, by the group, the steps that lead there and what distinguishes them."""

    query: EventQuery
    conjuncts: list[Conjunct]
    compile: Compile
    same: Callable[[str], list[Expression]]
    starts: list[int] = field(default_factory=list)
    transitions: dict[tuple[int, str, int], Transition] = field(default_factory=dict)
    accepting: list[bool] = field(default_factory=list)
    in_last_place: list[bool] = field(default_factory=list)
    end_checks: list[tuple[int, ...]] = field(default_factory=list)
    late: list[tuple[int, ...]] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    negations: list[NegationPlan] = field(default_factory=list)
    waits: bool = False
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

    def check(self, conjunct: Conjunct, current: str | None, each: bool) -> int:
        expression = self.compile(conjunct, current)
        loop = conjunct.iterated
        self.checks.append(Check(expression, each, loop, conjunct.back, conjunct.text))
        return len(self.checks) - 1


class _Alternative:
    """One linear alternative on its way into the automaton."""

    def __init__(self, automaton: _Automaton, group: int, steps: tuple[Step, ...]) -> None:
        self.automaton = automaton
        self.group = group
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
        automaton = self.automaton
        negations = self._negations()
        deferred = {n for n in negations.values() if automaton.negations[n].place == FIRST}
        start = end = self._node()
        step_of = [-1]
        for place, step in enumerate(self.steps):
            end = self._thread((step,), end, negations)
            step_of += [place] * (len(self.nodes) - len(step_of))
        # A state per point that an event leads to, and the start.
        points = [start, *sorted({target for node in self.nodes for _, target in node.takes})]
        number = {point: automaton.state((*self._way_to(step_of[point]), point)) for point in points}
        place_before = {start: -1}
        for node in self.nodes:
            for variable, target in node.takes:
                place_before[target] = self.place[variable]
        if number[start] not in automaton.starts:
            automaton.starts.append(number[start])
        at_end: dict[int, tuple[int, ...]] = {}
        for point in points:
            seen: set[tuple[str, int]] = set()
            for reached, crossed in self._reach(point):
                if reached == end:
                    at_end[point] = crossed
                for variable, target in self.nodes[reached].takes:
                    if (variable, target) in seen:
                        continue
                    seen.add((variable, target))
                    crosses = self._transition(number, place_before, point, variable, target, crossed, start)
                    deferred |= {negation for negation, now in crosses if not now}
        for point, crossed in at_end.items():
            state = number[point]
            if automaton.accepting[state]:
                raise self._both_empty()
            automaton.accepting[state] = point != start
            automaton.in_last_place[state] = place_before[point] == max(self.place.values())
            automaton.end_checks[state] = self._decided_at_end(place_before[point])
            automaton.late[state] = tuple(sorted(deferred | set(crossed)))
            automaton.waits |= bool(crossed)

    def _way_to(self, place: int) -> tuple[object, ...]:
        """What alternatives of one run have in common up to a step."""
        return (self.group, *(id(step) for step in self.steps[: place + 1]))

    def _both_empty(self) -> EpisodeUnsupportedError:
        return self.automaton.query.source.error(
            EpisodeUnsupportedError,
            "Under skip-till-next-match, only one of the last alternatives may be empty.",
            self.automaton.query.source.pattern,
            f"Use + instead of * in the others, or {RUN_EACH}",
        )

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
    ) -> tuple[tuple[int, bool], ...]:
        place, before = self.place[variable], place_before[point]
        crosses = tuple(
            (negation, point != start and self._known(negation, place))
            for negation in crossed
            if self.automaton.negations[negation].place == MIDDLE
        )
        ends = (number[point], variable, number[target])
        if ends in self.automaton.transitions:
            if self.automaton.transitions[ends].crosses != crosses:
                raise self._unlike(crosses, place)
            return crosses
        checks = []
        for conjunct in self.conjuncts:
            if self._decided_by(conjunct, variable, before, place):
                checks.append(self._check(conjunct, variable))
        if point != start:
            for expression in self.automaton.same(variable):
                self.automaton.checks.append(Check(expression, False, None, 0, "[attr]"))
                checks.append(len(self.automaton.checks) - 1)
        self.automaton.transitions[ends] = Transition(*ends, tuple(checks), crosses)
        return crosses

    def _ready(self, conjunct: Conjunct) -> tuple[int, bool]:
        """(place, is it decided only after that place?)."""
        last, after = -1, False
        for name in conjunct.variables:
            place = self.place[name]
            waits = name in conjunct.whole
            if place > last or (place == last and waits):
                last, after = place, waits or (place == last and after)
        return last, after

    def _decided_by(self, conjunct: Conjunct, variable: str, before: int, place: int) -> bool:
        last, after = self._ready(conjunct)
        if after:
            return before <= last < place
        return place == last and variable in conjunct.variables

    def _check(self, conjunct: Conjunct, variable: str) -> int:
        if conjunct.iterated == variable:
            return self.automaton.check(conjunct, variable, False)
        return self.automaton.check(conjunct, conjunct.iterated, conjunct.iterated is not None)

    def _decided_at_end(self, place: int) -> tuple[int, ...]:
        found = []
        for conjunct in self.conjuncts:
            last, after = self._ready(conjunct)
            if after and last >= place:
                found.append(self.automaton.check(conjunct, conjunct.iterated, conjunct.iterated is not None))
        return tuple(found)

    # ---- negations ---------------------------------------------------------------------------------------------

    def _negations(self) -> dict[str, int]:
        numbers: dict[str, int] = {}
        positives = [place for place, step in enumerate(self.steps) if not isinstance(step, Not)]
        for variable, place in self.negated.items():
            about = [conjunct for conjunct in self.about_negated if variable in conjunct.variables]
            where = FIRST if place < positives[0] else LAST if place > positives[-1] else MIDDLE
            key = (*self._way_to(place), variable, *(id(conjunct) for conjunct in about))
            if key in self.automaton.shared:
                numbers[variable] = self.automaton.shared[key]
                continue
            self.automaton.shared[key] = len(self.automaton.negations)
            checks = tuple(self.automaton.check(conjunct, variable, False) for conjunct in about)
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

    def _unlike(self, crosses: tuple[tuple[int, bool], ...], place: int) -> EpisodeUnsupportedError:
        """A negation that is not the same in all alternatives of a run, where they have not parted yet."""
        negated = {self.automaton.negations[negation].variable for negation, _ in crosses}
        known = {name for name, at in self.place.items() if at <= place} | self.negated.keys()
        conjunct = next(one for one in self.automaton.conjuncts if one.variables & negated and one.variables - known)
        return self.automaton.query.source.error(
            EpisodeUnsupportedError,
            "Under skip-till-next-match, a negated event is not compared with later alternatives.",
            conjunct.scalar.span,
            f"Compare it with events before them, or {RUN_EACH}",
        )
