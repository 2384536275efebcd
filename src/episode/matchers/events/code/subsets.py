"""Result construction: the final matches of intermediate ones, after SASE++ (SIGMOD 2014, section 5.1).

An intermediate match has, for each variable, the rows that a match may take for it, in order: one for a single event,
all candidates for a closure. The transitions of an automaton are followed over these rows alone, depth first, without
recursion. Conditions are tested as soon as they are decided, so that a prefix that fails cuts its whole branch. If a
condition on a closure can no longer hold, whatever is chosen of the remaining events (`bounds`), the branch is cut
before that; if it must hold, it is not tested. When the output is full the code returns, and continues there with the
next call.
"""

from __future__ import annotations

from dataclasses import dataclass

from episode.matchers.code.expressions import CodeConstants
from episode.matchers.code.searching import window_end
from episode.matchers.events.code.arrays import BUDGET, TYPES, WINDOW
from episode.matchers.events.code.between import FINE, FULL, KeptVariables, scanning
from episode.matchers.events.code.bounds import TYPES as BOUND_TYPES
from episode.matchers.events.code.bounds import BoundCode, BoundsShape
from episode.matchers.events.code.checks import Checks, PathShape
from episode.matchers.events.code.negations import NOT_THERE, Negations
from episode.matchers.events.code.runs import BUDGET_SPENT, put_match
from episode.matchers.times import NEVER
from episode.native.builder import ArrayTypes, Program, Scope, entry_scope, subroutine
from episode.native.ir import BOOL, I64, Operand, Value, Variable

NOT_BEGUN = -2
MATCH, ALTERNATIVE, DEPTH, STEPS, FOUND = range(5)
"""Places of `kept`: the intermediate match and the alternative at work, the depth (NOT_BEGUN) and the steps since the
last match; and how many matches a call found."""
_TYPES: ArrayTypes = {**TYPES, **BOUND_TYPES, "high": (I64, False), "stop": (I64, False)}
"""Intermediate match i may take the rows members[low[i, v]:high[i, v]] for variable v, and has first[i]:stop[i], the
rows of its partition, around it. tops: by variable, the end of its candidates that the rest of the match can follow."""


@dataclass(frozen=True)
class SubsetsShape:
    """The parts that are compiled in. lasting: do events begin before they end?"""

    path_shape: PathShape
    bounds: BoundsShape
    lasting: bool


def subsets_program(shape: SubsetsShape) -> tuple[Program, CodeConstants]:
    """Final matches of intermediate ones, as far as there is room, in at most BUDGET steps without a match."""
    s = entry_scope("subsets", _TYPES)
    walk = _Walk(shape, s)
    walk.emit()
    return s.program, walk.checks.constants


class _BoundedChecks(Checks):
    """Checks that are not tested if they are known to hold."""

    def __init__(self, path_shape: PathShape) -> None:
        super().__init__(path_shape)
        self.bounds: BoundCode | None = None
        self.is_taking = False

    def fit(self, s: Scope, transition: Value, depth: Value) -> Value:
        self.is_taking = True
        fits = super().fit(s, transition, depth)
        self.is_taking = False
        return fits

    def holds(self, s: Scope, number: int, depth: Value) -> Value:
        assert self.bounds is not None
        known = self.bounds.is_decided(s, number)
        safe = self.bounds.is_safe(s, number, s.at_member[depth]) if self.is_taking else None
        if safe is not None:
            known = safe if known is None else known | safe
        if known is None:
            return super().holds(s, number, depth)
        holds = s.f.variable("holds", True)
        with s.f.when(~known):
            holds.set(super().holds(s, number, depth))
        return holds.value


class _Walk:
    """Emits the walk through the choices of intermediate matches."""

    def __init__(self, shape: SubsetsShape, s: Scope) -> None:
        self.shape, self.automaton, self.s = shape, shape.path_shape.automaton, s
        self.checks = _BoundedChecks(shape.path_shape)
        self.bounds = self.checks.bounds = BoundCode(shape.bounds, self.checks)
        self.negations = Negations(self.checks)
        self.variables = len(shape.path_shape.variables)
        self.kept = KeptVariables(s, "match alternative depth steps found")

    def emit(self) -> None:
        s, f, kept = self.s, self.s.f, self.kept
        kept.found.set(0)
        s.offsets[0] = 0
        with f.during(lambda: kept.match < s.first.length):
            self.root = self._root()
            with f.when(kept.depth.equals(NOT_BEGUN)):
                kept.steps.set(0)
                with f.when(self._begin(s, kept.match, kept.alternative)):
                    kept.depth.set(-1)
                    s.next_option[0] = s.state_from[self.root]
                    s.next_member[0] = -1
            with f.during(lambda: kept.depth.differs(NOT_BEGUN)):
                full = (kept.found + 2 > s.offsets.length) | (
                    s.offsets[kept.found] + kept.depth + 2 > s.out_rows.length
                )
                with f.when(full):
                    kept.leave(FULL)
                self._walk_on()
            kept.alternative.set(kept.alternative + 1)
            with f.when(kept.alternative.equals(len(self.automaton.starts))):
                kept.alternative.set(0)
                kept.match.set(kept.match + 1)
        kept.leave(FINE)

    def _root(self) -> Value:
        """The first state of the alternative at work."""
        f = self.s.f
        first, *others = self.automaton.starts
        root = f.value(first)
        for number, other in enumerate(others, 1):
            root = f.select(self.kept.alternative.equals(number), other, root)
        return root

    # ---- an intermediate match begins ------------------------------------------------------------------------------

    @subroutine(BOOL)
    def _begin(self, s: Scope, match: Value, alternative: Value) -> Operand:
        """Drop candidates that no match can have. Returns whether an alternative can have a match at all."""
        f = s.f
        for number in range(len(self.automaton.starts)):
            with f.when(alternative.equals(number)):
                f.give_if(~self._trim(number, s, match), False)
                f.give(self.bounds.begin(number, s, match) if self.shape.bounds.bounds else True)
        return False

    @subroutine(BOOL)
    def _trim(self, number: int, s: Scope, match: Value) -> Operand:
        """Drop candidates that nothing can follow. Returns False if the alternative has no match.

        An event must end before the next one: at the latest before the last one that can be taken there.
        """
        f = s.f
        for variable in range(self.variables):
            s.tops[variable] = s.high[match * self.variables + variable]
        latest, is_last = f.variable("latest", 0), f.variable("is_last", True)
        for variable, needed in reversed(self.shape.bounds.places[number]):
            low, top = s.low[match * self.variables + variable], f.variable("top", s.tops[variable])
            with f.when(~is_last):
                self._drop_late(s, low, top, latest.value)
            s.tops[variable] = top
            with f.either(top > low) as otherwise:
                begins = self._last_start(s, low, top.value)
                kept = begins if needed else f.select(is_last, begins, f.greatest(latest, begins))
                latest.set(kept)
                is_last.set(False)
                otherwise()
                if needed:
                    f.give(False)
        return True

    def _drop_late(self, s: Scope, low: Value, top: Variable, latest: Value) -> None:
        """Drop candidates, from the last one on, that end too late."""

        def ends_late(now: Value) -> Value:
            return s.end[s.members[now - 1].to(I64)] >= latest

        with scanning(s.f, top, lambda now: now > low, ends_late, step=-1):
            pass

    def _last_start(self, s: Scope, low: Value, top: Value) -> Value:
        """The latest start of candidates, which are in the order of their ends."""
        f = s.f
        last = f.variable("last", s.start[s.members[top - 1].to(I64)])
        if self.shape.lasting:
            with f.loop(low, top) as member:
                last.set(f.greatest(last, s.start[s.members[member].to(I64)]))
        return last.value

    # ---- the next event --------------------------------------------------------------------------------------------

    def _walk_on(self) -> None:
        """Take the next event, or drop the last one; emit a match if there is one."""
        s, f, kept = self.s, self.s.f, self.kept
        depth = kept.depth.value
        option, member, pushed = self._find_next(depth)
        s.next_option[depth + 1] = option
        s.next_member[depth + 1] = member + 1
        with f.when(kept.steps > s.settings[BUDGET]):
            kept.leave(BUDGET_SPENT)
        with f.either(pushed) as otherwise:
            self._take(depth + 1, option.value, member.value)
            otherwise()
            with f.either(depth < 0) as deeper:
                kept.depth.set(NOT_BEGUN)
                deeper()
                self.checks.drop(s, kept.depth)

    def _find_next(self, depth: Value) -> tuple[Variable, Variable, Variable]:
        """The transition and the member to be taken next, and whether there is one."""
        s, f = self.s, self.s.f
        last = f.greatest(depth, 0)
        is_first = depth < 0
        state = f.select(is_first, self.root, s.at_state[last])
        before = f.variable("before", NEVER)
        own = f.variable("own", -1)
        with f.when(~is_first):
            before.set(s.end[s.path[last]])
            own.set(s.t_variable[s.trans[last]])
        option, member = f.variable("option", s.next_option[depth + 1]), f.variable("member", s.next_member[depth + 1])
        pushed, end = f.variable("pushed", False), s.state_from[state + 1]
        with scanning(f, option, lambda now: now < end) as (now, found):
            variable = s.t_variable[now]
            low, top = s.low[self.kept.match * self.variables + variable], s.tops[variable]
            with f.when(member < 0):
                self.bounds.reopen(s, variable, depth)
                member.set(f.select(variable.equals(own), s.at_member[last] + 1, low))
            self._skip(variable, member, top, is_first, before.value)
            with f.when(member < top):
                with f.when(self.bounds.may_hold(s, variable, member - low, top - member, depth)):
                    pushed.set(True)
                    f.jump(found)
            member.set(-1)
        return option, member, pushed

    def _skip(self, variable: Value, member: Variable, top: Value, is_first: Value, before: Value) -> None:
        """Move to the first member that may come next."""
        s, f = self.s, self.s.f
        with scanning(f, member, lambda now: now < top) as (now, done):
            self.kept.steps.set(self.kept.steps + 1)
            fits = is_first | (s.start[s.members[now].to(I64)] > before)
            if self.bounds.is_marked:
                fits = fits & (s.taken[variable] < s.doom[now])
            f.jump_if(fits, done)

    # ---- take it ---------------------------------------------------------------------------------------------------

    def _take(self, depth: Value, transition: Value, member: Value) -> None:
        s, f, kept = self.s, self.s.f, self.kept
        row, variable, target = s.members[member].to(I64), s.t_variable[transition], s.t_target[transition]
        kept.depth.set(depth)
        s.at_member[depth], s.at_state[depth] = member, target
        with f.when(s.taken[variable].equals(0)):
            s.first_depth[variable] = depth
        self.checks.take(s, depth, row, transition, variable)
        s.next_option[depth + 1] = s.state_from[target]
        s.next_member[depth + 1] = -1
        fits = f.variable("fits", self.checks.fit(s, transition, depth))
        if self.negations.are_crossed:
            with f.when(fits & (depth > 0)):
                fits.set(~self.negations.is_crossed(s, transition, depth))
        with f.either(fits) as otherwise:
            with f.when(self.checks.is_accepting(s, target)):
                self._accept(depth, target)
            otherwise()
            self.checks.drop(s, kept.depth)

    def _accept(self, depth: Value, state: Value) -> None:
        s, f, kept = self.s, self.s.f, self.kept
        complete = f.variable("complete", self.checks.are_complete(s, state, depth))
        if any(self.automaton.late):
            with f.when(complete):
                newest = window_end(f, s.start[s.path[0]], s.settings[WINDOW])
                match = kept.match.value
                late = self.negations.late(s, state, depth, s.first[match], s.stop[match], newest)
                complete.set(late.equals(NOT_THERE))
        with f.when(complete):
            put_match(s, kept.found, depth)
            kept.found.set(kept.found + 1)
            kept.steps.set(0)
