"""The automaton of an event pattern: for contiguity, skip-till-next-match, and closures that choose their events.

States and transitions, the conditions that they test, and the negations; `states` makes them of a pattern. A negated
pattern of more than one event has states of its own, which no run of the pattern reaches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from episode.lang.events.syntax import EventQuery
from episode.plan.events.conditions import Conjunct
from episode.plan.expressions import Apply, Exists, Expression, Navigated

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
    """No event of a variable for which all checks hold; or, where there is a `start`, no way from that state to an
    accepting one, over events of the variables."""

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
        """Does a negation stand before the first event, in some way through the pattern?"""
        first = any(negation.place == FIRST for negation in self.negations)
        return first or any(one.crosses for one in self.transitions if one.source in self.starts)

    @property
    def longest(self) -> int | None:
        """The most events that a match can have; None: there is no limit."""
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


Compile = Callable[[Conjunct, "str | None"], Expression]


@dataclass
class AutomatonParts:
    """An automaton while it is made.

    shared: numbers of states and negations, by the group, the steps that lead there and what distinguishes them.
    same: what [attr] demands of an event, where it is no partition key.
    """

    query: EventQuery
    conjuncts: list[Conjunct]
    compile: Compile
    same: Callable[[str], list[Expression]]
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
        expression = self.compile(conjunct, current)
        for at in waits:
            expression = Apply("or", (Apply("not", (Exists(at),), "boolean"), expression), "boolean")
        loop = conjunct.iterated
        self.checks.append(Check(expression, each, loop, conjunct.back, conjunct.text))
        return len(self.checks) - 1

    def equal(self, variable: str) -> list[int]:
        """Checks for what [attr] demands."""
        numbers = []
        for expression in self.same(variable):
            self.checks.append(Check(expression, False, None, 0, "[attr]"))
            numbers.append(len(self.checks) - 1)
        return numbers
