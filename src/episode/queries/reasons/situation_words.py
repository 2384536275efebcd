"""Situations and their matches in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

import numpy as np
import pyarrow as pa

from episode.lang.situations.syntax import Constraint, SituationQuery
from episode.queries.reasons.finding import Finding
from episode.queries.reasons.plain import plain
from episode.queries.reasons.situation_trials import Chosen, Place
from episode.queries.reasons.wording import counted, length, together


@dataclass(frozen=True)
class Words:
    """Speaks of the situations in the rows of a table; times: of its rows, as integers."""

    query: SituationQuery
    table: pa.Table
    times: np.ndarray
    time: str
    time_type: str
    zone: tzinfo | None
    arguments: Mapping[str, object]

    def value(self, image: int) -> Any:
        """The time of the events that has this integer."""
        row = int(np.searchsorted(self.times, image))
        return self.value_at(row) if row < len(self.times) else image

    def value_at(self, row: int) -> Any:
        value = self.table.column(self.time)[row].as_py()
        if isinstance(value, datetime) and value.tzinfo is not None and self.zone is not None:
            return value.astimezone(self.zone)
        return value

    def moment(self, image: int) -> str:
        return str(plain(self.value(image)))

    def length(self, amount: int) -> str:
        return length(amount, self.time_type)

    def situation(self, symbol: str, start: int, end: int, lasting: bool) -> str:
        """`A from 3 to 7`"""
        until = f"on, which still lasts at {self.moment(end)}" if lasting and end > start else f"to {self.moment(end)}"
        if lasting and end <= start:
            until = "on"
        return f"{symbol} from {self.moment(start)} {until}"

    def match(self, found: Chosen, number: int) -> str:
        parts = []
        for index, symbol in enumerate(found.symbols):
            lasts = bool(found.lasting[number, index])
            end = int(found.detected[number] if lasts else found.end[number, index])
            parts.append(self.situation(symbol, int(found.start[number, index]), end, lasts))
        return together(parts)

    def times_of(self, found: Chosen, number: int) -> dict[str, object]:
        """Starts and ends of the situations of a match; None: one that still lasts."""
        return {
            symbol: [
                self.value(int(found.start[number, index])),
                None if found.lasting[number, index] else self.value(int(found.end[number, index])),
            ]
            for index, symbol in enumerate(found.symbols)
        }

    def found(self, found: Chosen) -> Finding:
        number = int(np.argmin(found.began))
        many = (
            ""
            if len(found) == 1 and not found.more
            else f" ({counted(len(found), found.more, 'match', 'matches')} in all)"
        )
        detected = int(found.detected[number])
        message = f"There is a match: {self.match(found, number)}, detected at {self.moment(detected)}{many}."
        data: dict[str, object] = {"situations": self.times_of(found, number), "detected_at": self.value(detected)}
        return Finding("found", message, at=self.value(int(found.began[number])), count=len(found), data=data)

    def elsewhere(self, found: Chosen, place: Place, the: str = "The") -> Finding:
        """Matches near the place; none where there were too many to search."""
        if len(found) == 0:
            message = "There is no match, but too many combinations of situations to say what keeps it from being."
            return Finding("bound", message, self.query.source.pattern)
        away = np.maximum(
            0 if place.first is None else place.first - found.detected,
            0 if place.last is None else found.began - place.last,
        )
        number = int(np.argmin(np.broadcast_to(away, len(found))))
        detected = int(found.detected[number])
        message = f"{the} nearest match is elsewhere: {self.match(found, number)}, detected at {self.moment(detected)}."
        data: dict[str, object] = {"situations": self.times_of(found, number), "detected_at": self.value(detected)}
        return Finding("elsewhere", message, at=self.value(int(found.began[number])), count=len(found), data=data)

    def constraint(self, constraint: Constraint) -> str:
        """As the query has it."""
        return " ".join(self.query.source.written(constraint.span).split())

    def tally(self, steps: Sequence[tuple[Constraint, Chosen]], failed: Constraint | None) -> Finding:
        """What was left after each constraint."""
        shown: list[dict[str, object]] = [
            {"step": self.constraint(one), "left": len(found), "at_least": found.more} for one, found in steps
        ]
        if failed is not None:
            shown.append({"step": self.constraint(failed), "left": 0, "at_least": False})
        text = "; ".join(f"{one['step']}: {'at least ' if one['at_least'] else ''}{one['left']:,}" for one in shown)
        return Finding("steps", f"Candidates left constraint by constraint: {text}.", data={"steps": shown})
