"""The shape of a row pattern: everything that its code depends on; all else is data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from episode.matchers.code.aggregates import AggregateShape
from episode.matchers.code.expressions import LanePlaces
from episode.matchers.prepare import Prepared, aggregate_of
from episode.matchers.rows import arrays as layout
from episode.matchers.rows.code.array_code import ArrayPlaces, ArrayRoom
from episode.matchers.rows.code.frames import ALL_ROWS
from episode.plan import expressions as ex
from episode.plan.expressions import Expression
from episode.plan.rows.plan import RowPatternPlan
from episode.plan.types import is_words, lane_of

if TYPE_CHECKING:
    from episode.matchers.rows.arrays import Frames, RowProgram, SearchSettings
    from episode.matchers.rows.code.sieves import SieveColumns


LARGE = 40
"""Expressions from which on a condition is a function, so that its code is in the program once."""


@dataclass(frozen=True)
class ColumnPlaces:
    """The lanes of columns and computed arguments."""

    lanes: LanePlaces
    computed: tuple[tuple[Expression, tuple[bool, int, int]], ...]

    @classmethod
    def of(cls, prepared: Prepared) -> ColumnPlaces:
        return cls(LanePlaces.of(prepared.lanes), tuple(prepared.computed.items()))

    def column(self, argument: Expression) -> tuple[bool, int, int]:
        """(is float, row in its lane, row in validity) of an argument; the lane row is -1 if only nulls are known."""
        computed = dict(self.computed)
        if argument in computed:
            return computed[argument]
        valid_at = dict(self.lanes.valid_at)
        if is_words(argument):
            (argument,) = ex.parts_of(argument)
            assert isinstance(argument, ex.Load)
            return False, dict(self.lanes.words_at)[argument.column], valid_at[argument.column]
        assert isinstance(argument, ex.Load)
        lane_row = dict(self.lanes.at).get(argument.column, -1)
        return lane_of(argument.type) == "float", lane_row, valid_at[argument.column]


@dataclass(frozen=True)
class ConditionTraits:
    """Traits of the residual conditions of a query, known before any code is built.

    names: of labels. residuals, arrays, steady: by label. runnings, aggregates: in the order of their rows in agg_*.
    tracked: labels of which navigations read the first or the last row. walks_path: are labels of rows taken earlier
    read? steady: the labels whose last rows a label's rows are compared with, if its condition is nothing else and
    nothing is aggregated; None otherwise.
    """

    names: tuple[str, ...]
    residuals: tuple[tuple[Expression, ...], ...]
    runnings: tuple[ex.Running, ...]
    aggregates: tuple[AggregateShape, ...]
    arrays: tuple[ArrayPlaces, ...]
    tracked: frozenset[int]
    walks_path: bool
    steady: tuple[frozenset[int] | None, ...]

    @classmethod
    def of(cls, plan: RowPatternPlan) -> ConditionTraits:
        names, conditions = plan.labels.names, plan.conditions
        numbered = [part for condition in conditions.values() for part in condition.residual]
        nodes = [node for part in numbered for node in ex.walk(part)]
        runnings = tuple(dict.fromkeys(node for node in nodes if isinstance(node, ex.Running)))
        residuals = tuple(conditions[name].residual if name in conditions else () for name in names)
        parts = [part for residual in residuals for part in residual]
        rows = [at for part in parts for at in _rows_read(part)]
        reads_labels = any(isinstance(node, ex.LabelAt) for part in parts for node in ex.walk(part))
        named = [at for at in rows if isinstance(at, ex.Navigated) and not _walks_path(at)]
        tracked = frozenset(names.index(name) for at in named for name in at.labels or ())
        arrays = tuple(ArrayPlaces.of(residual) for residual in residuals)
        walks_path = reads_labels or any(map(_walks_path, rows)) or any(places.numbers for places in arrays)
        compared = tuple(_compared_with(name, residual, names) for name, residual in zip(names, residuals))
        steady = tuple(None for _ in names) if runnings else compared
        aggregates = tuple(aggregate_of(running) for running in runnings)
        return cls(names, residuals, runnings, aggregates, arrays, tracked, walks_path, steady)

    def numbers_of(self, labels: frozenset[str]) -> frozenset[int]:
        return frozenset(self.names.index(name) for name in labels)

    @property
    def array_rows(self) -> int:
        """The rows that arrays need in agg_*, after the running aggregates."""
        return max((places.rows for places in self.arrays), default=0)

    @property
    def array_room(self) -> ArrayRoom:
        """The greatest length of an array."""
        return ArrayRoom.of_longest(places.room for places in self.arrays)

    def parts(self, label: int) -> tuple[list[Expression], list[Expression]]:
        """The parts of a label's condition: those that are cheap, and those that walk the path or arrays."""
        residual = self.residuals[label]
        dear = [part for part in residual if _is_dear(part)]
        return [part for part in residual if part not in dear], dear

    def is_large(self, label: int) -> bool:
        residual = self.residuals[label]
        return any(map(_is_dear, residual)) or sum(1 for part in residual for _ in ex.walk(part)) > LARGE


def _rows_read(expression: Expression) -> Iterator[ex.RowRef]:
    for node in ex.walk(expression):
        if isinstance(node, (ex.Load, ex.LabelAt, ex.Exists)):
            yield node.at


def _walks_path(at: ex.RowRef) -> bool:
    """Is the row found by walking the path?"""
    return isinstance(at, ex.Navigated) and at.labels is not None and (len(at.labels) > 1 or at.offset > 0)


def _is_dear(part: Expression) -> bool:
    has_array = any(isinstance(node, ex.ArrayExpression) for node in ex.walk(part))
    return has_array or any(map(_walks_path, _rows_read(part)))


def _compared_with(label: str, residual: tuple[Expression, ...], names: tuple[str, ...]) -> frozenset[int] | None:
    """The labels whose last rows a row is compared with; None if the condition has other parts."""
    others = [_other_label(part) for part in residual]
    if None in others or label in others:
        return None
    return frozenset(names.index(other) for other in others if other is not None)


def _other_label(part: Expression) -> str | None:
    """The label of the last row with which a comparison compares the row, if it does just that."""
    if not isinstance(part, ex.Apply) or part.operation not in ex.COMPARISONS:
        return None
    sides = [one.at for one in part.operands if isinstance(one, ex.Load) and one.missing is None]
    others = [at for at in sides if at != ex.Current(0)]
    if len(sides) != 2 or len(others) != 1:
        return None
    (at,) = others
    if not isinstance(at, ex.Navigated) or at.labels is None or at != ex.Navigated(at.labels, False, 0, 0):
        return None
    return next(iter(at.labels)) if len(at.labels) == 1 else None


class RowStep(NamedTuple):
    """An instruction of the pattern, in the columns OP … SLOT of `RowProgram`, with sets of labels as they are in
    uint64. around: the loops around it."""

    op: int
    first: int
    second: int
    label: int
    bit: int
    entry: int
    loops_here: bool
    slot: int
    around: tuple[int, ...]


@dataclass(frozen=True)
class FrameShape:
    """seek: may a match begin at later rows of the frame? endless: do frames end with the partition?"""

    seek: bool
    endless: bool


@dataclass(frozen=True)
class RowShape:
    """The pattern, the matches to find, and whether rows may still come.

    kept: do attempts that wait stay in their arrays? final: will no more rows come? skip_mask: bits of the labels that
    AFTER MATCH SKIP TO names. The other fields are those of `RowProgram` and `SearchSettings`.
    """

    steps: tuple[RowStep, ...]
    slots: int
    loops: int
    labels: int
    first_bits: int
    follow_bits: int
    one_row_enough: bool
    nullable: bool
    required: int
    mode: int
    skip: int
    memory: int
    with_unmatched: bool
    windowed: bool
    timed_out: bool
    looks_ahead: bool
    counting: bool
    bounded: bool
    skip_mask: int
    sieve: SieveColumns | None
    frames: FrameShape | None
    kept: bool
    final: bool

    @staticmethod
    def of(
        program: RowProgram, settings: SearchSettings, skip_mask: int, sieve: SieveColumns | None,
        frames: Frames | None, kept: bool, final: bool,
    ) -> RowShape:  # fmt: skip
        loops = program.loop_ids.tolist()
        bounds = program.loop_from.tolist()
        steps = tuple(
            RowStep(op, first, second, label, bit % 2**64, entry % 2**64, bool(loop), slot, tuple(loops[begin:end]))
            for (op, first, second, label, bit, entry, loop, slot), begin, end in zip(
                program.code.tolist(), bounds, bounds[1:]
            )
        )
        return RowShape(
            steps, program.slots, program.loops, program.labels, int(program.first_bits), int(program.follow_bits),
            bool(program.one_row_enough), bool(program.nullable), len(program.required), settings.mode, settings.skip,
            settings.memory, settings.with_unmatched, settings.within != layout.NO_WINDOW, settings.timed_out,
            settings.lookahead > 0, settings.counting, settings.bounded,
            skip_mask if settings.skip >= layout.FIRST_LABEL else 0, sieve,
            None if frames is None else FrameShape(frames.seek, frames.reach == ALL_ROWS), kept, final,
        )  # fmt: skip

    # ---- what follows from these ---------------------------------------------------------------------------

    @property
    def exhaustive(self) -> bool:
        return self.mode != layout.PREFERRED

    @property
    def one_result(self) -> bool:
        """Does a start row have one match at most?"""
        return self.mode in (layout.PREFERRED, layout.MAXIMAL)

    @property
    def by_way(self) -> bool:
        return self.kept and self.mode == layout.INCREMENTAL

    @property
    def by_attempt(self) -> bool:
        return self.kept and self.mode != layout.INCREMENTAL

    @property
    def keeps_lists(self) -> bool:
        """Are the matches of an attempt that waits kept as turns?"""
        return self.by_attempt and self.mode == layout.ALL

    @property
    def first_ends(self) -> bool:
        """Are all ends that a start row can reach taken by then, so that later start rows need not try them?"""
        incremental = self.mode == layout.INCREMENTAL and self.skip == layout.NEXT_ROW
        return incremental and self.memory == layout.PARTITION_MEMORY and not self.with_unmatched

    @property
    def own_memory(self) -> bool:
        """Does each attempt begin with nothing remembered?"""
        shares = self.mode in (layout.PREFERRED, layout.MAXIMAL) or self.first_ends
        return self.memory == layout.ATTEMPT_MEMORY or not shares

    @property
    def skips_bare_starts(self) -> bool:
        """Are start rows passed over that offer no first label?"""
        return not (self.nullable or self.with_unmatched or self.counting)

    @property
    def seeks_labels(self) -> bool:
        """Are labels looked for that every match has?"""
        ends = self.windowed or self.final
        return self.required > 0 and ends and not self.timed_out and self.frames is None

    @property
    def sifts(self) -> bool:
        return self.sieve is not None and (self.windowed or self.final)

    def may_follow_last_match(self, tracks: bool) -> bool:
        """Does a match continue from a row like the last one if both had the same label there?"""
        follows = self.memory == layout.PARTITION_MEMORY and self.loops == 0 and not tracks and self.one_result
        return follows and not self.counting and self.skip != layout.PAST_LAST_ROW
