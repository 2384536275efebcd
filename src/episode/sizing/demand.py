"""What is asked of a cluster, read and checked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from episode.errors import EpisodeAnalysisError, EpisodeError
from episode.lang.cursor import Cursor
from episode.lang.duration import parse_duration
from episode.lang.lexer import tokenize

SECOND = 1_000_000


@dataclass(frozen=True)
class Demand:
    """rate: events/s. keys: how many partition keys there are. window: seconds that a match may take (None: as the
    query says). delay: seconds of the watermark. hottest: the share of the busiest key (None: as in the sample, or as
    all). span, finish: a batch over so many seconds of events is to be done in so many seconds. executor_cores,
    executor_memory: of one executor, in bytes at most."""

    rate: float
    keys: float
    window: float | None = None
    delay: float = 0.0
    hottest: float | None = None
    span: float = 86_400.0
    finish: float = 3_600.0
    executor_cores: int = 8
    executor_memory: float = 64 * 2.0**30

    def __post_init__(self) -> None:
        if self.hottest is not None and not 0 < self.hottest <= 1:
            raise EpisodeAnalysisError(
                f"--hot-key {self.hottest:g}: the share of one key in all events is above 0 and at most 1.",
                hint="Write 0.05 if one event in twenty is of the same key.",
            )
        if self.hottest is not None and self.hottest < 1 / self.keys:
            raise EpisodeAnalysisError(
                f"--hot-key {self.hottest:g}: the busiest of {self.keys:,.0f} keys has at least 1/{self.keys:,.0f}.",
                hint="Leave it out where all keys are alike.",
            )

    @property
    def batch_rows(self) -> float:
        return self.rate * self.span


def number(text: str, option: str, *, least: float = 1.0) -> float:
    """A number that is written 1e7, 10000000 or 10_000_000."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        raise EpisodeAnalysisError(
            f"{option} {text!r} is not a number.", hint="Write for example 1e7, 10000000 or 10,000,000."
        ) from None
    if not math.isfinite(value) or value < least:
        raise EpisodeAnalysisError(f"{option} {text!r} must be a number of at least {least:g}.")
    return value


def seconds(text: str, option: str, *, positive: bool = True) -> float:
    """A duration with a unit, in seconds."""
    try:
        cursor = Cursor(text, tokenize(text))
        duration = parse_duration(cursor)
    except EpisodeError as error:
        raise EpisodeAnalysisError(f"{option} {text!r} is not a duration: {error.message}", hint=error.hint) from None
    if not cursor.at_end or duration.unit is None or (positive and duration.amount == 0):
        raise EpisodeAnalysisError(
            f"{option} {text!r} is not a duration{' above zero' if positive else ''} with a unit.",
            hint="Write for example '10 minutes', '1 hour 30 minutes' or '500 ms'.",
        )
    return duration.amount / SECOND
