"""Options of a query, checked when they are given."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest
from episode.plan.correlation.plan import CorrelationStrategy
from episode.plan.event_time import TIME_UNITS, EventTime, duration_in_units
from episode.plan.events.postponed import AUTO, ENGINES
from episode.plan.pattern import COLLAPSED, DOUBLE, EXACT, MATCHES, OFF, STEP_BUDGET, RunOptions, StreamOptions
from episode.plan.situations.plan import COMPLETE, EARLIEST
from episode.queries.language import Language
from episode.queries.languages import LANGUAGES

if TYPE_CHECKING:
    from episode.spark.query import Planned
    from episode.spark.stream.runtime import Stream


STOP, SKIP_KEY = "stop", "skip key"


OF_STREAMS = {
    "watermark": "how late events may come",
    "end": "when the stream ends",
    "event_id": "by which column repeated events are recognised",
    "late": "what becomes of late events",
    "late_path": "where late events are kept",
    "max_state_rows": "how many rows a key may hold for an open match",
    "when_full": "what happens beyond max_state_rows",
    "counters": "the name of a stream's counters",
    "on_error": "what happens to a key whose data raise an error",
    "time_unit": "what whole numbers of event time count",
}
"""Options that mean nothing over a table, and what they are for."""


@dataclass(frozen=True)
class Options:
    """Limits of a query's evaluation. What no pattern of the query has a use for is refused.

    step_budget: steps of matching from one start row before an explosion is reported. For row and event patterns.
    shards: into how many shards the keys are spread (None: chosen from the size of the input).
    shard_bytes: memory that a shard or slice may take in a worker before it is split or streamed (None: the default).
    slices: into how many slices of time a large key, or the whole input without PARTITION BY, is cut, so that several
        tasks match it: 'auto' (by a sample that is read from large files and stream stores without a job), a number for
        every large key (of inputs that come through Spark, one job counts and samples the keys and times), or 'off'.
        The result is the same. For tables: a stream is not sliced.
    match_times: two more columns, match_start and match_end: the least and the greatest event time of a match. Matches
        of event patterns have them even without this option.
    results: 'matches', or 'collapsed': one row for each intermediate match, with the number of matches that it stands
        for. For event patterns with closures that choose their events.
    counts: 'exact' (DECIMAL(38, 0)), or 'double', for numbers of matches that may be larger. Where matches are counted:
        RETURN COLLAPSED, AGGREGATE.
    detect: when a match is reported: 'earliest' (as soon as it is certain), or 'complete' (when all its situations have
        ended). For situation patterns.
    closure: how closures inside SEQ are evaluated under skip-till-any-match: 'auto' (by cost), 'runs' (a run for each
        choice of events), 'postponed' (matching shared by all choices, conditions tested when they are made), or
        'on the fly' (the same, with conditions tested as early as they can be). For event patterns.

    correlation: how two patterns that RECENCY correlates are evaluated: 'auto' (by cost, while running), 'eager' (all
        matches of both), 'live first' (those of the archive that live ones ask for) or 'archive first' (live ones that
        those of the archive ask for). The result is the same.
    result_cache: whether matches that were asked for once are remembered for further ones. For correlations.
    recent_buffer: how many rows of a key are kept for matches that may be asked for (None: those that recency needs);
        older ones are read from the archive. For correlations.

    For streams:
    watermark: how late events may come after later ones: a duration ('10 seconds'), or a number where event time is
        one. Not needed where the DataFrame has a watermark, nor over matches of another pattern, unless nothing bounds
        when those are reported.
    end: event time from which on events do not count; when the watermark is there, open matches are decided as at the
        end of a table.
    event_id: column by which repeated events are recognised; only the first of the same id and time counts.
    late: what becomes of events that come after the watermark: 'drop', or 'keep' in Parquet files at late_path. They
        are counted either way.
    late_path: the directory of the files of late events; given with late='keep'.
    max_state_rows: how many rows one partition key may hold for an open match (None: no limit).
    when_full: what happens beyond max_state_rows: 'error', or 'drop': the open match is given up (and counted), and
        matching resumes after it.
    counters: the name under which a stream's counters are observed. Further patterns of a statement, and patterns over
        the matches of others, get numbered names; other results that are brought together in one query need
        different ones.
    on_error: what happens if the data of one partition key raise an error: 'stop', or 'skip key': the matches of the
        key up to the time before the error are returned, the key is quarantined for good, its later events are counted
        (and kept with late ones, if those are kept), and all other keys continue.
    time_unit: what whole numbers of event time count: 'milliseconds' (the default), 'microseconds' or
        'nanoseconds'. So they fit Spark's clock, whose watermark moves on by milliseconds. The watermark and WITHIN
        stay numbers of event time.
    They are refused where no pattern of the query is over a stream.
    """

    step_budget: int = STEP_BUDGET
    shards: int | None = None
    shard_bytes: int | None = None
    slices: int | str = AUTO
    watermark: str | int | None = None
    end: datetime | str | int | None = None
    event_id: str | None = None
    late: str = "drop"
    late_path: str | None = None
    max_state_rows: int | None = None
    when_full: str = "error"
    match_times: bool = False
    counters: str = "episode"
    detect: str = EARLIEST
    closure: str = AUTO
    results: str = MATCHES
    counts: str = EXACT
    correlation: str = AUTO
    result_cache: bool = True
    recent_buffer: int | None = None
    on_error: str = STOP
    time_unit: str | None = None

    def __new__(cls, *values: object, **named: object) -> Options:
        """Options that there are not are named here, before the constructor would complain in Python's words."""
        known = [one.name for one in fields(cls)]
        unknown = [name for name in named if name not in known]
        if unknown:
            guess = closest(unknown[0], known)
            message = f"Options({unknown[0]}={named[unknown[0]]!r}): there is no such option."
            hint = f"Did you mean {guess}?" if guess else f"Options: {', '.join(known)}."
            raise EpisodeAnalysisError(message, hint=hint)
        return super().__new__(cls)

    def run(self, number: int = 1, arguments: Mapping[str, object] | None = None) -> RunOptions:
        """The options as a planned query takes them. number: which pattern of its statement it is.

        arguments: the values of parameters.

        A stream's counters have their own name in every pattern: the first pattern's is the plain one.
        """
        gives_up = self.when_full == "drop"
        live = StreamOptions(
            self.watermark, self.end, self.event_id, self.late_path, self.max_state_rows, gives_up,
            skips_keys=self.on_error == SKIP_KEY, time_unit=self.time_unit,
        )  # fmt: skip
        same = (
            "step_budget",
            "shards",
            "shard_bytes",
            "slices",
            "match_times",
            "closure",
            "correlation",
            "result_cache",
        )
        return RunOptions(
            **{name: getattr(self, name) for name in (*same, "recent_buffer")},
            eager=self.detect == EARLIEST,
            counters=self.counters if number == 1 else f"{self.counters}_{number}",
            arguments=arguments or {},
            live=live,
            collapsed=self.results == COLLAPSED,
            exact=self.counts == EXACT,
        )

    def check_streams(self, planned: Iterable[Planned | Stream]) -> None:
        """Options of streams need a pattern over a stream among the planned ones: no option is accepted and ignored."""
        given = [one.name for one in fields(self) if one.name in OF_STREAMS and getattr(self, one.name) != one.default]
        patterns = list(planned)
        streams = [pattern for pattern in patterns if pattern.is_stream]
        if isinstance(self.slices, int) and patterns and len(streams) == len(patterns):
            raise EpisodeAnalysisError(
                f"Options(slices={self.slices}): slices of time are for tables, and this query is over a stream, where "
                "the events of a key are matched as they come.",
                hint="Leave it out. Spread a stream's load over more keys: PARTITION BY a finer key, if the pattern "
                "allows it.",
            )
        if streams:
            self._check_watermark(streams)
        if not given or streams:
            return
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in given)
        purposes = "; ".join(f"{name}: {OF_STREAMS[name]}" for name in given)
        message = f"Options({shown}): for patterns over streams, and no pattern of this query is over a stream."
        hint = f"{purposes}. Leave {'it' if len(given) == 1 else 'them'} out, or read the events with readStream."
        raise EpisodeAnalysisError(message, hint=hint)

    def _check_watermark(self, streams: Iterable[Planned | Stream]) -> None:
        """One watermark is for the streams of a query, or for a pattern over matches, and must be of use."""
        if self.watermark is None:
            return
        users = [stream for stream in streams if stream.takes_watermark]
        given = f"Options(watermark={self.watermark!r})"
        if not users:
            message = f"{given}: the events are matches of another pattern, and come with its watermark."
            raise EpisodeAnalysisError(message, hint="Leave the watermark out.")
        if len({stream.of_matches for stream in users}) > 1:
            raise EpisodeAnalysisError(
                f"{given} is for a stream of this query; of one of its patterns over matches it is not known how late "
                "they come.",
                hint="Add WITHIN to the pattern that gives the matches, and order the other one by their times as they "
                "are; or make two calls, each with a watermark of its own.",
            )

    def check_use(self, languages: Collection[Language[Any]]) -> None:
        """Each option that was given must have a meaning for one of the patterns, whose languages these are."""
        for one in fields(self):
            value = getattr(self, one.name)
            users = [language for language in LANGUAGES.values() if one.name in language.options]
            if users and languages and value != one.default and not any(used in users for used in languages):
                language = min(languages, key=lambda language: language.name)
                message = f"Options({one.name}={value!r}) has no meaning for {language.one}."
                hint = f"It is for {' and '.join(f'{user.name}s' for user in users)}."
                raise EpisodeAnalysisError(message, hint=hint)

    def __post_init__(self) -> None:
        for name in ("step_budget", "shards", "shard_bytes", "max_state_rows", "recent_buffer"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise EpisodeAnalysisError(f"Options({name}={value!r}): a whole number of at least 1 is needed.")
        number = isinstance(self.slices, int) and not isinstance(self.slices, bool)
        if not (self.slices in (AUTO, OFF) or (number and int(self.slices) >= 2)):
            message = f"Options(slices={self.slices!r}): 'auto', 'off' or a whole number of at least 2 is needed."
            hint = "It is the number of slices of time into which a large key is cut."
            raise EpisodeAnalysisError(message, hint=hint)
        self._check_choice("when_full", "error", "drop")
        if self.when_full == "drop" and self.max_state_rows is None:
            message = "Options(when_full='drop') says what happens beyond max_state_rows, which is not given."
            hint = "Write for example Options(max_state_rows=100_000, when_full='drop')."
            raise EpisodeAnalysisError(message, hint=hint)
        self._check_choice("detect", EARLIEST, COMPLETE)
        self._check_choice("closure", *ENGINES)
        self._check_choice("results", MATCHES, COLLAPSED)
        self._check_choice("counts", EXACT, DOUBLE)
        self._check_choice("correlation", AUTO, *(strategy.value for strategy in CorrelationStrategy))
        if not isinstance(self.result_cache, bool):
            raise EpisodeAnalysisError(f"Options(result_cache={self.result_cache!r}): True or False is needed.")
        for name, given in (("result_cache", not self.result_cache), ("recent_buffer", self.recent_buffer is not None)):
            if given and self.correlation == CorrelationStrategy.EAGER.value:
                raise EpisodeAnalysisError(
                    f"Options({name}={getattr(self, name)!r}) is for matches that are asked for; where all are found "
                    "eagerly, none is.",
                    hint="Leave it out, or the strategy to episode: correlation='auto'.",
                )
        self._check_choice("on_error", STOP, SKIP_KEY)
        if self.time_unit is not None:
            self._check_choice("time_unit", *TIME_UNITS)
        self._check_choice("late", "drop", "keep")
        if (self.late == "keep") != (self.late_path is not None):
            message = "Late events are kept where both are given: Options(late='keep', late_path='…')."
            hint = "late_path is a directory; each micro-batch with late events adds a Parquet file."
            raise EpisodeAnalysisError(message, hint=hint)

    def _check_choice(self, name: str, *choices: str) -> None:
        value = getattr(self, name)
        if value not in choices:
            known = " or ".join(map(repr, choices)) if len(choices) == 2 else f"one of {', '.join(map(repr, choices))}"
            raise EpisodeAnalysisError(f"Options({name}={value!r}): {known} is needed.")


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
