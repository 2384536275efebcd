"""Checks of a query's options against its patterns: none is accepted and ignored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError
from episode.plan.event_time import EventTime, duration_in_units
from episode.plan.options import Options, StreamOptions
from episode.queries.language import Language
from episode.queries.languages import LANGUAGES

if TYPE_CHECKING:
    from episode.spark.query import Planned
    from episode.spark.stream.runtime import Stream


def check_streams(options: Options, planned: Iterable[Planned | Stream]) -> None:
    """Options of streams need a pattern over a stream among the planned ones."""
    patterns = list(planned)
    streams = [pattern for pattern in patterns if pattern.is_stream]
    if isinstance(options.tuning.slices, int) and patterns and len(streams) == len(patterns):
        raise EpisodeAnalysisError(
            f"{options.tuning.place('slices')}: slices of time are for tables, and this query is over a stream, where "
            "the events of a key are matched as they come.",
            hint="Leave it out. Spread a stream's load over more keys: PARTITION BY a finer key, if the pattern "
            "allows it.",
        )
    if streams:
        _check_watermark(options, streams)
        return
    given = [
        group.place(name)
        for group, name in options.changes()
        if isinstance(group, StreamOptions) or name == "watermark"
    ]
    if given:
        message = f"{', '.join(given)}: for patterns over streams, and no pattern of this query is over a stream."
        hint = f"Leave {'it' if len(given) == 1 else 'them'} out, or read the events with readStream."
        raise EpisodeAnalysisError(message, hint=hint)


def _check_watermark(options: Options, streams: Iterable[Planned | Stream]) -> None:
    """One watermark is for the streams of a query, or for a pattern over matches, and must be of use."""
    if options.watermark is None:
        return
    users = [stream for stream in streams if stream.takes_watermark]
    given = options.place("watermark")
    if not users:
        message = f"{given}: the events are matches of another pattern, and come with its watermark."
        raise EpisodeAnalysisError(message, hint="Leave the watermark out.")
    if len({stream.over_matches for stream in users}) > 1:
        raise EpisodeAnalysisError(
            f"{given} is for a stream of this query; of one of its patterns over matches it is not known how late "
            "they come.",
            hint="Add WITHIN to the pattern that gives the matches, and order the other one by their times as they "
            "are; or make two calls, each with its own watermark.",
        )


def check_use(options: Options, languages: Collection[Language[Any]]) -> None:
    """Each option that was given must have a meaning for one of the patterns, whose languages these are."""
    for group, name in options.changes():
        users = [language for language in LANGUAGES.values() if name in language.options]
        if users and languages and not any(used in users for used in languages):
            language = min(languages, key=lambda language: language.name)
            message = f"{group.place(name)} has no meaning for {language.one}."
            raise EpisodeAnalysisError(message, hint=f"It is for {' and '.join(f'{user.name}s' for user in users)}.")


def refuse_options(options: Options, reasons: Mapping[str, str]) -> None:
    """Refuse options that mean nothing in a runtime, for these reasons."""
    for group, name in options.changes():
        if name in reasons:
            raise EpisodeAnalysisError(f"{group.place(name)} {reasons[name]}.", hint="Leave it out.")


def seconds_of(name: str, value: float | str) -> float:
    """A time of the clock, in seconds."""
    if isinstance(value, str):
        value = duration_in_units(value, EventTime("", "timestamp"), name) / 1e6
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise EpisodeAnalysisError(f"{name}={value!r}: a number of seconds is needed, or '5 seconds'.")
    return float(value)


def options_of(options: object) -> Options:
    """The options of a call; those that are not given are the default ones."""
    if options is None:
        return Options()
    if not isinstance(options, Options):
        hint = "Write options=Options(…), with the names of options in it."
        raise EpisodeAnalysisError(f"options is a {type(options).__name__}.", hint=hint)
    return options
