"""Findings of row patterns in words: attempts that came to the same end are said once, the farthest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo

from episode.lang.lexer import tokenize
from episode.lang.rows.syntax import MatchMode, MatchRecognize
from episode.lang.syntax import NOWHERE, Span
from episode.matchers.protocol import EventBatch
from episode.matchers.rows.exploring import AT_END, AT_START, CONDITION, END_OF_ROWS, WINDOW, FailedWay, instructions_of
from episode.matchers.rows.made import RowMatch
from episode.matchers.rows.readings import UNKNOWN, Reading
from episode.plan.rows.plan import RowPatternPlan
from episode.queries.reasons.finding import Asked, Finding
from episode.queries.reasons.row_attempts import Attempt, Outcomes
from episode.queries.reasons.wording import length, shown

MOST_FINDINGS = 8
"""So many different ends of attempts are said."""
MOST_OTHERS = 2
"""Of so many start rows it is said that there are other ways through the pattern than their match."""
CHOICE = {
    MatchMode.PREFERRED: "the pattern's order of preference chose the other one",
    MatchMode.MAXIMAL: "MAXIMAL MATCH reports the longest one",
    MatchMode.INCREMENTAL: "of those that end at a row the preferred one is reported",
    MatchMode.ALL: "of those that end at a row the preferred one is reported",
}


@dataclass(frozen=True)
class RowWords:
    """Speaks of the rows of one key. zone: the time zone that times are shown in. live: may further rows come?"""

    clause: MatchRecognize
    plan: RowPatternPlan
    events: EventBatch
    asked: Asked
    zone: str | None
    live: bool = False

    # ---- rows ----------------------------------------------------------------------------------------

    def time(self, row: int) -> Any:
        """The time of a row; where there is no order, its number from 1 on."""
        if not self.plan.order:
            return row + 1
        value = self.events.table.column(self.plan.order[0].column)[row].as_py()
        if isinstance(value, datetime) and value.tzinfo is not None and self.zone is not None:
            return value.astimezone(ZoneInfo(self.zone))
        return value

    def shown(self, row: int) -> str:
        """A row, by its time."""
        return f"row {row + 1:,}" if not self.plan.order else said(self.time(row))

    def labels(self, instructions: Sequence[int]) -> list[str]:
        return [self.plan.program.instructions[at].label for at in instructions]

    def taken(self, instructions: Sequence[int]) -> str:
        """The labels of rows, with how often each was taken: `STRT DOWN×3`."""
        runs = [(label, len(list(run))) for label, run in groupby(self.labels(instructions))]
        texts = [label if count == 1 else f"{label}×{count}" for label, count in runs]
        return " ".join(texts if len(texts) <= 24 else [*texts[:12], "…", *texts[-12:]])

    def reach(self, match: RowMatch) -> str:
        """From which row to which a match leads, and its labels."""
        if match.length == 0:
            return f"at {self.shown(match.start)} (empty)"
        last = self.shown(match.start + match.length - 1)
        return f"from {self.shown(match.start)} to {last} ({self.taken(match.instructions)})"

    # ---- no rows -------------------------------------------------------------------------------------

    def no_rows(self) -> Finding:
        key = ", ".join(f"{name} = {said(value)}" for name, value in self.asked.key.items())
        there = f"There are no rows with {key}" if key else "There are no rows"
        return Finding("no rows", f"{there} up to the asked place." if self.asked.last is not None else f"{there}.")

    def nearest(self, rows: Sequence[int], place: Any) -> int | None:
        """The row nearest to a time; the earlier one where that cannot be said."""
        if len(rows) < 2 or not isinstance(place, (int, float, datetime)):
            return rows[0] if rows else None
        distances = [abs(self.time(row) - place) for row in rows]
        return rows[distances.index(min(distances))]

    def no_rows_at(self, near: Sequence[int], nearest: int | None) -> Finding:
        where = " and ".join(self.shown(row) for row in near)
        there = f"No row of the key lies there; the nearest ones are at {where}." if near else "No row lies there."
        more = "" if nearest is None else f" What follows is about {self.shown(nearest)}."
        return Finding("no rows", there + more, data={"nearest": [self.time(row) for row in near]})

    def limit(self, starts: int, unseen: int, partly: int, most_starts: int, most_steps: int) -> Finding:
        parts = []
        if unseen:
            parts.append(f"{unseen:,} of the {starts:,} rows were not tried: at most {most_starts:,} are")
        if partly:
            parts.append(f"{partly:,} attempts were given up after {most_steps:,} steps in all, and may come farther")
        data = {"starts": starts, "not tried": unseen, "given up": partly, "steps": most_steps}
        return Finding("limit", f"{'; '.join(parts)}. Ask for a shorter time.", data=data)

    # ---- attempts ------------------------------------------------------------------------------------

    def findings(self, attempts: Sequence[Attempt], outcomes: Outcomes) -> Iterator[Finding]:
        """Matches; ways that are no matches though they lead through the pattern; and how far the others came."""
        yield from self._found([attempt for attempt in attempts if attempt.matches])
        yield from self._passed([attempt for attempt in attempts if attempt.accepted])
        failed = [attempt for attempt in attempts if not attempt.matches and not attempt.accepted]
        yield from self._empty([attempt for attempt in failed if attempt.empty])
        yield from self._too_long([attempt for attempt in failed if attempt.too_long is not None])
        yield from self._failed([attempt for attempt in failed if attempt.too_long is None], outcomes, len(attempts))

    def _found(self, attempts: Sequence[Attempt]) -> Iterator[Finding]:
        for attempt in attempts[:MOST_FINDINGS]:
            longest = attempt.matches[-1]
            several = "" if len(attempt.matches) == 1 else f"; {len(attempt.matches)} matches begin there"
            yield Finding(
                "found",
                f"There is a match {self.reach(longest)}{several}.",
                at=self.time(attempt.start),
                count=len(attempt.matches),
                data=self._data(attempt, longest),
            )
        for attempt in [attempt for attempt in attempts if attempt.others][:MOST_OTHERS]:
            other = attempt.others[0]
            yield Finding(
                "found another way",
                f"The pattern matches {self.reach(other)} too, but {CHOICE[self.plan.rules.mode]}.",
                span=self.clause.mode_span if self._says_mode else self.clause.source.pattern,
                at=self.time(attempt.start),
                count=len(attempt.others),
                data=self._data(attempt, other),
            )
        if len(attempts) > MOST_FINDINGS:
            yield Finding("found", f"There are matches from {len(attempts):,} rows in all.", count=len(attempts))

    @property
    def _says_mode(self) -> bool:
        return self.plan.rules.mode is not MatchMode.PREFERRED and self.clause.mode_span != NOWHERE

    def _passed(self, attempts: Sequence[Attempt]) -> Iterator[Finding]:
        for attempt in attempts[:MOST_FINDINGS]:
            way, by = attempt.accepted[0], attempt.skipped_by or attempt.ended_by
            data = {**self._data(attempt, way), **({} if by is None else {"by": self._data_of(by)})}
            span: Span | None = None
            if attempt.skipped_by is not None:
                kind, span = "skipped", self.clause.skip_span
                why = f"skipped over by the match {self.reach(attempt.skipped_by)}"
                why += f": AFTER MATCH SKIP {self._skip}"
            else:
                kind, span = "found another way", self.clause.mode_span
                why = "the same last row has a match that begins earlier"
                why += "" if by is None else f", {self.reach(by)}"
            message = f"Found {self.reach(way)}, but {why}."
            yield Finding(kind, message, span if span != NOWHERE else None, self.time(attempt.start), data=data)
        if len(attempts) > MOST_FINDINGS:
            yield Finding("skipped", f"So it is with {len(attempts):,} rows in all.", count=len(attempts))

    def _empty(self, attempts: Sequence[Attempt]) -> Iterator[Finding]:
        if attempts:
            start, count = attempts[0].start, len(attempts)
            message = f"There is an empty match at {self.shown(start)}, which INCREMENTAL MATCH does not report."
            yield Finding("empty", message, self.clause.mode_span, self.time(start), count=count)

    @property
    def _skip(self) -> str:
        rules = self.plan.rules
        return rules.skip_to.value + ("" if rules.skip_label is None else f" {rules.skip_label}")

    def _too_long(self, attempts: Sequence[Attempt]) -> Iterator[Finding]:
        """The ways that only the window forbids, that which is the least too long first."""
        within = self.plan.within or 0
        excess = {}
        for attempt in attempts:
            assert attempt.too_long is not None
            last = attempt.start + attempt.too_long.length - 1
            excess[attempt.start] = int(self.events.time[last]) - int(self.events.time[attempt.start]) - within
        for attempt in sorted(attempts, key=lambda one: excess[one.start])[:MOST_FINDINGS]:
            assert attempt.too_long is not None
            by = length(excess[attempt.start], self.plan.types[self.plan.order[0].column])
            yield Finding(
                "window",
                f"Found {self.reach(attempt.too_long)}, but outside {self._within} by {by}.",
                self.plan.window,
                self.time(attempt.start),
                count=len(attempts),
                data={**self._data(attempt, attempt.too_long), "excess": excess[attempt.start]},
            )

    @property
    def _within(self) -> str:
        return "WITHIN" if self.plan.window is None else f"WITHIN {self.clause.source.written(self.plan.window)}"

    # ---- attempts that came to an end ----------------------------------------------------------------

    def _failed(self, attempts: Sequence[Attempt], outcomes: Outcomes, all_attempts: int) -> Iterator[Finding]:
        """By what ended them, with how far the one came that came farthest."""
        ends: dict[tuple[str, str], list[tuple[Attempt, FailedWay]]] = {}
        for attempt in attempts:
            for failure in attempt.failures:
                label = outcomes.label(failure.instruction) if failure.kind == CONDITION else ""
                known = ends.setdefault((failure.kind, label), [])
                if not known or known[-1][0] is not attempt:
                    known.append((attempt, failure))
        groups = [(max(ended, key=lambda one: one[1].row - one[0].start), len(ended)) for ended in ends.values()]
        groups.sort(key=lambda one: one[0][0].start - one[0][1].row)
        for (attempt, failure), count in groups[:MOST_FINDINGS]:
            yield self._end(attempt, failure, outcomes, count, all_attempts)
            if failure.kind in (END_OF_ROWS, WINDOW):
                yield from self._refused(attempt, outcomes)
        if len(groups) > MOST_FINDINGS:
            yield Finding("limit", f"{len(groups) - MOST_FINDINGS} further ends of attempts are not shown.")

    def _refused(self, attempt: Attempt, outcomes: Outcomes) -> Iterator[Finding]:
        """Where rows or the window end: how the labels fared that were waited for."""
        awaited = {failure.instruction for failure in attempt.failures}
        for failure, times in attempt.refused:
            if failure.instruction in awaited:
                rows = "once" if times == 1 else f"{times:,} times"
                yield self._condition(
                    attempt, failure, outcomes, f" {outcomes.label(failure.instruction)} failed {rows}.", times
                )

    def _end(self, attempt: Attempt, failure: FailedWay, outcomes: Outcomes, count: int, attempts: int) -> Finding:
        share = "" if attempts == 1 else f" So ended {count:,} of {attempts:,} attempts."
        context = f"{self._context(attempt, failure)}{share}"
        if failure.kind == CONDITION:
            return self._condition(attempt, failure, outcomes, context, count)
        data = self._ended(attempt, failure)
        if failure.kind in (AT_START, AT_END):
            last = len(self.events) - 1
            sign, what = ("^", "the first row of the key, which is at " + self.shown(0))
            place = self.shown(failure.row) if failure.row <= last else self.shown(last)
            if failure.kind == AT_END:
                sign, what = "$", "the end of the key, whose last row is at " + self.shown(last)
            message = f"{sign} failed at {place}: this is not {what}.{context}"
            at = self.time(min(failure.row, last))
            return Finding("anchor", message, self._anchor(sign), at, count=count, data=data)
        labels = list(
            dict.fromkeys(outcomes.label(one.instruction) for one in attempt.failures if one.kind == failure.kind)
        )
        needed = " or ".join(labels)
        data["awaited"] = labels
        if failure.kind == WINDOW:
            message = f"{self._within} had ended at {self.shown(failure.row)}, with no row left for {needed}.{context}"
            return Finding("window", message, self.plan.window, self.time(failure.row), count=count, data=data)
        end = self.shown(len(self.events) - 1)
        so_far = " so far" if self.live else ""
        message = f"The rows of the key{so_far} end at {end}, with no row left for {needed}.{context}"
        return Finding(
            "end of rows", message, self.clause.source.pattern, self.time(len(self.events) - 1), count=count, data=data
        )

    def _context(self, attempt: Attempt, failure: FailedWay) -> str:
        """What the attempt had taken."""
        if failure.path is None:
            return " No row was taken."
        taken = self.taken(instructions_of(failure.path))
        return f" The attempt had begun at {self.shown(attempt.start)} and taken {taken}."

    def _condition(self, attempt: Attempt, failure: FailedWay, outcomes: Outcomes, context: str, count: int) -> Finding:
        label = outcomes.label(failure.instruction)
        failed = [one for one in outcomes.readings_at(attempt, failure) if one.holds is not True]
        texts = [f"{self._with_values(one)} is {'null' if one.holds is None else 'false'}" for one in failed]
        values: dict[str, object] = {}
        for one in failed:
            values.update({self._written(span): value for span, value in one.values if value is not UNKNOWN})
        message = f"{label} failed at {self.shown(failure.row)}: {' and '.join(texts)}.{context}"
        data = self._ended(attempt, failure)
        data["label"] = label
        data["conjuncts"] = [
            {
                "text": self._written(one.conjunct.span),
                "value": one.holds,
                "span": [one.conjunct.span.start, one.conjunct.span.end],
            }
            for one in failed
        ]
        span = failed[0].conjunct.span if failed else None
        return Finding(CONDITION, message, span, self.time(failure.row), values, count, data)

    def _written(self, span: Span) -> str:
        return " ".join(self.clause.source.written(span).split())

    def _with_values(self, reading: Reading) -> str:
        """The conjunct as it is written, with its values after what they are values of."""
        source, at = self.clause.source, reading.conjunct.span.start
        pieces = []
        for span, value in sorted(reading.values, key=lambda one: one[0].end):
            if value is not UNKNOWN and span.end >= at:
                pieces += [source.text[at : span.end], f" {said(value)}"]
                at = span.end
        pieces.append(source.text[at : reading.conjunct.span.end])
        return " ".join("".join(pieces).split())

    def _anchor(self, sign: str) -> Span:
        """Where the anchor stands in the pattern."""
        pattern = self.clause.source.pattern
        for token in tokenize(self.clause.source.text):
            if pattern.start <= token.start < pattern.end and token.is_symbol(sign):
                return token.span
        return pattern

    def _data(self, attempt: Attempt, match: RowMatch) -> dict[str, object]:
        return {"start": self.time(attempt.start), **self._data_of(match)}

    def _data_of(self, match: RowMatch) -> dict[str, object]:
        last = match.start + max(0, match.length - 1)
        return {"start": self.time(match.start), "end": self.time(last), "labels": self.labels(match.instructions)}

    def _ended(self, attempt: Attempt, failure: FailedWay) -> dict[str, object]:
        instructions = instructions_of(failure.path)
        return {
            "start": self.time(attempt.start),
            "labels": self.labels(instructions),
            "rows": len(instructions),
            "row": failure.row,
            "first row": attempt.start,
        }


def said(value: Any) -> str:
    """A value in a sentence; times are on the clock that rows are shown with."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.replace(tzinfo=None).isoformat(sep=" ") if isinstance(value, datetime) else shown(value)
