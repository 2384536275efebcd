"""What a step without candidates lacks: an event, a place in the window, a value, or that nothing forbids it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sqlglot import exp

from episode.errors import EpisodeError
from episode.lang.events.syntax import (
    Closure,
    EventAggregate,
    EventClass,
    EventColumn,
    EventPattern,
    EventQuery,
    Index,
    Negation,
    Reach,
    Strategy,
    classes_of,
    nodes_of,
)
from episode.lang.spark_expression import write_expression
from episode.lang.syntax import ReturnItem, Scalar
from episode.plan.events.names import is_of_classes
from episode.queries.reasons.event_steps import Step, choosing, of_one_event, own_conditions, parts_of, variables_in
from episode.queries.reasons.event_trials import MOST, Candidates, Trials
from episode.queries.reasons.event_words import Words
from episode.queries.reasons.finding import Finding
from episode.queries.reasons.wording import counted, listed

WIDER = 4
"""How many times longer than WITHIN a match may take to be spoken of as one outside it."""
FURTHER = 20_000
"""Events of the range with which a match may begin, where there is none: reasons are sought for these."""
COMPARISONS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ)


@dataclass(frozen=True)
class Failures:
    """Says what a step lacks. within: in units of time."""

    trials: Trials
    strategy: Strategy
    within: int | None
    words: Words

    # ---- components ------------------------------------------------------------------------------------------

    def component(self, step: Step, before: Candidates | None) -> list[Finding]:
        """No candidate of those before goes on with a component."""
        part = step.part
        assert part is not None
        inner = part.part if isinstance(part, Closure) else part
        stretch = self.stretch(before)
        needed = (part.count or part.minimum) if isinstance(part, Closure) else 1
        qualifying = 0
        reasons: list[Finding] = []
        if is_of_classes(inner):
            for one in classes_of(inner):
                missing, count = self.lacking(step.query, one, stretch, max(needed, 1))
                qualifying += count
                reasons += [] if missing is None else [missing]
            if len(reasons) == len(list(classes_of(inner))):
                return reasons
        if before is None:
            return reasons or [self._nothing(step, stretch)]
        if self.strategy in (Strategy.STRICT, Strategy.PARTITION):
            return [self._not_next(step, before, inner)]
        late = self.outside_window(step.query)
        if late is not None:
            return [late]
        return [self._out_of_order(step, before, qualifying)]

    def stretch(self, before: Candidates | None) -> Trials:
        """The events that a component may have: of the range, or up to a window after it."""
        events = self.trials.events
        if before is None:
            return self.trials
        greatest = None if self.within is None or events.last is None else events.last + self.within
        return self.trials.over(events.asked_at(events.first, greatest))

    def lacking(self, query: EventQuery, one: EventClass, stretch: Trials, needed: int) -> tuple[Finding | None, int]:
        """What there is not of a class, and how many events qualify for it."""
        alone = replace(query, pattern=one, conditions=(), same=(), strategy=Strategy.ANY)
        found = stretch.candidates(alone)
        name, where = one.variable, self._place(stretch)
        called = name if name == one.name else f"{one.name} {name}"
        data: dict[str, object] = {"variable": name, "class": one.name, "events": len(found), "needed": needed}
        if len(found) < needed:
            there = "There is no event" if len(found) == 0 else f"There is only {counted(len(found), False, 'event')}"
            message = f"{there} {called}{where}." if needed == 1 else f"{there} {called}{where}; {needed} are needed."
            return Finding("missing", message, one.span, count=len(found), data=data), 0
        total = found
        for condition in own_conditions(query, name):
            conditions = (*alone.conditions, of_one_event(condition))
            narrowed = stretch.candidates(replace(alone, conditions=conditions))
            if len(narrowed) < needed and not narrowed.more:
                values, row = self._nearest(stretch, alone, of_one_event(condition))
                there = f"{'None' if len(narrowed) == 0 else f'Only {len(narrowed)}'} of {_of(total)} {called}{where}"
                near = f"; nearest: {listed(values)} at {self.words.moment(row)}" if values and row is not None else ""
                return Finding(
                    "missing",
                    f"{there} satisfies {condition.original}{near}.",
                    condition.span,
                    at=None if row is None else self.words.time(row),
                    values=values,
                    count=len(total),
                    data={**data, "condition": condition.original, "qualifying": len(narrowed)},
                ), 0
            alone, found = replace(alone, conditions=conditions), narrowed
        known = stretch.candidates(replace(alone, same=query.same)) if query.same else found
        if len(known) < needed and not known.more:
            names = ", ".join(f"[{'.'.join(attribute.path)}]" for attribute in query.same)
            message = f"{names} is null in the events {called}{where}, and null is equal to nothing."
            return Finding("condition", message, query.same[0].span, count=len(found), data=data), 0
        return None, len(found)

    def numbers(self, query: EventQuery, one: EventClass, stretch: Trials) -> tuple[int, int, str]:
        """How many events are of a class, how many of them qualify by themselves, and both in words."""
        alone = replace(query, pattern=one, conditions=(), same=(), strategy=Strategy.ANY)
        found = stretch.candidates(alone)
        own = own_conditions(query, one.variable)
        if not own:
            return len(found), len(found), _of(found)
        narrowed = stretch.candidates(replace(alone, conditions=tuple(map(of_one_event, own))))
        satisfy = f"{'at least ' if narrowed.more else ''}{len(narrowed):,} by their own conditions"
        return len(found), len(narrowed), f"{_of(found)}, {satisfy}"

    def _nothing(self, step: Step, stretch: Trials) -> Finding:
        assert step.part is not None
        written = self.words.written(step.part)
        return Finding("missing", f"Nothing matches {written}{self._place(stretch)}.", step.span, count=0)

    def _not_next(self, step: Step, before: Candidates, part: EventPattern) -> Finding:
        """Under the contiguities: the event that comes next is another one."""
        ends = np.maximum.reduceat(before.rows, before.offsets[:-1])
        written = self.words.written(part)
        count, span = len(before), self._strategy_span(step)
        data: dict[str, object] = {"strategy": self.strategy.value, "part": written}
        followed = np.flatnonzero(ends + 1 < len(self.trials.events.end))
        if len(followed) == 0:
            message = f"No event follows {self.words.candidate(before.events(0))}: {written} would have to be next."
            return Finding("end of events", message, span, count=count, data=data)
        row = int(ends[followed[0]]) + 1
        names = [one.variable for one in classes_of(part)]
        values = self.words.values(names[0], row) if names else {}
        message = (
            f"{self.strategy.value}: after {self.words.candidate(before.events(int(followed[0])))} the next event, at "
            f"{self.words.moment(row)} ({listed(values)}), is not {written}"
            f"{'' if count == 1 else f'; so it is after all {_of_candidates(before)}'}."
        )
        return Finding("contiguity", message, span, self.words.time(row), values, count, data)

    def _out_of_order(self, step: Step, before: Candidates, qualifying: int) -> Finding:
        assert step.part is not None
        written = self.words.written(step.part)
        first = int(np.argmin(before.end))
        there = f"{qualifying:,} of them qualify by themselves, but none" if qualifying else "None"
        message = (
            f"No {written} follows: {there} begins after the end of what comes before it in the pattern, first at "
            f"{self.words.candidate(before.events(first))}{self._in_window}."
        )
        data: dict[str, object] = {"part": written, "qualifying": qualifying}
        return Finding("order", message, step.span, count=len(before), data=data)

    @property
    def _in_window(self) -> str:
        return "" if self.within is None else f" and within {self.words.length(self.within)}"

    def _place(self, stretch: Trials) -> str:
        events = stretch.events
        inside = np.flatnonzero(events.in_range)
        if events.first is None and events.last is None:
            return ""
        if len(inside) == 0:
            return " in the range that was asked for"
        return f" between {self.words.moment(int(inside[0]))} and {self.words.moment(int(inside[-1]))}"

    def _strategy_span(self, step: Step) -> Any:
        span = self.words.query.strategy_span
        return span if span.end > span.start else step.span

    # ---- the window ------------------------------------------------------------------------------------------

    def outside_window(self, query: EventQuery, whole: bool = False) -> Finding | None:
        """The shortest candidate that takes longer than the window. whole: of the whole query."""
        if query.within is None or self.within is None or query.within.parameter is not None:
            return None
        wider = replace(query, within=replace(query.within, amount=query.within.amount * WIDER))
        try:
            found = self.trials.candidates(wider)
        except EpisodeError:
            return None
        if len(found) == 0:
            return None
        shortest = int(np.argmin(found.end - found.start))
        took = int(found.end[shortest] - found.start[shortest])
        if took <= self.within:
            return None
        excess = self.words.length(took - self.within)
        what = "Found" if whole else "As far as this, found"
        message = f"{what}, but outside WITHIN by {excess}: {self.words.candidate(found.events(shortest))}."
        span = query.within.span
        data: dict[str, object] = {"duration": took, "within": self.within, "excess": took - self.within}
        return Finding("window", message, span, count=len(found), data=data)

    # ---- conditions ------------------------------------------------------------------------------------------

    def condition(self, step: Step, before: Candidates, query: EventQuery) -> list[Finding]:
        """A condition that no candidate satisfies. query: without it."""
        condition = step.condition
        assert condition is not None
        values, row, events = self._nearest_events(self.trials, query, condition)
        near = ""
        if events:
            near = f"; nearest: {listed(values)} for {self.words.candidate(events)}" if values else ""
        message = f"{condition.original} is true for none of {_of_candidates(before)}{near}."
        at = None if row is None else self.words.time(row)
        data: dict[str, object] = {"before": len(before), "at_least": before.more, "after": 0}
        return [Finding("condition", message, condition.span, at, values, len(before), data)]

    def _nearest(self, trials: Trials, query: EventQuery, condition: Scalar) -> tuple[dict[str, object], int | None]:
        values, row, _ = self._nearest_events(trials, query, condition)
        return values, row

    def _nearest_events(
        self, trials: Trials, query: EventQuery, condition: Scalar
    ) -> tuple[dict[str, object], int | None, dict[str, list[int]]]:
        """The candidate of a query that comes closest to a condition: the values that it reads, its last row, and its
        events."""
        sides, atoms = _sides(condition), _atoms(self.words, query, condition)
        for items in ((*sides, *atoms), atoms, ()):
            try:
                found = trials.candidates(replace(query, returns=tuple(items)))
                break
            except EpisodeError:
                continue
        else:
            return {}, None, {}
        if len(found) == 0:
            return {}, None, {}
        number = 0
        if found.values is not None and len(items) > len(atoms):
            number = _closest(found.values.column(0), found.values.column(1))
        values: dict[str, object] = {}
        if found.values is not None:
            values = {item.name: found.values.column(item.name)[number].as_py() for item in atoms}
        events = found.events(number)
        names = variables_in(condition)
        rows = [row for name, some in events.items() for row in some if name.lower() in names]
        return values, max(rows, default=max(found.rows_of(number))), events

    # ---- groups and negations --------------------------------------------------------------------------------

    def group(self, step: Step, before: Candidates) -> list[Finding]:
        """No candidate has enough events for a group."""
        assert isinstance(step.part, Closure)
        needed = step.part.count or step.part.minimum
        lacking = [self.lacking(step.query, one, self.stretch(before), 1)[0] for one in classes_of(step.part)]
        reasons = [one for one in lacking if one is not None]
        if reasons and len(reasons) == len(lacking):
            return reasons
        written = self.words.written(step.part)
        message = (
            f"None of {_of_candidates(before)} has {counted(needed, False, 'event')} for {written} in its place, for "
            f"example {self.words.candidate(before.events(0))}."
        )
        return [Finding("gap", message, step.span, count=len(before), data={"needed": needed, "part": written})]

    def negation(self, step: Step, before: Candidates) -> list[Finding]:
        """Every candidate has an event that a negation forbids."""
        assert isinstance(step.part, Negation)
        written = self.words.written(step.part)
        number = int(np.argmin(before.end - before.start))
        base = f"{written} forbids {'the only candidate' if len(before) == 1 else f'all {_of_candidates(before)}'}"
        candidate = self.words.candidate(before.events(number))
        forbidding = self._forbidding(step, before.rows_of(number), before, number)
        if not forbidding:
            message = f"{base}, for example {candidate}."
            return [Finding("negated", message, step.span, count=len(before))]
        row = max(row for rows in forbidding.values() for row in rows)
        (name, *_), values = forbidding, dict[str, object]()
        for one, rows in forbidding.items():
            values |= {f"{one}.{column}": value for column, value in self.words.values(one, rows[0]).items()}
        message = f"{base}: {self.words.candidate(forbidding)} forbids {candidate}."
        data: dict[str, object] = {
            "variable": name,
            "times": {one: [self.words.time(row) for row in rows] for one, rows in forbidding.items()},
            "rows": sorted(row for rows in forbidding.values() for row in rows),
        }
        return [Finding("negated", message, step.span, self.words.time(row), values, len(before), data)]

    def _forbidding(self, step: Step, pinned: frozenset[int], before: Candidates, number: int) -> dict[str, list[int]]:
        """The events that a negation finds beside those of a candidate: it is matched as if it were not negated."""
        assert isinstance(step.part, Negation)
        rows = set(pinned)
        query = replace(step.query, strategy=Strategy.ANY)
        negated = list(classes_of(step.part))
        events = self.trials.events
        reach = self.within
        least = None if reach is None else int(before.end[number]) - reach
        greatest = None if reach is None else int(before.start[number]) + reach
        around = self.trials.over(events.asked_at(least, greatest))
        for one in negated:
            alone = replace(
                query, pattern=one, conditions=tuple(map(of_one_event, own_conditions(query, one.variable)))
            )
            rows |= set(around.candidates(alone).rows.tolist())
        order = np.array(sorted(rows), np.int64)
        few = self.trials.over(events.at(order).asked_at(None, None))
        for negation in (node for node in nodes_of(query.pattern) if isinstance(node, Negation)):
            if negation is not step.part and not self._is_inside(step.part, query.pattern):
                continue
            names = {one.variable for one in classes_of(negation)}
            try:
                found = few.candidates(replace(query, pattern=_positive(query.pattern, negation)))
            except EpisodeError:
                continue
            best: tuple[int, Mapping[str, list[int]]] | None = None
            for which in range(min(len(found), MOST)):
                mine = found.events(which)
                others = {int(order[row]) for name, some in mine.items() if name not in names for row in some}
                distance = len(others ^ pinned)
                if best is None or distance < best[0]:
                    best = distance, mine
                if distance == 0:
                    break
            if best is not None:
                return {name: [int(order[row]) for row in some] for name, some in best[1].items() if name in names}
        return {}

    def _is_inside(self, negation: Negation, pattern: EventPattern) -> bool:
        """Does a negation stand inside a component, where several of them are added at once?"""
        return not any(part is negation for part in parts_of(pattern))


def _positive(pattern: EventPattern, negation: Negation) -> EventPattern:
    """The pattern with one negation as something that is there, and closures that choose their events."""
    if pattern is negation:
        return choosing(negation.part)
    if isinstance(pattern, EventClass):
        return pattern
    if isinstance(pattern, (Negation, Closure)):
        return replace(pattern, part=_positive(pattern.part, negation))
    return replace(pattern, parts=tuple(_positive(part, negation) for part in pattern.parts))


def _sides(condition: Scalar) -> tuple[ReturnItem, ...]:
    """The two sides of a comparison of numbers, as columns of the output."""
    tree = condition.tree
    if not isinstance(tree, COMPARISONS):
        return ()
    items = []
    for number, side in enumerate((tree.this, tree.expression)):
        text = write_expression(side)
        atoms = tuple((name, atom) for name, atom in condition.atoms if name in text)
        items.append(ReturnItem(Scalar(text, side, atoms, text, condition.span), f"__side_{number}", condition.span))
    return tuple(items)


def _atoms(words: Words, query: EventQuery, condition: Scalar) -> tuple[ReturnItem, ...]:
    """What a condition reads, each as a column of the output; of each event of a closure, those of all."""
    closed = {
        one.variable.lower()
        for node in nodes_of(query.pattern)
        if isinstance(node, Closure)
        for one in classes_of(node)
    }
    items: dict[str, ReturnItem] = {}
    for placeholder, atom in condition.atoms:
        if isinstance(atom, EventColumn) and atom.variable.lower() in closed and atom.index is not Index.AT:
            atom = atom if atom.index is Index.LAST else replace(atom, index=Index.ALL, number=0)
            name = f"{atom.variable}[{'last' if atom.index is Index.LAST else ''}].{'.'.join(atom.path)}"
        elif isinstance(atom, EventAggregate):
            atom = replace(atom, reach=Reach.ALL)
            name = words.query.source.written(atom.span) or f"{atom.function}({atom.variable})"
        elif isinstance(atom, EventColumn):
            name = words.query.source.written(atom.span) or f"{atom.variable}.{'.'.join(atom.path)}"
        else:
            continue
        tree = exp.column(placeholder)
        items.setdefault(name, ReturnItem(Scalar(placeholder, tree, ((placeholder, atom),), name), name, atom.span))
    return tuple(items.values())


def _closest(left: Any, right: Any) -> int:
    """Where two columns of numbers differ least; else the first place."""
    try:
        one, other = (np.asarray(side.cast("double").to_numpy(zero_copy_only=False), float) for side in (left, right))
    except Exception:  # noqa: BLE001 - texts, arrays: nothing is nearer than something else
        return 0
    distance = np.abs(one - other)
    return 0 if np.isnan(distance).all() else int(np.nanargmin(distance))


def _of(found: Candidates) -> str:
    return counted(len(found), found.more, "event")


def _of_candidates(found: Candidates) -> str:
    return counted(len(found), found.more, "candidate")
