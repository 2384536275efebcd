"""From the linear alternatives of an event pattern to the states of its automaton.

Alternatives that one run follows (skip-till-next-match) have the states of their common beginning in common. A conjunct
is tested by the transition that decides it: the one that takes the last event it mentions, or leaves the closure that
it covers. What reads b[1] or b[k] is decided when that event is taken, so that another one can be the first or k-th.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from episode.errors import EpisodeUnsupportedError
from episode.lang.events.syntax import EventQuery
from episode.plan.events.automaton import (
    FIRST,
    LAST,
    MIDDLE,
    MOST_STEPS,
    Alternatives,
    AutomatonParts,
    AutomatonPlan,
    Compile,
    Loop,
    NegationPlan,
    Not,
    Step,
    Take,
    Transition,
    nots_in,
    too_many_places,
    variables_in,
)
from episode.plan.events.conditions import Conjunct
from episode.plan.expressions import Expression, Navigated

RUN_EACH = "write the alternatives out, SEQ(…) | SEQ(…), to have a run for each."


def plan_automaton(
    query: EventQuery,
    groups: list[Alternatives],
    conjuncts: list[Conjunct],
    compile_: Compile,
    same: list[Expression],
    forks: bool,
) -> AutomatonPlan:
    """Build the automaton of all alternatives. same: the conditions of [attr], if it is not a partition key.

    forks: does each way to take an event start a run (skip-till-next-match)?
    """
    parts = AutomatonParts(query, conjuncts, compile_, same, forks)
    for number, group in enumerate(groups):
        for steps in group:
            start = _Alternative(parts, steps, (number,), conjuncts).build()
            if start not in parts.starts:
                parts.starts.append(start)
    return parts.result(_required_variables([steps for group in groups for steps in group]))


def _required_variables(alternatives: Alternatives) -> tuple[frozenset[str], ...]:
    steps = alternatives[0] if len(alternatives) == 1 else ()
    required = [step for step in steps if isinstance(step, Take) or (isinstance(step, Loop) and step.minimum > 0)]
    return tuple(frozenset(variables_in((step,))) for step in required)


Points = frozenset[int]


@dataclass
class _Node:
    """A point of an alternative before epsilon moves are taken out of it."""

    takes: list[tuple[str, int]] = field(default_factory=list)
    moves: list[tuple[int, int | None]] = field(default_factory=list)


class _Alternative:
    """One linear alternative on its way into the automaton, or one of a negated pattern.

    key: tells its states from those of others. around: for a negated pattern, the variables of the match around it,
    whose events are all known when it is looked for. empty: variables of closures that are passed over.
    """

    def __init__(
        self,
        automaton: AutomatonParts,
        steps: tuple[Step, ...],
        key: tuple[object, ...],
        conjuncts: list[Conjunct],
        around: frozenset[str] | None = None,
        empty: tuple[str, ...] = (),
    ) -> None:
        self.automaton = automaton
        self.steps = steps
        self.key = key
        self.is_negated = around is not None
        self.place: dict[str, int] = {}
        self.closed: set[str] = set()
        self.negated: dict[int, frozenset[str]] = {}
        for place, step in enumerate(steps):
            self.negated |= {id(one): one.every for one in nots_in((step,))}
            for name in variables_in((step,)):
                self.place[name] = place
                if isinstance(step, Loop):
                    self.closed.add(name)
        for name in empty:
            self.place.setdefault(name, 0)
        forbidden = frozenset[str]().union(*self.negated.values())
        names = self.place.keys() | forbidden | (around or frozenset())
        mine = [conjunct for conjunct in conjuncts if conjunct.variables <= names]
        self.conjuncts = [conjunct for conjunct in mine if not conjunct.variables & forbidden]
        # What relates events of two negations rests.
        self.about = {
            step: [one for one in mine if one.variables & own and one.variables & forbidden <= own]
            for step, own in self.negated.items()
        }
        self.step_of_negation: dict[int, int] = {}
        self.nodes: list[_Node] = []

    def build(self) -> int:
        """Returns the state that it starts in."""
        automaton = self.automaton
        negations = self._negations()
        deferred = {number for number in negations.values() if automaton.negations[number].place == FIRST}
        start = end = self._node()
        step_of = [-1]
        for place, step in enumerate(self.steps):
            end = self._thread((step,), end, negations)
            step_of += [place] * (len(self.nodes) - len(step_of))
        place_before = {start: -1}
        for node in self.nodes:
            for variable, target in node.takes:
                place_before[target] = self.place[variable]
        # A state per set of points that one way of taking events leads to, and the start.
        first = frozenset((start,))
        number = {first: automaton.state((*self._way_to(-1), first))}
        pending, at_end = [first], dict[Points, tuple[int, ...]]()
        for points in pending:
            before = place_before[min(points)]
            for variable, targets, crossed in self._following(points):
                if targets not in number:
                    number[targets] = automaton.state((*self._way_to(step_of[min(targets)]), targets))
                    pending.append(targets)
                    if len(pending) > MOST_STEPS:
                        raise too_many_places(automaton.query)
                ends = (number[points], variable, number[targets])
                crosses = self._transition(ends, before, crossed, points == first)
                deferred |= {negation for negation, now in crosses if not now}
            for point in sorted(points):
                at_end.update((points, crossed) for reached, crossed in self._reach(point) if reached == end)
        for points, crossed in at_end.items():
            state, before = number[points], place_before[min(points)]
            if automaton.accepting[state]:
                message = "Under skip-till-next-match, only one of the last alternatives may be empty."
                hint = f"Use + instead of * in the others, or {RUN_EACH}"
                source = automaton.query.source
                raise source.error(EpisodeUnsupportedError, message, source.pattern, hint)
            automaton.accepting[state] = points != first
            automaton.in_last_place[state] = before == max(self.place.values())
            ending = [conjunct for conjunct in self.conjuncts if self._decided_after(conjunct, before)]
            automaton.end_checks[state] = tuple(self._check_whole(conjunct) for conjunct in ending)
            automaton.late[state] = tuple(sorted(deferred | set(crossed)))
            automaton.waits |= bool(crossed) and not self.is_negated
        return number[first]

    def _following(self, points: Points) -> list[tuple[str, Points, tuple[int, ...]]]:
        """Return the steps that events can take from a set of points: (variable, points, negations on the way).

        The same events in the same places are one match, however they fall into rounds; so the points that they lead to
        are one state. Under skip-till-next-match each is a way that a run goes until its own first match.
        """
        found: dict[tuple[str, tuple[int, ...]], set[int]] = {}
        for point in sorted(points):
            for reached, crossed in self._reach(point):
                for variable, target in self.nodes[reached].takes:
                    found.setdefault((variable, crossed), set()).add(target)
        if not self.automaton.forks:
            return [(variable, frozenset(targets), crossed) for (variable, crossed), targets in found.items()]
        self.automaton.repeats |= any(len(targets) > 1 for targets in found.values())
        return [
            (variable, frozenset((target,)), crossed)
            for (variable, crossed), targets in found.items()
            for target in sorted(targets)
        ]

    def _way_to(self, place: int) -> tuple[object, ...]:
        """Return a key for the steps up to a place, equal for alternatives of one run that share them."""
        return (*self.key, *(id(step) for step in self.steps[: place + 1]))

    # ---- points ------------------------------------------------------------------------------------------

    def _node(self) -> int:
        self.nodes.append(_Node())
        return len(self.nodes) - 1

    def _thread(self, steps: tuple[Step, ...], at: int, negations: dict[int, int]) -> int:
        for step in steps:
            following = self._node()
            if isinstance(step, Take):
                self.nodes[at].takes.append((step.variable, following))
            elif isinstance(step, Not):
                self.nodes[at].moves.append((following, negations[id(step)]))
            else:
                self._loop(step, at, following, negations)
            at = following
        return at

    def _loop(self, loop: Loop, at: int, following: int, negations: dict[int, int]) -> None:
        if loop.maximum is not None:
            for _ in range(loop.minimum):
                at = self._round(loop, at, negations)
            self.nodes[at].moves.append((following, None))
            return
        for _ in range(loop.minimum - 1):
            at = self._round(loop, at, negations)
        # A new node to come back to: others may begin where the loop does.
        begin = self._node()
        self.nodes[at].moves.append((begin, None))
        end = self._round(loop, begin, negations)
        self.nodes[end].moves += [(begin, None), (following, None)]
        if loop.minimum == 0:
            self.nodes[begin].moves.append((following, None))

    def _round(self, loop: Loop, at: int, negations: dict[int, int]) -> int:
        """One repetition: one of the bodies."""
        if len(loop.bodies) == 1:
            return self._thread(loop.bodies[0], at, negations)
        ends = [self._thread(body, at, negations) for body in loop.bodies]
        after = self._node()
        for end in ends:
            self.nodes[end].moves.append((after, None))
        return after

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
        self, ends: tuple[int, str, int], before: int, crossed: tuple[int, ...], starts: bool
    ) -> tuple[tuple[int, bool], ...]:
        """From a state whose last event is at place `before`, or from the start. Returns the negations on the way."""
        variable = ends[1]
        place = self.place[variable]
        crosses = tuple(
            (negation, not starts and self._is_known(negation, place))
            for negation in crossed
            if self.automaton.negations[negation].place == MIDDLE
        )
        if ends in self.automaton.transitions:
            if self.automaton.transitions[ends].crosses == crosses:
                return crosses
            # A negation is not the same in all alternatives of a run, where they have not parted yet.
            negated = {name for negation, _ in crosses for name in self.automaton.negations[negation].variables}
            known = {name for name, at in self.place.items() if at <= place}.union(*self.negated.values())
            others = (one for one in self.automaton.conjuncts if one.variables & negated and one.variables - known)
            message = "Under skip-till-next-match, a negated event is not compared with later alternatives."
            hint = f"Compare it with events before them, or {RUN_EACH}"
            source = self.automaton.query.source
            raise source.error(EpisodeUnsupportedError, message, next(others).scalar.span, hint)
        checks = []
        for conjunct in self.conjuncts:
            if self._decided_by(conjunct, variable, before, place):
                checks.append(self._check(conjunct, variable, place))
            elif self._decided_after(conjunct, before, place):
                checks.append(self._check_whole(conjunct))
        if not starts or self.is_negated:
            checks += self.automaton.equal()
        self.automaton.transitions[ends] = Transition(*ends, tuple(checks), crosses)
        return crosses

    def _ready(self, conjunct: Conjunct) -> tuple[int, bool]:
        """(place, is it decided only after that place?)."""
        waiting = conjunct.whole - dict(conjunct.numbered).keys()
        last, after = -1, False
        for name in conjunct.variables & self.place.keys():
            place = self.place[name]
            waits = name in waiting
            if place > last or (place == last and waits):
                last, after = place, waits or (place == last and after)
        return last, after

    def _decided_by(self, conjunct: Conjunct, variable: str, before: int, place: int) -> bool:
        """By taking an event of a variable, after one at the place `before`."""
        last, after = self._ready(conjunct)
        if after or place != last or variable not in conjunct.variables:
            return False
        number = self._number_read(conjunct, place)
        if before < place:  # the first event of a closure
            return number < 2
        return number != 1 or self.place.get(conjunct.iterated or "") == place

    def _decided_after(self, conjunct: Conjunct, before: int, place: int | None = None) -> bool:
        """By leaving the last place that it mentions for another one, or by the end; perhaps with fewer events there
        than it reads by number."""
        last, after = self._ready(conjunct)
        if before > last or (place is not None and place <= last):
            return False
        if after:
            return True
        return any(self.place.get(name) == last for name, _ in conjunct.numbered) and not (
            before == last and self._number_read(conjunct, last) == 1
        )

    def _number_read(self, conjunct: Conjunct, place: int) -> int:
        """By which number it reads an event of a closure of one class at a place, the greatest; 0: by none."""
        step = self.steps[place]
        if not isinstance(step, Loop) or step.only is None:
            return 0
        return dict(conjunct.numbered).get(step.only.variable, 0)

    def _check(self, conjunct: Conjunct, variable: str, place: int) -> int:
        """Add a check for a conjunct with an event just taken. It waits for events read by number that may not be there
        yet."""
        waits = tuple(
            Navigated(frozenset((name,)), True, number - 1, 0)
            for name, number in conjunct.numbered
            if self.place.get(name) == place and (name != variable or number > 1)
        )
        each = conjunct.iterated is not None and (conjunct.iterated != variable or bool(waits))
        return self.automaton.check(conjunct, conjunct.iterated, each, waits)

    def _check_whole(self, conjunct: Conjunct) -> int:
        return self.automaton.check(conjunct, conjunct.iterated, conjunct.iterated is not None)

    # ---- negations ---------------------------------------------------------------------------------------------

    def _negations(self) -> dict[int, int]:
        """Numbers of the negations, by the identity of their step."""
        numbers: dict[int, int] = {}
        positives = [place for place, step in enumerate(self.steps) if not isinstance(step, Not)]
        for place, step in enumerate(self.steps):
            where = FIRST if place < positives[0] else LAST if place > positives[-1] else MIDDLE
            for one in nots_in((step,)):
                about = self.about[id(one)]
                key = (*self._way_to(place), "not", id(one), *(id(conjunct) for conjunct in about))
                if key not in self.automaton.shared:
                    negation = self._negation(one, where, about)  # those inside it come before it
                    self.automaton.shared[key] = len(self.automaton.negations)
                    self.automaton.negations.append(negation)
                number = numbers[id(one)] = self.automaton.shared[key]
                self.step_of_negation[number] = id(one)
                if isinstance(step, Loop) and not self._is_known(number, place):
                    # It is looked at in every repetition, with what is known by then.
                    later = {name for name, at in self.place.items() if at >= place}
                    conjunct = next(one for one in about if one.variables & later)
                    message = "A negated event inside a closure is compared with events before the closure only."
                    hint = "Leave the comparison out, or put the negation next to the closure."
                    source = self.automaton.query.source
                    raise source.error(EpisodeUnsupportedError, message, conjunct.scalar.span, hint)
        return numbers

    def _negation(self, step: Not, where: str, about: list[Conjunct]) -> NegationPlan:
        if len(step.every) == 1 and isinstance(step.steps[0], Take):
            variable = step.steps[0].variable
            checks = [self.automaton.check(conjunct, variable, False) for conjunct in about]
            return NegationPlan((variable,), (*checks, *self.automaton.equal()), where)
        key = ("not", len(self.automaton.negations))
        start = _Alternative(self.automaton, step.steps, key, about, frozenset(self.place), step.variables).build()
        return NegationPlan(step.variables, (), where, start)

    def _is_known(self, negation: int, place: int) -> bool:
        """Are all events that its conditions mention known when an event at a place is taken?"""
        for conjunct in self.about[self.step_of_negation[negation]]:
            for name in conjunct.variables & self.place.keys():
                waits = name in self.closed and self._number_read(conjunct, place) != 1
                if self.place[name] > place or (self.place[name] == place and waits):
                    return False
        return True
