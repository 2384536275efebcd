"""What comes out of a pattern: the values that a matcher delivers for a match, and Spark's expressions around them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Union

from episode.lang.syntax import Span
from episode.lang.user_aggregates import UserAggregate
from episode.plan.expressions import Expression
from episode.plan.labels import Labels

ATOM_PREFIX = "__atom_"
MATCHED_COLUMN = "__episode_matched"
TIMED_OUT_COLUMN = "timed_out"
"""The last output column with EMIT TIMED OUT MATCHES."""

MATCH_START, MATCH_END = "match_start", "match_end"
HIDDEN_START, HIDDEN_END = "__episode_match_start", "__episode_match_end"
"""The same times of a match that is correlated with others, where they are no columns of its output."""
"""The times of a match: the first and the last of its events."""


@dataclass(frozen=True)
class Place:
    """A row of the match by navigation; `final` looks at the whole match, else up to the output row."""

    labels: frozenset[str] | None
    first: bool
    offset: int
    shift: int
    final: bool


@dataclass(frozen=True)
class ColumnAtPlace:
    """The value of an input column at a place."""

    column: str
    place: Place


@dataclass(frozen=True)
class LabelAtPlace:
    """The label of the row at a place: CLASSIFIER."""

    place: Place


@dataclass(frozen=True)
class PlaceExists:
    place: Place


@dataclass(frozen=True)
class NumberOfMatch:
    """MATCH_NUMBER()."""


@dataclass(frozen=True)
class FinalMatches:
    """How many final matches a collapsed one stands for: as decimal(38, 0), or as double."""

    exact: bool


@dataclass(frozen=True)
class MatchConfidence:
    """The probability of a match, where the times of events are imprecise."""


@dataclass(frozen=True)
class RowAggregate:
    """count, count_if, sum, avg, var_*, stddev_* of a row-local argument; None counts rows. `type` is the result's.

    user: where `function` is an aggregate of a user.
    """

    function: str
    labels: frozenset[str] | None
    final: bool
    argument: Expression | None
    type: str
    user: UserAggregate | None = field(default=None, repr=False)


@dataclass(frozen=True)
class DecimalSum:
    """Exact sum of a decimal column, as decimal(38, scale)."""

    column: str
    labels: frozenset[str] | None
    final: bool
    scale: int


@dataclass(frozen=True)
class DecimalAverage:
    """Exact average of a decimal column in the type of Spark's avg: four more digits, rounded half up."""

    column: str
    labels: frozenset[str] | None
    final: bool
    precision: int
    scale: int


@dataclass(frozen=True)
class Extreme:
    """`value` on the row where `by` is least or greatest: min, max, min_by, max_by. The later row wins ties of *_by."""

    function: str
    labels: frozenset[str] | None
    final: bool
    value: Expression
    by: Expression


@dataclass(frozen=True)
class Gathered:
    """Array of a row-local value (None: of labels) over rows; nulls are dropped where `drop_nulls`."""

    labels: frozenset[str] | None
    final: bool
    value: Expression | None
    drop_nulls: bool


OutputAtom = Union[
    ColumnAtPlace,
    LabelAtPlace,
    PlaceExists,
    NumberOfMatch,
    FinalMatches,
    MatchConfidence,
    RowAggregate,
    DecimalSum,
    DecimalAverage,
    Extreme,
    Gathered,
]


@dataclass(frozen=True)
class PlannedMeasure:
    """`sql` over the matcher's output columns; `original` and `span` for messages."""

    name: str
    sql: str
    original: str
    span: Span


@dataclass
class MeasurePlan:
    measures: list[PlannedMeasure]
    atoms: dict[OutputAtom, str] = field(default_factory=dict)


class RowMode(str, Enum):
    """Which rows of a match come out."""

    ONE_ROW = "ONE ROW PER MATCH"
    ALL_SHOW_EMPTY = "ALL ROWS PER MATCH SHOW EMPTY MATCHES"
    ALL_OMIT_EMPTY = "ALL ROWS PER MATCH OMIT EMPTY MATCHES"
    ALL_WITH_UNMATCHED = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"


@dataclass(frozen=True)
class Output:
    """What comes out of a pattern.

    columns: of the input, handed through; `before` of them stand before the measures, the others after.
    leading: those before the measures, (column, name) pairs, if their names in the output are others.
    timed_out: does a last column say of matches that they were cut off by their window?
    """

    labels: Labels
    measures: MeasurePlan
    columns: tuple[str, ...] = ()
    before: int = 0
    rows: RowMode = RowMode.ONE_ROW
    timed_out: bool = False
    leading: tuple[tuple[str, str], ...] = ()

    @property
    def handed(self) -> dict[str, str]:
        """The columns of the input that are handed through, by their names in the output."""
        own = self.columns[self.before :] if self.leading else self.columns
        return {name: column for column, name in (*self.leading, *((one, one) for one in own))}

    def for_workers(self) -> Output:
        """With the values that matchers deliver, without Spark's expressions around them."""
        return replace(self, measures=MeasurePlan([], self.measures.atoms))
