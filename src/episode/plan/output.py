"""Output of a pattern: values that a matcher delivers for a match, Spark's expressions around them, and extents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeVar, Union

from episode.errors import EpisodeAnalysisError
from episode.lang.functions import UserAggregate
from episode.lang.lexer import tokenize
from episode.lang.spark_expression import Unreadable, read_expression
from episode.lang.syntax import Scalar, Source, Span
from episode.lang.trees import exp
from episode.plan.expressions import Expression, Load, Running, walk
from episode.plan.pattern import PatternPlan
from episode.plan.schema import quote

# Labels of a match (row patterns), variables (event patterns) or symbols (situations), and sets of them.


@dataclass(frozen=True)
class Labels:
    """Names in order of first appearance; subsets as sets of labels."""

    names: tuple[str, ...]
    subsets: dict[str, frozenset[str]]

    def members(self, name: str | None) -> frozenset[str] | None:
        """The labels after a name; None for all rows of the match."""
        if name is None:
            return None
        return self.subsets.get(name, frozenset((name,)))

    def common(self, source: Source, scalars: Iterable[Scalar], call: str, span: Span) -> frozenset[str] | None:
        """The labels after the one name that all columns, or CLASSIFIER, inside a navigation or aggregate carry."""
        atoms = [atom for scalar in scalars for _, atom in scalar.atoms]
        found: list[str | None] = [atom.label for atom in atoms if hasattr(atom, "label")]
        names = list(dict.fromkeys(found))
        if len(names) > 1:
            carried = " and ".join("no label" if name is None else name for name in names)
            message = f"All columns inside one {call} must carry the same label; here they carry {carried}."
            raise source.error(EpisodeAnalysisError, message, span, "Write one navigation or aggregate per label.")
        return self.members(names[0] if names else None)


# The output of a pattern: the values that a matcher delivers for a match, and Spark's expressions around them.

ATOM_PREFIX = "__atom_"
MATCHED_COLUMN = "__episode_matched"
TIMED_OUT_COLUMN = "timed_out"
"""The last output column with EMIT TIMED OUT MATCHES."""

MATCH_START, MATCH_END = "match_start", "match_end"
HIDDEN_START, HIDDEN_END = "__episode_match_start", "__episode_match_end"
"""The same times of a match that is correlated with others, if they are not columns of its output."""
"""The times of a match: the first and the last of its events."""


@dataclass(frozen=True)
class RowPlace:
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
    place: RowPlace


@dataclass(frozen=True)
class LabelAtPlace:
    """The label of the row at a place: CLASSIFIER."""

    place: RowPlace


@dataclass(frozen=True)
class PlaceExists:
    place: RowPlace


@dataclass(frozen=True)
class NumberOfMatch:
    """MATCH_NUMBER()."""


@dataclass(frozen=True)
class FinalMatches:
    """The number of final matches that a collapsed one stands for: as decimal(38, 0), or as double."""

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
class RowArray:
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
    RowArray,
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
    """The rows of a match that are returned."""

    ONE_ROW = "ONE ROW PER MATCH"
    ALL_SHOW_EMPTY = "ALL ROWS PER MATCH SHOW EMPTY MATCHES"
    ALL_OMIT_EMPTY = "ALL ROWS PER MATCH OMIT EMPTY MATCHES"
    ALL_WITH_UNMATCHED = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"


@dataclass(frozen=True)
class Output:
    """The output columns of a pattern.

    columns: of the input, passed through; `before` of them precede the measures, the others follow.
    leading: those before the measures, (column, name) pairs, if their names in the output are others.
    timed_out: does a last column mark matches that were cut off by their window?
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
        """Keep the values that matchers deliver, without Spark's expressions around them."""
        return replace(self, measures=MeasurePlan([], self.measures.atoms))


# The columns of a result: those of the matcher, and those computed from its values.


@dataclass(frozen=True)
class ScalarColumn:
    """A scalar expression over the columns of a table. tree: None if only Spark can read it.

    original, source, span: how it is written, and where, if the user wrote it.
    """

    tree: exp.Expression | None
    original: str = ""
    source: Source | None = None
    span: Span | None = None

    @staticmethod
    def of(sql: str, original: str = "", source: Source | None = None, span: Span | None = None) -> ScalarColumn:
        """An expression that a plan has written as SQL."""
        try:
            return ScalarColumn(read_expression(sql, tokenize(sql)[:-1]), original or sql, source, span)
        except Unreadable:
            return ScalarColumn(None, original or sql, source, span)


@dataclass(frozen=True)
class Result:
    """The result of a pattern: columns of the matcher, and the expressions that are evaluated over its values.

    measures: all that is computed from values of the match; `columns` of them are returned, between the matcher's own
    columns `before` and `after`, for the matches for which `conditions` hold. what: a word for one of them in an error,
    before its text or name.
    """

    source: Source
    measures: MeasurePlan
    columns: tuple[PlannedMeasure, ...]
    conditions: tuple[PlannedMeasure, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    what: str = ""

    def name_of(self, measure: PlannedMeasure) -> str:
        return f"{self.what}{measure.name}" if self.what else measure.original

    @property
    def outputs(self) -> list[PlannedMeasure]:
        """Return all columns of the result, over those of the matcher."""
        before, after = (
            [PlannedMeasure(name, quote(name), name, self.source.span.beginning) for name in names]
            for names in (self.before, self.after)
        )
        return [*before, *self.columns, *after]

    def scalar_column(self, measure: PlannedMeasure) -> ScalarColumn:
        return ScalarColumn.of(measure.sql, measure.original, self.source, measure.span)

    def values(self, wanted: Collection[str]) -> frozenset[str]:
        """Return the matcher's columns that the columns with these names (lower-cased) are computed from or mention."""
        texts = [measure.sql for measure in self.columns if measure.name.lower() in wanted]
        texts += [condition.sql for condition in self.conditions]
        named = (token.identifier for sql in texts for token in tokenize(sql) if token.is_name)
        return frozenset((*(name for name in (*self.before, *self.after) if name.lower() in wanted), *named))


# Extents of matches, for every language: the key, the start and the end of a match, next to its own output.

Plan = TypeVar("Plan", bound=PatternPlan)
FIRST, LAST = RowPlace(None, True, 0, 0, True), RowPlace(None, False, 0, 0, True)
COUNT = RowAggregate("count", None, True, None, "bigint")


@dataclass(frozen=True)
class Extent:
    """Expressions over the values that a matcher delivers. key: by column of the input. start, end: None if matches
    have no times; time: the type of both. count: the value that counts the rows of a match, which is not delivered
    unless someone adds it; None if matches have no rows."""

    key: Mapping[str, str] = field(default_factory=dict)
    start: str | None = None
    end: str | None = None
    time: str | None = None
    count: OutputAtom | None = None


def with_atoms(plan: Plan, atoms: Mapping[str, OutputAtom]) -> tuple[Plan, dict[str, str]]:
    """The plan of a pattern that delivers further values, and the expressions of these, by the names given."""
    measures = plan.measures
    known = dict(measures.atoms)
    places: dict[str, str] = {}
    for name, atom in atoms.items():
        if atom not in known:
            numbers = (int(one.removeprefix(ATOM_PREFIX)) for one in known.values())
            known[atom] = f"{ATOM_PREFIX}{max(numbers, default=-1) + 1}"
        places[name] = quote(known[atom])
    return replace(plan, output=replace(plan.output, measures=MeasurePlan(measures.measures, known))), places


def measure_named(plan: PatternPlan, name: str) -> str:
    return next(one.sql for one in plan.measures.measures if one.name == name)


def key_at(plan: PatternPlan, place: RowPlace) -> dict[str, OutputAtom]:
    """The key columns of a match, as one of its rows has them."""
    return {name: ColumnAtPlace(name, place) for name in plan.keys}


# Input columns that conditions and measures read.


def expressions_of(conditions: list[Expression], measures: MeasurePlan) -> list[Expression]:
    found = list(conditions)
    for atom in measures.atoms:
        if isinstance(atom, RowAggregate) and atom.argument is not None:
            found.append(atom.argument)
        elif isinstance(atom, Extreme):
            found += [atom.value, atom.by]
        elif isinstance(atom, RowArray) and atom.value is not None:
            found.append(atom.value)
    for expression in list(found):
        found += [node.argument for node in walk(expression) if isinstance(node, Running) and node.argument is not None]
    return found


def columns_read(expressions: list[Expression], measures: MeasurePlan) -> list[str]:
    columns: list[str] = []
    for expression in expressions:
        for node in walk(expression):
            if isinstance(node, Load):
                columns += [node.column] if node.missing is None else [node.column, node.missing]
    for atom in measures.atoms:
        if isinstance(atom, (ColumnAtPlace, DecimalSum, DecimalAverage)):
            columns.append(atom.column)
    return columns
