"""Findings on row patterns: attempts with the same end are reported once, the farthest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from episode.lang.lexer import tokenize
from episode.lang.rows.syntax import MatchMode, MatchRecognize
from episode.lang.syntax import NOWHERE, Span
from episode.matchers.protocol import EventBatch
from episode.matchers.rows.explorer import AT_END, AT_START, CONDITION, END_OF_ROWS, WINDOW, FailedWay, instructions_of
from episode.matchers.rows.matches import RowMatch
from episode.matchers.rows.stepwise import UNKNOWN, ConjunctReading
from episode.plan.rows.plan import RowPatternPlan
from episode.see.reasons.finding import Finding, in_zone, length, quote_value

if TYPE_CHECKING:
    from episode.see.reasons.rows import RowAttempt, RowAttempts

MOST_FINDINGS = 8
"""Different ends of attempts that are reported."""
MOST_OTHERS = 2
"""Start rows with a match whose other ways through the pattern are reported."""
CHOICE = {
    MatchMode.PREFERRED: "the pattern's order of preference chose the other one",
    MatchMode.MAXIMAL: "MAXIMAL MATCH reports the longest one",
    MatchMode.INCREMENTAL: "of those that end at a row the preferred one is reported",
    MatchMode.ALL: "of those that end at a row the preferred one is reported",
}


@dataclass(frozen=True)
class RowWords:
    """Rows of one key, and attempts over them, in words. zone: of the clock that times are shown by. live: may further
    rows come?"""

    clause: MatchRecognize
    plan: RowPatternPlan
    events: EventBatch
    attempts: RowAttempts
    zone: str | None
    live: bool = False

    def time(self, row: int) -> Any:
        """Return the time of a row; its number from 1 on in a query without an order."""
        if not self.plan.order:
            return row + 1
        value = self.events.table.column(self.plan.order[0].column)[row].as_py()
        if self.zone is None or getattr(value, "tzinfo", None) is None:
            return value
        return in_zone(value, ZoneInfo(self.zone))

    def row(self, row: int) -> str:
        """Return a row by its time."""
        return f"row {row + 1:,}" if not self.plan.order else clock_value(self.time(row))

    def labels(self, instructions: Sequence[int]) -> list[str]:
        return [self.plan.program.instructions[at].label for at in instructions]

    def label_runs(self, instructions: Sequence[int]) -> str:
        """Return the labels of rows, with how often each was taken: `STRT DOWN×3`."""
        runs = [(label, len(list(run))) for label, run in groupby(self.labels(instructions))]
        texts = [label if count == 1 else f"{label}×{count}" for label, count in runs]
        return " ".join(texts if len(texts) <= 24 else [*texts[:12], "…", *texts[-12:]])

    def reach(self, match: RowMatch) -> str:
        """Return the first and the last row of a match, and its labels."""
        if match.length == 0:
            return f"at {self.row(match.start)} (empty)"
        last = self.row(match.start + match.length - 1)
        return f"from {self.row(match.start)} to {last} ({self.label_runs(match.instructions)})"

    def nearest(self, rows: Sequence[int], place: Any) -> int | None:
        """Return the row nearest to a time; the earlier one if times have no distance."""
        if len(rows) < 2 or not isinstance(place, (int, float, datetime)):
            return rows[0] if rows else None
        distances = [abs(self.time(row) - place) for row in rows]
        return rows[distances.index(min(distances))]

    def no_rows_at(self, near: Sequence[int], nearest: int | None) -> Finding:
        where = " and ".join(self.row(row) for row in near)
        there = f"No row of the key lies there; the nearest ones are at {where}." if near else "No row lies there."
        more = "" if nearest is None else f" What follows is about {self.row(nearest)}."
        return Finding("no rows", there + more, data={"nearest": [self.time(row) for row in near]})

    def limit(self, starts: int, unseen: int, partly: int, most_starts: int, most_steps: int) -> Finding:
        parts = []
        if unseen:
            parts.append(f"{unseen:,} of the {starts:,} rows were not tried: at most {most_starts:,} are")
        if partly:
            parts.append(f"{partly:,} attempts were given up after {most_steps:,} steps in all, and may come farther")
        data = {"starts": starts, "not tried": unseen, "given up": partly, "steps": most_steps}
        return Finding("limit", f"{'; '.join(parts)}. Ask for a shorter time.", data=data)

    def findings(self, attempts: Sequence[RowAttempt]) -> Iterator[Finding]:
        """Report matches, ways through the pattern that are not matches, and how far the other attempts came."""
        yield from self._report_matches([attempt for attempt in attempts if attempt.matches])
        yield from self._report_passed_over([attempt for attempt in attempts if attempt.accepted])
        failed = [attempt for attempt in attempts if not attempt.matches and not attempt.accepted]
        empty = [attempt.start for attempt in failed if attempt.empty]
        if empty:
            message = f"There is an empty match at {self.row(empty[0])}, which INCREMENTAL MATCH does not report."
            yield Finding("empty", message, self.clause.mode_span, self.time(empty[0]), count=len(empty))
        yield from self._report_too_long([attempt for attempt in failed if attempt.too_long is not None])
        ended = [attempt for attempt in failed if attempt.too_long is None]
        yield from self._report_failures(ended, len(attempts))

    def _report_matches(self, attempts: Sequence[RowAttempt]) -> Iterator[Finding]:
        for attempt in attempts[:MOST_FINDINGS]:
            longest = attempt.matches[-1]
            several = "" if len(attempt.matches) == 1 else f"; {len(attempt.matches)} matches begin there"
            yield Finding(
                "found",
                f"There is a match {self.reach(longest)}{several}.",
                at=self.time(attempt.start),
                count=len(attempt.matches),
                data=self._data_of(longest),
            )
        is_written = self.plan.settings.mode is not MatchMode.PREFERRED and self.clause.mode_span != NOWHERE
        for attempt in [attempt for attempt in attempts if attempt.others][:MOST_OTHERS]:
            other = attempt.others[0]
            yield Finding(
                "found another way",
                f"The pattern matches {self.reach(other)} too, but {CHOICE[self.plan.settings.mode]}.",
                span=self.clause.mode_span if is_written else self.clause.source.pattern,
                at=self.time(attempt.start),
                count=len(attempt.others),
                data=self._data_of(other),
            )
        if len(attempts) > MOST_FINDINGS:
            yield Finding("found", f"There are matches from {len(attempts):,} rows in all.", count=len(attempts))

    def _report_passed_over(self, attempts: Sequence[RowAttempt]) -> Iterator[Finding]:
        for attempt in attempts[:MOST_FINDINGS]:
            way, by = attempt.accepted[0], attempt.skipped_by or attempt.ended_by
            data = self._data_of(way) | ({} if by is None else {"by": self._data_of(by)})
            span, settings = NOWHERE, self.plan.settings
            if attempt.skipped_by is not None:
                kind, span = "skipped", self.clause.skip_span
                why = f"skipped over by the match {self.reach(attempt.skipped_by)}"
                why += f": AFTER MATCH SKIP {settings.skip_to.value}"
                why += "" if settings.skip_label is None else f" {settings.skip_label}"
            else:
                kind, span = "found another way", self.clause.mode_span
                why = "the same last row has a match that begins earlier"
                why += "" if by is None else f", {self.reach(by)}"
            message = f"Found {self.reach(way)}, but {why}."
            yield Finding(kind, message, span if span != NOWHERE else None, self.time(attempt.start), data=data)
        if len(attempts) > MOST_FINDINGS:
            yield Finding("skipped", f"The same holds for {len(attempts):,} rows in all.", count=len(attempts))

    def _report_too_long(self, attempts: Sequence[RowAttempt]) -> Iterator[Finding]:
        """Report ways that only the window forbids, the least too long first."""
        within = self.plan.within or 0
        excess, time = {}, self.events.time
        for attempt in attempts:
            assert attempt.too_long is not None
            last = attempt.start + attempt.too_long.length - 1
            excess[attempt.start] = int(time[last]) - int(time[attempt.start]) - within
        for attempt in sorted(attempts, key=lambda one: excess[one.start])[:MOST_FINDINGS]:
            assert attempt.too_long is not None
            by = length(excess[attempt.start], self.plan.types[self.plan.order[0].column])
            yield Finding(
                "window",
                f"Found {self.reach(attempt.too_long)}, but outside {self._within} by {by}.",
                self.plan.window,
                self.time(attempt.start),
                count=len(attempts),
                data={**self._data_of(attempt.too_long), "excess": excess[attempt.start]},
            )

    @property
    def _within(self) -> str:
        return "WITHIN" if self.plan.window is None else f"WITHIN {self.clause.source.text_at(self.plan.window)}"

    def _report_failures(self, attempts: Sequence[RowAttempt], all_attempts: int) -> Iterator[Finding]:
        """Report what ended attempts, each time with the attempt that came farthest."""
        ends: dict[tuple[str, str], list[tuple[RowAttempt, FailedWay]]] = {}
        for attempt in attempts:
            for failure in attempt.failures:
                label = self.attempts.label(failure.instruction) if failure.kind == CONDITION else ""
                known = ends.setdefault((failure.kind, label), [])
                if not known or known[-1][0] is not attempt:
                    known.append((attempt, failure))
        groups = [(max(ended, key=lambda one: one[1].row - one[0].start), len(ended)) for ended in ends.values()]
        groups.sort(key=lambda one: one[0][0].start - one[0][1].row)
        for (attempt, failure), count in groups[:MOST_FINDINGS]:
            yield self._report_end(attempt, failure, count, all_attempts)
            if failure.kind in (END_OF_ROWS, WINDOW):
                yield from self._report_refusals(attempt)
        if len(groups) > MOST_FINDINGS:
            yield Finding("limit", f"{len(groups) - MOST_FINDINGS} further ends of attempts are not shown.")

    def _report_refusals(self, attempt: RowAttempt) -> Iterator[Finding]:
        """Report how often awaited labels failed before the rows or the window ended."""
        awaited = {failure.instruction for failure in attempt.failures}
        for failure, times in attempt.refused:
            if failure.instruction in awaited:
                rows = "once" if times == 1 else f"{times:,} times"
                context = f" {self.attempts.label(failure.instruction)} failed {rows}."
                yield self._report_condition(attempt, failure, context, times)

    def _report_end(self, attempt: RowAttempt, failure: FailedWay, count: int, attempts: int) -> Finding:
        share = "" if attempts == 1 else f" {count:,} of {attempts:,} attempts ended this way."
        context = f"{self._context(attempt, failure)}{share}"
        if failure.kind == CONDITION:
            return self._report_condition(attempt, failure, context, count)
        data = self._end_data(attempt, failure)
        if failure.kind in (AT_START, AT_END):
            last = len(self.events) - 1
            sign, what = ("^", "the first row of the key, which is at " + self.row(0))
            place = self.row(failure.row) if failure.row <= last else self.row(last)
            if failure.kind == AT_END:
                sign, what = "$", "the end of the key, whose last row is at " + self.row(last)
            message = f"{sign} failed at {place}: this is not {what}.{context}"
            at = self.time(min(failure.row, last))
            return Finding("anchor", message, self._anchor(sign), at, count=count, data=data)
        awaited = [one.instruction for one in attempt.failures if one.kind == failure.kind]
        labels = list(dict.fromkeys(map(self.attempts.label, awaited)))
        needed = " or ".join(labels)
        data["awaited"] = labels
        if failure.kind == WINDOW:
            message = f"{self._within} had ended at {self.row(failure.row)}, with no row left for {needed}.{context}"
            return Finding("window", message, self.plan.window, self.time(failure.row), count=count, data=data)
        end = self.row(len(self.events) - 1)
        so_far = " so far" if self.live else ""
        message = f"The rows of the key{so_far} end at {end}, with no row left for {needed}.{context}"
        at = self.time(len(self.events) - 1)
        return Finding("end of rows", message, self.clause.source.pattern, at, count=count, data=data)

    def _context(self, attempt: RowAttempt, failure: FailedWay) -> str:
        """Return what the attempt had taken, in words."""
        if failure.path is None:
            return " No row was taken."
        taken = self.label_runs(instructions_of(failure.path))
        return f" The attempt had begun at {self.row(attempt.start)} and taken {taken}."

    def _report_condition(self, attempt: RowAttempt, failure: FailedWay, context: str, count: int) -> Finding:
        label = self.attempts.label(failure.instruction)
        failed = [one for one in self.attempts.readings_at(attempt, failure) if one.holds is not True]
        texts = [f"{self._with_values(one)} is {'null' if one.holds is None else 'false'}" for one in failed]
        values: dict[str, object] = {
            self._text_at(span): value for one in failed for span, value in one.values if value is not UNKNOWN
        }
        message = f"{label} failed at {self.row(failure.row)}: {' and '.join(texts)}.{context}"
        data = self._end_data(attempt, failure)
        data["label"] = label
        spans = [one.conjunct.span for one in failed]
        data["conjuncts"] = [
            {"text": self._text_at(span), "value": one.holds, "span": [span.start, span.end]}
            for span, one in zip(spans, failed, strict=True)
        ]
        span = spans[0] if spans else None
        return Finding(CONDITION, message, span, self.time(failure.row), values, count, data)

    def _text_at(self, span: Span) -> str:
        return " ".join(self.clause.source.text_at(span).split())

    def _with_values(self, reading: ConjunctReading) -> str:
        """Return the conjunct as it is written, with each value after the expression that has it."""
        source, at = self.clause.source, reading.conjunct.span.start
        pieces = []
        for span, value in sorted(reading.values, key=lambda one: one[0].end):
            if value is not UNKNOWN and span.end >= at:
                pieces += [source.text[at : span.end], f" {clock_value(value)}"]
                at = span.end
        pieces.append(source.text[at : reading.conjunct.span.end])
        return " ".join("".join(pieces).split())

    def _anchor(self, sign: str) -> Span:
        """Return the place of an anchor in the pattern."""
        pattern = self.clause.source.pattern
        for token in tokenize(self.clause.source.text):
            if pattern.start <= token.start < pattern.end and token.is_symbol(sign):
                return token.span
        return pattern

    def _data_of(self, match: RowMatch) -> dict[str, object]:
        last = match.start + max(0, match.length - 1)
        return {"start": self.time(match.start), "end": self.time(last), "labels": self.labels(match.instructions)}

    def _end_data(self, attempt: RowAttempt, failure: FailedWay) -> dict[str, object]:
        instructions = instructions_of(failure.path)
        return {
            "start": self.time(attempt.start),
            "labels": self.labels(instructions),
            "rows": len(instructions),
            "row": failure.row,
            "first row": attempt.start,
        }


def clock_value(value: Any) -> str:
    """Return a value in a sentence; times by the clock that rows are shown with."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.replace(tzinfo=None).isoformat(sep=" ") if isinstance(value, datetime) else quote_value(value)
