"""Emits the search of a row pattern: partitions, start rows, and where an attempt begins.

For every start row the pattern runs depth first; the first way to ACCEPT is the preferred match (SQL:2016 part 5,
DejaVu's modes). Conditions of single rows are bits computed before; conditions that depend on the match are emitted
where the pattern tries a row (`instructions`). The results of an attempt are in `outcomes`. A query's code has only
what the query needs: see `RowShape`.

An attempt that needs rows to come waits. If attempts are kept, all that it has done so far stays in arrays by row of
the batch, and it continues from there when rows come; otherwise it starts over. Nothing that it has done can turn out
otherwise with more rows: rows are read only if they and the rows that NEXT needs are present, `$` waits at the last
row, and a window that has ended has ended for good. INCREMENTAL MATCH does not wait at one place: it takes all ways,
and those that come to the last row are kept one by one (`waiting_ways`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING

from episode.matchers.codes import UNMATCHED
from episode.matchers.rows import arrays as layout
from episode.matchers.rows.code import frames as framing
from episode.matchers.rows.code import waiting_ways as ways
from episode.matchers.rows.code.arrays import BUDGET, LOOKAHEAD, PATIENCE, TYPES, UNTIL, WITHIN, RunningMatch
from episode.matchers.rows.code.sieves import DISMISSED, FAILS, LACKING, UNDECIDED, begin_sieve, seek_labels, sift
from episode.native.builder import Scope, entry_scope
from episode.native.ir import BOOL, I64, U64, Block, Operand, Value, Variable

if TYPE_CHECKING:
    from episode.matchers.rows.code.choices import Choices
    from episode.matchers.rows.code.conditions import RowConditions
    from episode.matchers.rows.code.shape import RowShape


class SearchFrame:
    """The function under construction: its variables and blocks, and the values that every part of the search needs."""

    def __init__(
        self, shape: RowShape, choices: Choices, conditions: Callable[[Scope, RunningMatch], RowConditions]
    ) -> None:
        self.shape, self.choices = shape, choices
        s = self.s = entry_scope("search", TYPES)
        f = self.f = s.f
        self.within = s.settings[WITHIN].bits_as(U64)
        self.until, self.patience, self.budget = s.settings[UNTIL], s.settings[PATIENCE], s.settings[BUDGET]
        self.partitions = s.key_lo.length

        def number(name: str, start: Operand = 0) -> Variable:
            return f.variable(name, start)

        # of the call
        self.outs, self.used = number("outs", s.cursor[layout.OUTS]), number("used", s.cursor[layout.PATHS])
        self.generation, self.attempts = number("generation", s.cursor[layout.GENERATION]), number("attempts", 0)
        self.attempts.set(s.cursor[layout.ATTEMPTS])
        self.all_steps = number("all_steps", s.cursor[layout.ALL_STEPS])
        self.lists_found = number("lists", s.cursor[layout.AT_LIMIT].equals(0)) if shape.keeps_lists else None
        # of a partition
        self.k = number("k", s.cursor[layout.AT_PARTITION])
        self.lo, self.hi, self.start = number("lo"), number("hi"), number("start")
        waits_for_next = shape.looks_ahead and not shape.final
        self.available = number("available") if waits_for_next else self.hi
        self.number, self.cover, self.hold = number("number"), number("cover"), number("hold")
        self.partition_outs, self.partition_used = number("partition_outs"), number("partition_used")
        self.pendings, self.at_end = number("pendings"), number("at_end")
        self.stamp, self.taken, self.remembered_to = number("stamp"), number("taken"), number("remembered_to")
        self.memory_on, self.resumes = number("memory_on", False), number("resumes", False)
        self.last_end, self.last_path = number("last_end"), number("last_path")
        self.full = number("full")
        self.bottom, self.stack_room = number("bottom", 0), number("stack_room", s.stack_pc.length)
        # of an attempt
        self.row, self.pc, self.sp = number("row"), number("pc"), number("sp")
        self.steps, self.before, self.alarm = number("steps"), number("before"), number("alarm")
        self.furthest, self.frontier = number("furthest"), number("frontier")
        self.length, self.label_place, self.loop_steps = number("length"), number("label_place"), number("rushed")
        self.found_from, self.found_path = number("found_from"), number("found_path")
        self.mine, self.latest, self.cut = number("mine"), number("latest"), number("cut")
        self.sieve, self.base = number("sieve"), number("base")
        self.waiting, self.has_empty = number("waiting", False), number("has_empty", False)
        self.lacking = number("lacking", False)
        self.origin: Operand = f.value(0) if shape.by_attempt else self.start
        self.match = RunningMatch(
            self.start, self.row, f.value(self.origin) if shape.by_attempt else self.start, self.lo, self.hi,
            self.number, self.start,
        )  # fmt: skip
        self.conditions = conditions(s, self.match)
        for label in sorted(self.conditions.traits.tracked):
            self.match.last_row[label] = number(f"last_row_{label}", -1)
            self.match.first_row[label] = number(f"first_row_{label}", -1)
        self.follows = shape.may_follow_last_match(bool(self.conditions.traits.tracked))
        self.remembers = shape.memory != layout.NO_MEMORY and not choices.is_certain
        self.way = ways.WayShape(shape.labels, shape.loops + 1, len(self.conditions.traits.aggregates))
        block = f.block
        self.next_partition, self.next_start = block("next_partition"), block("next_start")
        self.dismissed, self.begin = block("dismissed"), block("begin_attempt")
        self.fail, self.dispatch = block("fail"), block("dispatch")
        self.accepted, self.exhausted, self.waits = block("accepted"), block("exhausted"), block("waits")
        self.spent, self.attempt_full = block("spent"), block("attempt_full")
        self.nothing, self.give = block("nothing"), block("give")
        self.end_partition, self.partition_full = block("end_partition"), block("partition_full")

    def set_all(self, **values: Operand) -> None:
        """Set variables, one after the other."""
        for name, value in values.items():
            getattr(self, name).set(value)

    def get_opened(self, field: int) -> Value:
        return self.s.opened[self.partitions * field + self.k]

    def set_opened(self, field: int, value: Operand) -> None:
        given = self.f.value(value)
        self.s.opened[self.partitions * field + self.k] = given.to(I64) if given.type is BOOL else given

    def offers(self, row: Value, bits: int) -> Value:
        """Does a row offer one of these labels?"""
        return (self.s.bits[row] & self.f.constant(bits, U64)).differs(0)

    def is_late(self, row: Value) -> Value:
        """Is a row beyond the window of the start row?"""
        return (self.s.time[row] - self.s.time[self.start]).bits_as(U64) > self.within

    def window_ended(self) -> Value:
        """Has every row of the window come, in time?"""
        f, begin = self.f, self.s.time[self.start]
        if not self.shape.windowed:
            return f.constant(False, BOOL)
        return (self.until >= begin) & ((self.until - begin).bits_as(U64) >= self.within)

    def be_full(self, status: int, to: Block | None = None) -> None:
        """Give the attempt up for lack of room."""
        self.full.set(status)
        self.f.jump(to or self.attempt_full)

    def forget_ways(self) -> None:
        """Skip the other ways of the start row that wait."""
        s, f = self.s, self.f
        with f.during(lambda: ways.has_more(s, self.start, width=self.way.width)):
            s.rare[ways.DONE] = s.rare[ways.DONE] + 1

    def fill_marks(self) -> None:
        """Write the rows of labels to the arrays that functions read."""
        for label, last in self.match.last_row.items():
            self.s.last_row[label] = last
            self.s.first_row[label] = self.match.first_row[label]

    def read_marks(self) -> None:
        for label, last in self.match.last_row.items():
            last.set(self.s.last_row[label])
            self.match.first_row[label].set(self.s.first_row[label])


def emit_partitions(c: SearchFrame) -> None:
    """One partition after the other, from the next start row of each as far as the rows allow."""
    f = c.f
    f.join(c.next_partition)
    with f.when(c.k >= c.partitions):
        write_cursor(c)
        f.give(layout.FINE)
    _begin_partition(c)
    f.join(c.next_start)
    _choose_start(c)
    f.jump(c.begin)
    f.at(c.dismissed)
    _dismiss(c)


def write_cursor(c: SearchFrame) -> None:
    s = c.s
    s.cursor[layout.AT_PARTITION], s.cursor[layout.OUTS], s.cursor[layout.PATHS] = c.k, c.outs, c.used
    s.cursor[layout.GENERATION], s.cursor[layout.ATTEMPTS] = c.generation, c.attempts
    s.cursor[layout.ALL_STEPS] = c.all_steps


def _begin_partition(c: SearchFrame) -> None:
    f, s, shape, k = c.f, c.s, c.shape, c.k
    c.lo.set(s.key_lo[k])
    c.hi.set(s.key_hi[k])
    if c.available is not c.hi:
        c.available.set(c.hi - s.settings[LOOKAHEAD])
    c.set_all(start=s.next_start[k], number=s.numbers[k], cover=s.covered[k], hold=-1, at_end=-1, pendings=0)
    c.set_all(partition_outs=c.outs, partition_used=c.used, generation=c.generation + 1, stamp=c.generation)
    c.set_all(taken=c.generation, memory_on=False, remembered_to=-1, last_end=-1, full=layout.FINE, resumes=False)
    if shape.sifts:
        begin_sieve(s, k, shape.kept)
    if shape.by_way:
        ways.begin_partition(s, k)
    if shape.kept:
        c.resumes.set(c.get_opened(layout.OPEN).differs(0))
    if shape.by_attempt:
        c.bottom.set(c.get_opened(layout.STACK))
        c.stack_room.set(c.get_opened(layout.ROOM))
        if c.lists_found is not None:
            with f.when(c.resumes & ~c.lists_found):
                c.set_opened(layout.OPEN, 0)
                c.resumes.set(False)
    if shape.seeks_labels:
        for at in range(shape.required):
            s.seek[at] = s.sought[c.partitions * at + k] if shape.kept else c.lo.value
    if shape.frames is not None:
        framing.begin_frames(s, c.start, c.lo)


def _choose_start(c: SearchFrame) -> None:
    """Find the next start row; ends where an attempt may begin."""
    f, s, shape = c.f, c.s, c.shape
    if shape.by_way:
        with f.when(s.rare[ways.WAYS].differs(0)):
            # The start rows up to the last one explored have continued, as far as they wait.
            c.resumes.set(s.rare[ways.DONE] < s.rare[ways.WAYS])
            with f.either(c.resumes) as otherwise:
                c.start.set(s.ways[(s.rare[ways.FROM] + s.rare[ways.DONE]) * c.way.width + ways.WAY_START])
                otherwise()
                if shape.skip == layout.NEXT_ROW:
                    c.start.set(f.greatest(c.start, s.explored_start[c.k] + 1))
    if shape.frames is not None:
        frames = shape.frames
        start, end = framing.next_start_in_frames(
            s, c.start, s.key_hi[c.k], f.constant(shape.first_bits, U64), seek=frames.seek, endless=frames.endless,
            skips_bare_starts=shape.skips_bare_starts,
        )  # fmt: skip
        c.set_all(start=start, hi=end, lo=s.frame_place[framing.FRAME_AT])
    elif shape.skips_bare_starts:
        with f.when(~c.resumes) if shape.kept else nullcontext():
            _skip_bare_starts(c)
    f.jump_unless(c.start < c.available, c.end_partition)
    c.lacking.set(False)
    c.sieve.set(layout.NOT_SOUGHT if shape.seeks_labels else layout.UNSIFTED if shape.sifts else layout.PASSED)
    if not shape.nullable and not shape.counting:
        with f.when(~c.resumes) if shape.kept else nullcontext():
            _look_at_two_rows(c)
    if shape.kept:
        _look_again(c)


def _skip_bare_starts(c: SearchFrame) -> None:
    """Pass over start rows that offer no first label."""
    with c.f.during(lambda: c.start < c.available) as offered:
        c.f.jump_if(c.offers(c.start, c.shape.first_bits), offered)
        c.start.set(c.start + 1)


def _look_at_two_rows(c: SearchFrame) -> None:
    """Dismiss a start row that offers no first label, or whose successor offers none that may follow."""
    f, shape = c.f, c.shape
    if not shape.skips_bare_starts:
        f.jump_unless(c.offers(c.start, shape.first_bits), c.dismissed)
    if shape.one_row_enough:
        return
    if shape.final:
        f.jump_unless(c.start + 1 < c.available, c.dismissed)
    with nullcontext() if shape.final else f.when(c.start + 1 < c.available):
        f.jump_unless(c.offers(c.start + 1, shape.follow_bits), c.dismissed)


def look_for_labels(c: SearchFrame, otherwise: Block) -> None:
    """Dismiss a start row whose window lacks a label that every match has; set `lacking` if it may still come."""
    f, shape = c.f, c.shape
    c.sieve.set(layout.UNSIFTED if shape.sifts else layout.PASSED)
    found = seek_labels(
        c.s, c.start, c.available, c.hi, required=shape.required, windowed=shape.windowed, final=shape.final
    )
    c.lacking.set(found.equals(LACKING))
    f.jump_if(found.equals(DISMISSED), otherwise)


def run_sieve(c: SearchFrame) -> Value:
    """Look for a row that passes the sieve: the status."""
    windowed, final = c.shape.windowed, c.shape.final
    return sift(c.s, c.start, c.available, c.hi, sieve=c.shape.sieve, windowed=windowed, final=final)


def _look_again(c: SearchFrame) -> None:
    """Check, before an attempt continues, that its labels are present, and a row that passes the sieve."""
    f, shape = c.f, c.shape
    if shape.seeks_labels:
        with nullcontext() if shape.by_way else f.when(c.resumes):
            look_for_labels(c, c.dismissed)
    if shape.by_attempt and shape.sifts:
        with f.when(c.resumes & c.get_opened(layout.SIEVE).equals(layout.STUCK)):
            status = run_sieve(c)
            f.jump_if(status.equals(UNDECIDED), c.end_partition)
            c.set_opened(layout.SIEVE, layout.PASSED)
            f.jump_if(status.equals(FAILS), c.dismissed)
    if shape.by_attempt and shape.seeks_labels and not shape.with_unmatched:
        f.jump_if(c.resumes & c.lacking & (c.get_opened(layout.STEPS) > c.patience), c.end_partition)
    if shape.by_way and shape.seeks_labels:
        with f.when(c.lacking & c.s.rare[ways.KEEPS].differs(0)):
            _stay_without_label(c)


def _stay_without_label(c: SearchFrame) -> None:
    """Keep ways and start rows waiting: before the label comes, no way can end."""
    f, s, shape = c.f, c.s, c.shape
    with f.when(c.hold < 0):
        c.hold.set(c.start)
    kept_as = f.variable("kept_as", 0)
    with f.either(c.resumes) as otherwise:
        kept_as.set(ways.stay(s, shape=c.way))
        otherwise()
        ways.begin_attempt(s, c.start, 0)
        for last in c.match.last_row.values():
            last.set(-1)
        c.fill_marks()
        kept_as.set(ways.keep_way(s, c.start, 0, c.start, 0, c.origin, shape=c.way, loops="loop_rows"))
    leave_without_room(c, kept_as, c.partition_full)
    if shape.skip != layout.NEXT_ROW:
        s.explored_start[c.k] = c.start
        with f.when(~c.resumes):
            c.set_opened(layout.LENGTH, -1)
            c.set_opened(layout.AT_LABEL, -1)
        f.jump(c.end_partition)
        return
    c.resumes.set(False)
    c.start.set(c.start + 1)
    f.jump(c.next_start)


def leave_without_room(c: SearchFrame, kept_as: Value, to: Block) -> None:
    """Leave to make room if a way could not be kept."""
    f = c.f
    with f.when(kept_as.differs(ways.KEPT) & kept_as.differs(ways.GIVEN_UP)):
        c.full.set(f.select(kept_as.equals(ways.NO_ROOM_FOR_WAYS), layout.WAYS_FULL, layout.TURNS_FULL))
        f.jump(to)


def _dismiss(c: SearchFrame) -> None:
    f, shape = c.f, c.shape
    if shape.by_attempt:
        c.set_opened(layout.OPEN, 0)
    if shape.by_way:
        c.forget_ways()
    if shape.kept:
        c.resumes.set(False)
    give_unmatched(c)
    c.start.set(c.start + 1)
    f.jump(c.next_start)


def give_unmatched(c: SearchFrame) -> None:
    """Emit a start row without a match, if these are wanted."""
    f, s = c.f, c.s
    if not c.shape.with_unmatched:
        return
    with f.when(c.start >= c.cover):
        with f.when(c.outs >= s.out_kind.length):
            c.be_full(layout.OUTPUT_FULL, c.partition_full)
        put_match(c, UNMATCHED, 1)


def put_match(c: SearchFrame, kind: Operand, length: Operand) -> None:
    """Put a match without its path; `used` is the end of the path."""
    s = c.s
    s.out_kind[c.outs] = kind
    s.out_start[c.outs] = c.start
    s.out_length[c.outs] = length
    s.out_path_from[c.outs + 1] = c.used
    c.outs.set(c.outs + 1)


def emit_begin(c: SearchFrame, enter: Block) -> None:
    """Begin an attempt, or resume one that waited. enter: the first instruction."""
    f, s, shape = c.f, c.s, c.shape
    f.at(c.begin)
    c.set_all(length=-1, has_empty=False, waiting=False, cut=0, loop_steps=0, found_from=c.outs, found_path=c.used)
    c.set_all(latest=-1, label_place=-1, alarm=first_alarm(c))
    if c.remembers:
        c.base.set(0 if shape.by_attempt else c.start if shape.own_memory else s.key_lo[c.k])
    if shape.by_attempt:
        with f.when(c.resumes):
            c.resumes.set(False)
            take_attempt_up(c)
            f.jump(c.dispatch)
    _begin_memory(c)
    if shape.kept and shape.by_way:
        ways.begin_attempt(s, c.start, c.mine)
    if shape.by_way:
        with f.when(c.resumes):
            c.resumes.set(False)
            _resume_way(c)
            f.jump(c.dispatch)
    c.attempts.set(c.attempts + 1)
    for last in c.match.last_row.values():
        last.set(-1)
    c.set_all(row=c.start, furthest=c.start, frontier=c.start, sp=0, steps=0, before=0)
    f.jump(enter)


def _begin_memory(c: SearchFrame) -> None:
    """Begin a new generation of marks, unless the remembered choices still hold."""
    f, shape = c.f, c.shape
    if not shape.exhaustive and not c.remembers:
        return
    if shape.exhaustive or shape.own_memory:
        c.generation.set(c.generation + 1)
    if c.remembers:
        if shape.own_memory:
            c.stamp.set(c.generation)
            c.memory_on.set(False)
        else:
            with f.when(c.start > c.remembered_to):
                if not shape.exhaustive:
                    c.generation.set(c.generation + 1)
                c.stamp.set(c.generation)
                c.memory_on.set(False)
    c.mine.set(c.generation)


def first_alarm(c: SearchFrame) -> Value:
    """The number of steps of an attempt before its first check."""
    f, shape = c.f, c.shape
    if shape.seeks_labels and not shape.kept:
        return f.value(layout.SEEK_LABELS_AFTER)
    if shape.seeks_labels or shape.sifts:
        return f.least(layout.SEEK_LABELS_AFTER if shape.seeks_labels else layout.MEMORY_AFTER, c.patience)
    return f.value(layout.MEMORY_AFTER)


def _resume_way(c: SearchFrame) -> None:
    s, shape = c.s, c.shape
    if shape.skip != layout.NEXT_ROW:
        c.length.set(c.get_opened(layout.LENGTH))
        c.label_place.set(c.get_opened(layout.AT_LABEL))
    c.set_all(steps=s.ways[(s.rare[ways.FROM] + s.rare[ways.DONE]) * c.way.width + ways.WAY_STEPS], before=c.steps)
    c.set_all(sieve=layout.PASSED, sp=0)
    take_way_up(c)
    c.furthest.set(c.row)


def take_way_up(c: SearchFrame) -> None:
    """Resume the next way of the start row."""
    needs_path = c.conditions.traits.walks_path or c.shape.counting
    row = ways.take_way_up(c.s, c.start, c.origin, shape=c.way, needs_path=needs_path)
    c.read_marks()
    c.set_all(row=row, pc=c.s.rare[ways.ARRIVAL], frontier=row)


# ---- attempts that wait ------------------------------------------------------------------------------------------


def keep_attempt(c: SearchFrame) -> None:
    """Keep the attempt of this partition, to continue from here; see `Attempts`."""
    for field, variable in _kept_numbers(c).items():
        c.set_opened(field, variable)
    for place, mark in _marks(c):
        c.s.marks[c.partitions * place + c.k] = mark.value if mark is not None else -1
    for loop in range(c.shape.loops + 1):
        c.s.marks[c.partitions * (2 * c.shape.labels + loop) + c.k] = c.s.loop_rows[loop]
    c.set_opened(layout.OPEN, c.lists_found if c.lists_found is not None else 1)


def take_attempt_up(c: SearchFrame) -> None:
    """Resume the attempt of this partition as it was kept."""
    c.set_opened(layout.OPEN, 0)
    for field, variable in _kept_numbers(c).items():
        value = c.get_opened(field)
        variable.set(value.differs(0) if variable.type is BOOL else value)
    for place, mark in _marks(c):
        if mark is not None:
            mark.set(c.s.marks[c.partitions * place + c.k])
    for loop in range(c.shape.loops + 1):
        c.s.loop_rows[loop] = c.s.marks[c.partitions * (2 * c.shape.labels + loop) + c.k]
    with c.f.when(c.sieve.equals(layout.NOT_SOUGHT)):
        c.sieve.set(layout.UNSIFTED if c.shape.sifts else layout.PASSED)
    c.set_all(before=c.steps, furthest=c.row, frontier=c.row)


def _kept_numbers(c: SearchFrame) -> dict[int, Variable]:
    return {
        layout.ROW: c.row, layout.PC: c.pc, layout.DEPTH: c.sp, layout.STEPS: c.steps, layout.ATTEMPT: c.mine,
        layout.STAMP: c.stamp, layout.REMEMBERING: c.memory_on, layout.LENGTH: c.length,
        layout.HAS_EMPTY: c.has_empty, layout.CUT_AT: c.cut, layout.SIEVE: c.sieve, layout.LATEST: c.latest,
        layout.AT_LABEL: c.label_place,
    }  # fmt: skip


def _marks(c: SearchFrame) -> Iterator[tuple[int, Variable | None]]:
    """Places of the last and the first rows of labels, with their variables (None: not needed)."""
    for label in range(c.shape.labels):
        yield label, c.match.last_row.get(label)
        yield c.shape.labels + label, c.match.first_row.get(label)
