"""Reasons that a step of an event pattern has no candidates: a missing event, the window, a condition, a negation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
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
from episode.plan.events.alternatives import is_of_classes
from episode.see.reasons.event_steps import (
    EventStep,
    change_parts,
    on_single_event,
    own_conditions,
    parts_of,
    variables_in,
    with_choice,
)
from episode.see.reasons.event_trials import EventCandidates, EventTrials, EventWords
from episode.see.reasons.finding import Finding, at_least, list_values
from episode.see.reasons.trials import COMPARISONS, Failures, TimeRange, nearest_row
from episode.words import count_of


@dataclass(frozen=True)
class EventFailures(Failures[EventTrials, EventWords]):
    """Findings on a step of an event pattern that has no candidates."""

    strategy: Strategy

    def component(self, step: EventStep, before: EventCandidates | None) -> list[Finding]:
        """Report why no candidate of the step before continues with a component."""
        part = step.part
        assert part is not None
        inner = part.part if isinstance(part, Closure) else part
        stretch = self.stretch(before)
        needed = (part.count or part.minimum) if isinstance(part, Closure) else 1
        qualifying = 0
        reasons: list[Finding] = []
        if is_of_classes(inner):
            for one in classes_of(inner):
                missing, number = self.missing_event(step.query, one, stretch, max(needed, 1))
                qualifying += number
                reasons += [] if missing is None else [missing]
            if len(reasons) == len(list(classes_of(inner))):
                return reasons
        if before is None:
            nothing = f"Nothing matches {self.words.step(step)}{self._place(stretch)}."
            return reasons or [Finding("missing", nothing, step.span, count=0)]
        if self.strategy in (Strategy.STRICT, Strategy.PARTITION):
            return [self._not_next(step, before, inner)]
        late = self.outside_window(step.query)
        if late is not None:
            return [late]
        return [self._out_of_order(step, before, qualifying)]

    def stretch(self, before: EventCandidates | None) -> EventTrials:
        """Search the events that a component may have: of the range, or up to a window after it."""
        place = self.trials.range
        if before is None:
            return self.trials
        return self.trials.at(place.first, place.wider(self.within).last)

    def missing_event(
        self, query: EventQuery, one: EventClass, stretch: EventTrials, needed: int
    ) -> tuple[Finding | None, int]:
        """Report that a class has too few events, and count those that qualify for it."""
        alone = replace(query, pattern=one, conditions=(), same=(), strategy=Strategy.ANY)
        found = stretch.candidates(alone)
        name, where = one.variable, self._place(stretch)
        called = name if name == one.name else f"{one.name} {name}"
        data: dict[str, object] = {"variable": name, "class": one.name, "events": len(found), "needed": needed}
        if len(found) < needed:
            there = "There is no event" if len(found) == 0 else f"There is only {count_of(len(found), 'event')}"
            message = f"{there} {called}{where}." if needed == 1 else f"{there} {called}{where}; {needed} are needed."
            return Finding("missing", message, one.span, count=len(found), data=data), 0
        total = found
        for condition in own_conditions(query, name):
            conditions = (*alone.conditions, on_single_event(condition))
            narrowed = stretch.candidates(replace(alone, conditions=conditions))
            if len(narrowed) < needed and not narrowed.more:
                values, row, _ = self._nearest_events(stretch, alone, on_single_event(condition))
                there = "None" if len(narrowed) == 0 else f"Only {len(narrowed)}"
                near = ""
                if values and row is not None:
                    near = f"; nearest: {list_values(values)} at {self.words.moment(row)}"
                message = f"{there} of {total.count('event')} {called}{where} satisfies {condition.original}{near}."
                data |= {"condition": condition.original, "qualifying": len(narrowed)}
                at = None if row is None else self.words.time(row)
                return Finding("missing", message, condition.span, at, values, len(total), data), 0
            alone, found = replace(alone, conditions=conditions), narrowed
        known = stretch.candidates(replace(alone, same=query.same)) if query.same else found
        if len(known) < needed and not known.more:
            names = ", ".join(f"[{'.'.join(attribute.path)}]" for attribute in query.same)
            message = f"{names} is null in the events {called}{where}, and null is equal to nothing."
            return Finding("condition", message, query.same[0].span, count=len(found), data=data), 0
        return None, len(found)

    def numbers(self, query: EventQuery, one: EventClass, stretch: EventTrials) -> tuple[int, int, str]:
        """Count the events of a class, and those that qualify by themselves; both numbers also in words."""
        alone = replace(query, pattern=one, conditions=(), same=(), strategy=Strategy.ANY)
        found = stretch.candidates(alone)
        own = own_conditions(query, one.variable)
        if not own:
            return len(found), len(found), found.count("event")
        narrowed = stretch.candidates(replace(alone, conditions=tuple(map(on_single_event, own))))
        satisfy = f"{at_least(len(narrowed), narrowed.more)} by their own conditions"
        return len(found), len(narrowed), f"{found.count('event')}, {satisfy}"

    def _not_next(self, step: EventStep, before: EventCandidates, part: EventPattern) -> Finding:
        """Report under the contiguities that the next event is another one."""
        ends = np.maximum.reduceat(before.rows, before.offsets[:-1])
        written = self.words.text_of(part)
        total, span = len(before), self.words.query.strategy_span
        if span.end <= span.start:
            span = step.span
        data: dict[str, object] = {"strategy": self.strategy.value, "part": written}
        followed = np.flatnonzero(ends + 1 < len(self.trials.events.end))
        if len(followed) == 0:
            message = f"No event follows {self.words.candidate(before.events(0))}: {written} would have to be next."
            return Finding("end of events", message, span, count=total, data=data)
        row = int(ends[followed[0]]) + 1
        names = [one.variable for one in classes_of(part)]
        values = self.words.values(names[0], row) if names else {}
        others = "" if total == 1 else f"; so it is after all {before.count('candidate')}"
        message = (
            f"{self.strategy.value}: after {self.words.candidate(before.events(int(followed[0])))} the next event, at "
            f"{self.words.moment(row)} ({list_values(values)}), is not {written}{others}."
        )
        return Finding("contiguity", message, span, self.words.time(row), values, total, data)

    def _out_of_order(self, step: EventStep, before: EventCandidates, qualifying: int) -> Finding:
        written, first = self.words.step(step), int(np.argmin(before.end))
        within = "" if self.within is None else f" and within {self.words.length(self.within)}"
        there = f"{qualifying:,} of them qualify by themselves, but none" if qualifying else "None"
        message = (
            f"No {written} follows: {there} begins after the end of what comes before it in the pattern, first at "
            f"{self.words.candidate(before.events(first))}{within}."
        )
        data: dict[str, object] = {"part": written, "qualifying": qualifying}
        return Finding("order", message, step.span, count=len(before), data=data)

    def _place(self, stretch: EventTrials) -> str:
        inside = np.flatnonzero(stretch.in_range)
        if stretch.range == TimeRange():
            return ""
        if len(inside) == 0:
            return " in the range that was asked for"
        return f" between {self.words.moment(int(inside[0]))} and {self.words.moment(int(inside[-1]))}"

    def outside_window(self, query: EventQuery, whole: bool = False) -> Finding | None:
        """Report the shortest candidate that takes longer than the window. whole: of the whole query."""
        opening = "Found" if whole else "As far as this, found"
        late = self.late_candidate(
            query, self.trials.candidates, opening, lambda found, n: self.words.candidate(found.events(n))
        )
        return None if late is None else late[0]

    def condition(self, step: EventStep, before: EventCandidates, query: EventQuery) -> list[Finding]:
        """Report a condition that no candidate satisfies. query: without the condition."""
        condition = step.condition
        assert condition is not None
        values, row, events = self._nearest_events(self.trials, query, condition)
        near = f"; nearest: {list_values(values)} for {self.words.candidate(events)}" if values and events else ""
        message = f"{condition.original} is true for none of {before.count('candidate')}{near}."
        at = None if row is None else self.words.time(row)
        data: dict[str, object] = {"before": len(before), "at_least": before.more, "after": 0}
        return [Finding("condition", message, condition.span, at, values, len(before), data)]

    def _nearest_events(
        self, trials: EventTrials, query: EventQuery, condition: Scalar
    ) -> tuple[dict[str, object], int | None, dict[str, list[int]]]:
        """Find the candidate closest to a condition: the values that the condition reads, its last row, its events."""
        sides, atoms = _sides_of(condition), _atoms_of(self.words, query, condition)
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
        number, values = 0, dict[str, object]()
        if found.values is not None:
            number = _closest(found.values) if len(items) > len(atoms) else 0
            values = {item.name: found.values.column(item.name)[number].as_py() for item in atoms}
        events = found.events(number)
        names = variables_in(condition)
        rows = [row for name, some in events.items() for row in some if name.lower() in names]
        return values, max(rows, default=max(found.rows_of(number))), events

    def group(self, step: EventStep, before: EventCandidates) -> list[Finding]:
        """Report that no candidate has enough events for a group."""
        assert isinstance(step.part, Closure)
        needed = step.part.count or step.part.minimum
        missing = [self.missing_event(step.query, one, self.stretch(before), 1)[0] for one in classes_of(step.part)]
        reasons = [one for one in missing if one is not None]
        if reasons and len(reasons) == len(missing):
            return reasons
        written = self.words.text_of(step.part)
        message = (
            f"None of {before.count('candidate')} has {count_of(needed, 'event')} for {written} in its place, for "
            f"example {self.words.candidate(before.events(0))}."
        )
        return [Finding("gap", message, step.span, count=len(before), data={"needed": needed, "part": written})]

    def negation(self, step: EventStep, before: EventCandidates) -> list[Finding]:
        """Report that every candidate has an event that a negation forbids."""
        assert isinstance(step.part, Negation)
        written = self.words.text_of(step.part)
        number = int(np.argmin(before.end - before.start))
        all_ = "the only candidate" if len(before) == 1 else f"all {before.count('candidate')}"
        base = f"{written} forbids {all_}"
        candidate = self.words.candidate(before.events(number))
        forbidden = self._forbidden_events(step, before.rows_of(number), before, number)
        if not forbidden:
            message = f"{base}, for example {candidate}."
            return [Finding("negated", message, step.span, count=len(before))]
        row = max(row for rows in forbidden.values() for row in rows)
        (name, *_), values = forbidden, dict[str, object]()
        for one, rows in forbidden.items():
            values |= {f"{one}.{column}": value for column, value in self.words.values(one, rows[0]).items()}
        message = f"{base}: {self.words.candidate(forbidden)} forbids {candidate}."
        data: dict[str, object] = {
            "variable": name,
            "times": {one: [self.words.time(row) for row in rows] for one, rows in forbidden.items()},
            "rows": sorted(row for rows in forbidden.values() for row in rows),
        }
        return [Finding("negated", message, step.span, self.words.time(row), values, len(before), data)]

    def _forbidden_events(
        self, step: EventStep, pinned: frozenset[int], before: EventCandidates, number: int
    ) -> dict[str, list[int]]:
        """Return the events that a negation finds next to those of a candidate, matched as if it were not one."""
        assert isinstance(step.part, Negation)
        rows, query = set(pinned), replace(step.query, strategy=Strategy.ANY)
        reach = TimeRange(int(before.end[number]), int(before.start[number])).wider(self.within)
        around = self.trials.at(reach.first, reach.last)
        for one in classes_of(step.part):
            own = tuple(map(on_single_event, own_conditions(query, one.variable)))
            rows |= set(around.candidates(replace(query, pattern=one, conditions=own)).rows.tolist())
        order = np.array(sorted(rows), np.int64)
        few = replace(self.trials, events=self.trials.events.take(order), range=TimeRange())
        # a component: several are added at once
        inside = not any(part is step.part for part in parts_of(query.pattern))
        for negation in (node for node in nodes_of(query.pattern) if isinstance(node, Negation)):
            if negation is not step.part and not inside:
                continue
            names = {one.variable for one in classes_of(negation)}
            try:
                found = few.candidates(replace(query, pattern=_with_negated_events(query.pattern, negation)))
            except EpisodeError:
                continue
            if len(found):
                each = [
                    {name: order[rows].tolist() for name, rows in found.events(n).items()} for n in range(len(found))
                ]

                def distance(events: dict[str, list[int]], names: set[str] = names) -> int:
                    others = {row for name, rows in events.items() if name not in names for row in rows}
                    return len(others ^ pinned)

                return {name: rows for name, rows in min(each, key=distance).items() if name in names}
        return {}


def _with_negated_events(pattern: EventPattern, negation: Negation) -> EventPattern:
    """Turn one negation into a part that must be there, with closures that choose their events."""
    if pattern is negation:
        return with_choice(negation.part)
    return change_parts(pattern, lambda part: _with_negated_events(part, negation))


def _sides_of(condition: Scalar) -> tuple[ReturnItem, ...]:
    """Return the two sides of a comparison, as columns of the output."""
    tree = condition.tree
    if not isinstance(tree, COMPARISONS):
        return ()
    items = []
    for number, side in enumerate((tree.this, tree.expression)):
        text = write_expression(side)
        atoms = tuple((name, atom) for name, atom in condition.atoms if name in text)
        items.append(ReturnItem(Scalar(text, side, atoms, text, condition.span), f"__side_{number}", condition.span))
    return tuple(items)


def _atoms_of(words: EventWords, query: EventQuery, condition: Scalar) -> tuple[ReturnItem, ...]:
    """Return the values that a condition reads, as columns of the output; for each event of a closure, those of all."""
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
            name = words.query.source.text_at(atom.span) or f"{atom.function}({atom.variable})"
        elif isinstance(atom, EventColumn):
            name = words.query.source.text_at(atom.span) or f"{atom.variable}.{'.'.join(atom.path)}"
        else:
            continue
        tree = exp.column(placeholder)
        items.setdefault(name, ReturnItem(Scalar(placeholder, tree, ((placeholder, atom),), name), name, atom.span))
    return tuple(items.values())


def _closest(values: pa.Table) -> int:
    """Return the row in which the first two columns differ least; the first row if they are not numbers."""
    try:
        one, other = (np.asarray(values.column(n).cast("double").to_numpy(zero_copy_only=False), float) for n in (0, 1))
    except Exception:  # noqa: BLE001 - texts, arrays: nothing is nearer than something else
        return 0
    return nearest_row(one, other, values.num_rows) or 0
