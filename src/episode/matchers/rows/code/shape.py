"""What the code of a row pattern depends on: everything else is data."""

from __future__ import annotations

from dataclasses import dataclass

from episode.matchers.rows.arrays import BIT, ENTRY, FIRST, LABEL, LOOP, OP, SECOND, SLOT, Frames, RowProgram, Rules
from episode.matchers.rows.code.frames import ALL_ROWS
from episode.matchers.rows.code.sifting import SieveColumns
from episode.matchers.rows.codes import (
    ALL,
    ATTEMPT_MEMORY,
    FIRST_LABEL,
    INCREMENTAL,
    MAXIMAL,
    NEXT_ROW,
    NO_WINDOW,
    PARTITION_MEMORY,
    PAST_LAST_ROW,
    PREFERRED,
)


@dataclass(frozen=True)
class RowStep:
    """An instruction of the pattern. label, bit: of a MATCH. first, second: where it leads to, or a loop. entry: labels
    of which a row must offer one. loops_here: is it the choice after a greedy loop over one label? slot: its first slot
    of memory; around: the loops around it."""

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
    """The pattern, which matches are wanted, and whether rows may still come.

    kept: do attempts that wait stay in their arrays? final: will no more rows come? skip_mask: bits of the labels that
    AFTER MATCH SKIP TO names. The other fields are those of `RowProgram` and `Rules`.
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
        program: RowProgram, rules: Rules, skip_mask: int, sieve: SieveColumns | None, frames: Frames | None,
        kept: bool, final: bool,
    ) -> RowShape:  # fmt: skip
        loops = program.loop_ids.tolist()
        bounds = program.loop_from.tolist()
        steps = tuple(
            RowStep(
                op=row[OP], first=row[FIRST], second=row[SECOND], label=row[LABEL], bit=row[BIT] % 2**64,
                entry=row[ENTRY] % 2**64, loops_here=bool(row[LOOP]), slot=row[SLOT],
                around=tuple(loops[bounds[at] : bounds[at + 1]]),
            )
            for at, row in enumerate(program.code.tolist())
        )  # fmt: skip
        return RowShape(
            steps, program.slots, program.loops, program.labels, int(program.first_bits), int(program.follow_bits),
            bool(program.one_row_enough), bool(program.nullable), len(program.required), rules.mode, rules.skip,
            rules.memory, rules.with_unmatched, rules.within != NO_WINDOW, rules.timed_out, rules.lookahead > 0,
            rules.counting, rules.bounded, skip_mask if rules.skip >= FIRST_LABEL else 0, sieve,
            None if frames is None else FrameShape(frames.seek, frames.reach == ALL_ROWS), kept, final,
        )  # fmt: skip

    # ---- what follows from these ---------------------------------------------------------------------------

    @property
    def exhaustive(self) -> bool:
        return self.mode != PREFERRED

    @property
    def one_result(self) -> bool:
        """Does a start row have one match at most?"""
        return self.mode in (PREFERRED, MAXIMAL)

    @property
    def by_way(self) -> bool:
        return self.kept and self.mode == INCREMENTAL

    @property
    def by_attempt(self) -> bool:
        return self.kept and self.mode != INCREMENTAL

    @property
    def keeps_lists(self) -> bool:
        """Are the matches of an attempt that waits kept as turns?"""
        return self.by_attempt and self.mode == ALL

    @property
    def first_ends(self) -> bool:
        """Are all ends that a start row can reach taken by then, so that later start rows need not go there?"""
        incremental = self.mode == INCREMENTAL and self.skip == NEXT_ROW
        return incremental and self.memory == PARTITION_MEMORY and not self.with_unmatched

    @property
    def own_memory(self) -> bool:
        """Does each attempt begin with nothing remembered?"""
        shares = self.mode in (PREFERRED, MAXIMAL) or self.first_ends
        return self.memory == ATTEMPT_MEMORY or not shares

    @property
    def leaps(self) -> bool:
        """Are start rows passed over that offer no first label?"""
        return not (self.nullable or self.with_unmatched or self.counting)

    @property
    def looks(self) -> bool:
        """Are labels looked for that every match has?"""
        ends = self.windowed or self.final
        return self.required > 0 and ends and not self.timed_out and self.frames is None

    @property
    def sifts(self) -> bool:
        return self.sieve is not None and (self.windowed or self.final)

    def may_follow_last_match(self, tracks: bool) -> bool:
        """Does a match go on from a row as the last one did if both had the same label there?"""
        follows = self.memory == PARTITION_MEMORY and self.loops == 0 and not tracks and self.one_result
        return follows and not self.counting and self.skip != PAST_LAST_ROW
