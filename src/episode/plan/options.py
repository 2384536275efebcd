"""Options of a query, in groups, checked when they are made; and those of one run of a pattern."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cache
from types import NoneType
from typing import Any, ClassVar, Final, Literal, get_args, get_origin, get_type_hints

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest

STEP_BUDGET = 10_000_000
"""Steps of matching from one start row or event, unless Tuning(step_budget=…) sets another number."""

AUTO, OFF = "auto", "off"
EARLIEST: Final = "earliest"
COMPLETE: Final = "complete"
EXACT: Final = "exact"
DOUBLE: Final = "double"
STOP: Final = "stop"
Detect = Literal["earliest", "complete"]


class OptionGroup:
    """A dataclass of options. Names that no group has, and values of a wrong kind, are errors."""

    groups: ClassVar[dict[str, type[OptionGroup]]] = {}

    def __new__(cls, *_: object, **named: object) -> Any:
        """Name options that do not exist before the constructor would complain in Python's words."""
        known = [one.name for one in fields(cls)]  # type: ignore[arg-type]
        for name in named:
            if name not in known:
                message = f"{cls.__name__}({name}={named[name]!r}): there is no such option."
                raise EpisodeAnalysisError(message, hint=cls._hint(name, known))
        return super().__new__(cls)

    @classmethod
    def _hint(cls, name: str, known: list[str]) -> str:
        if name in REMOVED:
            return REMOVED[name]
        for place, group in cls.groups.items():
            if any(one.name == name for one in fields(group)):  # type: ignore[arg-type]
                inner = f"{name}=…" if group is Options else f"{place}={group.__name__}({name}=…)"
                return f"Write Options({inner})."
        guess = closest(name, known)
        return f"Did you mean {guess}?" if guess else f"Options: {', '.join(known)}."

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, kinds in _hints(kind).items():
            value = getattr(self, name)
            if not any(_is_of(value, kind) for kind in kinds):
                raise EpisodeAnalysisError(f"{self.place(name)}: {_kinds_in_words(kinds)} is needed.")

    def place(self, name: str) -> str:
        """The option as it is written."""
        return f"{type(self).__name__}({name}={getattr(self, name)!r})"

    def changes(self) -> Iterator[tuple[OptionGroup, str]]:
        """Options that differ from their defaults, with the groups that they are in."""
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if isinstance(value, OptionGroup):
                yield from value.changes()
            elif value != one.default:
                yield self, one.name


@cache
def _hints(group: Any) -> dict[str, tuple[Any, ...]]:
    """The types that each option of a group may have."""
    hints = get_type_hints(group)
    return {one.name: _kinds(hints[one.name]) for one in fields(group)}


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_args(hint) and get_origin(hint) is not Literal else (hint,)


def _is_of(value: object, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, get_origin(kind) or kind)


def _kinds_in_words(kinds: tuple[Any, ...]) -> str:
    choices = [repr(choice) for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)]
    if choices:
        return " or ".join(choices) if len(choices) == 2 else f"one of {', '.join(choices)}"
    words = {bool: "True or False", int: "a whole number", str: "a text", datetime: "a time"}
    return " or ".join(words.get(kind, f"{kind.__name__}(…)") for kind in kinds if kind is not NoneType)


@dataclass(frozen=True)
class Tuning(OptionGroup):
    """Choices of how a query is evaluated. The result stays the same, except for counts='double'.

    step_budget: steps of matching from one start row before an explosion is reported. For row and event patterns.
    shards: into how many shards the keys are spread (None: chosen from the size of the input).
    shard_bytes: memory that a shard or slice may take in a worker before it is split or streamed (None: the default).
    slices: into how many slices of time a large key, or the whole input without PARTITION BY, is cut, so that several
        tasks match it: 'auto' (by a sample that is read from large files and stream stores without a job), a number for
        every large key (of inputs that come through Spark, one job counts and samples the keys and times), or 'off'.
        For tables: a stream is not sliced.
    closure: how closures inside SEQ are evaluated under skip-till-any-match: 'auto' (by cost), 'runs' (a run for each
        choice of events), 'postponed' (matching shared by all choices, conditions tested when they are made), or
        'on the fly' (the same, with conditions tested as early as they can be). For event patterns.
    counts: 'exact' (DECIMAL(38, 0)), or 'double', for numbers of matches that may be larger. Where matches are counted:
        RETURN COLLAPSED, AGGREGATE.
    correlation: how two patterns that RECENCY correlates are evaluated: 'auto' (by cost, while running), 'eager' (all
        matches of both), 'live first' (those of the archive that live ones ask for) or 'archive first' (live ones that
        those of the archive ask for).
    result_cache: whether matches that were asked for once are remembered for further ones. For correlations.
    recent_buffer: how many rows of a key are kept for matches that may be asked for (None: those that recency needs);
        older ones are read from the archive. For correlations.
    """

    step_budget: int = STEP_BUDGET
    shards: int | None = None
    shard_bytes: int | None = None
    slices: int | str = AUTO
    closure: Literal["auto", "runs", "postponed", "on the fly"] = "auto"
    counts: Literal["exact", "double"] = "exact"
    correlation: Literal["auto", "eager", "live first", "archive first"] = "auto"
    result_cache: bool = True
    recent_buffer: int | None = None

    def __post_init__(self) -> None:
        if not (self.slices in (AUTO, OFF) or (_is_of(self.slices, int) and int(self.slices) >= 2)):
            message = f"{self.place('slices')}: 'auto', 'off' or a whole number of at least 2 is needed."
            hint = "It is the number of slices of time into which a large key is cut."
            raise EpisodeAnalysisError(message, hint=hint)
        super().__post_init__()
        _check_positive(self, "step_budget", "shards", "shard_bytes", "recent_buffer")
        for name, given in (("result_cache", not self.result_cache), ("recent_buffer", self.recent_buffer is not None)):
            if given and self.correlation == "eager":
                raise EpisodeAnalysisError(
                    f"{self.place(name)} is for matches that are asked for; with correlation='eager', all are found "
                    "without being asked for.",
                    hint="Leave it out, or leave the strategy to episode: correlation='auto'.",
                )


@dataclass(frozen=True)
class StreamOptions(OptionGroup):
    """Choices of how a stream is read. Refused if no pattern of the query is over a stream.

    end: event time from which on events do not count; when the watermark is there, open matches are decided as at the
        end of a table.
    event_id: column by which repeated events are recognised; only the first of the same id and time counts.
    late_path: a directory in which events that come after the watermark are kept, as Parquet files (None: they are
        dropped). They are counted either way.
    max_state_rows: how many rows one partition key may hold for an open match (None: no limit).
    when_full: what happens beyond max_state_rows: 'error', or 'drop': the open match is given up (and counted), and
        matching resumes after it.
    on_error: what happens if the data of one partition key raise an error: 'stop', or 'skip key': the matches of the
        key up to the time before the error are returned, the key is quarantined for good, its later events are counted
        (and kept with late ones, if those are kept), and all other keys continue.
    time_unit: what whole numbers of event time count: 'milliseconds' (the default), 'microseconds' or
        'nanoseconds'. So they fit Spark's clock, whose watermark moves on by milliseconds. The watermark and WITHIN
        stay numbers of event time.
    counters: the name under which a stream's counters are observed. Further patterns of a statement, and patterns over
        the matches of others, get numbered names; other results that are brought together in one query need
        different ones.
    """

    end: datetime | str | int | None = None
    event_id: str | None = None
    late_path: str | None = None
    max_state_rows: int | None = None
    when_full: Literal["error", "drop"] = "error"
    on_error: Literal["stop", "skip key"] = "stop"
    time_unit: Literal["milliseconds", "microseconds", "nanoseconds"] | None = None
    counters: str = "episode"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_positive(self, "max_state_rows")
        if self.gives_up and self.max_state_rows is None:
            message = "StreamOptions(when_full='drop') sets what happens beyond max_state_rows, which is not given."
            hint = "Write for example StreamOptions(max_state_rows=100_000, when_full='drop')."
            raise EpisodeAnalysisError(message, hint=hint)

    @property
    def gives_up(self) -> bool:
        """Is an open match dropped if a key holds more than max_state_rows, or is that an error?"""
        return self.when_full == "drop"

    @property
    def skips_keys(self) -> bool:
        """Is a key whose data raise an error quarantined, or does the query stop?"""
        return self.on_error != STOP


@dataclass(frozen=True)
class Options(OptionGroup):
    """Options of a query. An option that no pattern of the query has a use for is refused.

    watermark: how late events of a stream may come after later ones: a duration ('10 seconds'), or a number where event
        time is one. Not needed where the DataFrame has a watermark, nor over matches of another pattern, unless nothing
        bounds when those are reported.
    match_times: two more columns, match_start and match_end: the least and the greatest event time of a match. Matches
        of event patterns have them even without this option.
    detect: when a match is reported: 'earliest' (as soon as it is certain), or 'complete' (when all its situations have
        ended). For situation patterns.
    tuning: how the query is evaluated; the result is the same.
    stream: how streams are read.
    """

    watermark: str | int | None = None
    match_times: bool = False
    detect: Detect = EARLIEST
    tuning: Tuning = field(default_factory=Tuning)
    stream: StreamOptions = field(default_factory=StreamOptions)

    @property
    def eager(self) -> bool:
        """Are matches of situations reported as soon as they are certain?"""
        return self.detect == EARLIEST

    def run(self, number: int = 1, arguments: Mapping[str, object] | None = None) -> RunOptions:
        """The options of one planned pattern. number: which pattern of its statement it is."""
        own = {one.name: getattr(self, one.name) for one in fields(Options)}
        return RunOptions(**own, number=number, arguments=arguments or {})


@dataclass(frozen=True)
class RunOptions(Options):
    """Options of one planned pattern.

    number: which pattern of its statement it is. arguments: the values of the query's parameters. correlated: is the
    pattern one of two that are correlated?
    """

    number: int = 1
    arguments: Mapping[str, object] = field(default_factory=dict)
    correlated: bool = False

    @property
    def counters(self) -> str:
        """The name under which the counters of its stream are observed: the first pattern's is the plain one."""
        return self.stream.counters if self.number == 1 else f"{self.stream.counters}_{self.number}"


OptionGroup.groups.update({"": Options, "tuning": Tuning, "stream": StreamOptions})
REMOVED = {
    "results": "Write RETURN COLLAPSED in the query.",
    "late": "Late events are dropped unless they are kept: StreamOptions(late_path='…').",
}
"""Options of earlier versions, and their replacements."""


def _check_positive(group: OptionGroup, *names: str) -> None:
    for name in names:
        value = getattr(group, name)
        if value is not None and value < 1:
            raise EpisodeAnalysisError(f"{group.place(name)}: a whole number of at least 1 is needed.")
