"""Emits the outcomes of attempts: matches and their numbers, rows that wait, and where the search continues."""

from __future__ import annotations

from episode.matchers.codes import EMPTY, MATCHED, TIMED_OUT
from episode.matchers.rows.arrays import (
    ALL,
    ALL_BUDGETS_SPENT,
    AT_LABEL,
    ATTEMPT,
    BUDGET_SPENT,
    CUT_AT,
    DEPTH,
    EXCESS,
    FIRST_LABEL,
    HAS_EMPTY,
    INCREMENTAL,
    LATEST,
    LENGTH,
    MAXIMAL,
    MEMORY_AFTER,
    MEMORY_NEEDED,
    NEXT_ROW,
    OPEN,
    OUTPUT_FULL,
    PARTITION_MEMORY,
    PAST_LAST_ROW,
    PATHS_FULL,
    PC,
    PREFERRED,
    REMEMBERING,
    ROW,
    SIEVE,
    SKIP_NOT_FOUND,
    SKIP_TO_FIRST_ROW,
    STACK_FULL,
    STAMP,
    STATUS_ROW,
    STEPS,
    STEPS_PER_ROW,
    TURNS_END,
    TURNS_FULL,
)
from episode.matchers.rows.code import frames as framing
from episode.matchers.rows.code import waiting_ways
from episode.matchers.rows.code.arrays import ALLOWED
from episode.matchers.rows.code.paths import (
    NO_ROOM,
    give_matches,
    hold_back,
    matches_before,
    number_by_end,
    order_by_length,
    place_of_label,
    with_match,
)
from episode.matchers.rows.code.search import SearchFrame, give_unmatched, put_match, write_cursor
from episode.matchers.rows.code.sieves import keep_sieve
from episode.matchers.rows.code.waiting_ways import KNOWN_FROM, TURNS_FROM
from episode.native.ir import BOOL, Block, Operand, Value

# ---- ACCEPT ------------------------------------------------------------------------------------------------------


def accept(c: SearchFrame, fail: Block) -> None:
    """Accept the rows from the start row to the row before this one as a match."""
    f, s, shape = c.f, c.s, c.shape
    depth = c.row - c.start
    if shape.mode == PREFERRED:
        c.length.set(depth)
        f.jump(c.accepted)
        return
    with f.when(depth.equals(0)):
        c.has_empty.set(True)
        f.jump(fail)
    if shape.mode == MAXIMAL:
        with f.when(depth > c.length):
            c.length.set(depth)
            with f.loop(c.start - c.origin, c.row - c.origin) as at:
                s.best[at] = s.path[at]
        f.jump(fail)
        return
    with f.when(s.seen_end[c.row - 1 - c.origin].differs(c.mine)):
        _accept_new_end(c, depth)
    f.jump(fail)


def _accept_new_end(c: SearchFrame, depth: Value) -> None:
    """Accept the first match of this start row that ends here (ALL and INCREMENTAL)."""
    f, s, shape = c.f, c.s, c.shape
    end = c.row - 1
    keep = f.constant(True, BOOL)
    if shape.mode == INCREMENTAL:
        old = (c.start <= s.explored_start[c.k]) & (end < s.explored_to[c.k])
        keep = ~old & s.end_taken[end - c.lo].differs(c.taken)
    if shape.by_way:
        wanted = keep if shape.skip < FIRST_LABEL else f.constant(True, BOOL)
        with f.when((s.rare[KNOWN_FROM] > c.start) & wanted):
            waiting_ways.write_path(s, c.start, c.origin)
    if c.lists_found is None:
        with f.when(keep):
            _put_found(c, depth)
    else:
        with f.either(c.lists_found) as otherwise:
            added = with_match(s, c.latest, c.start, c.row, c.origin)
            with f.when(added.equals(NO_ROOM)):
                c.be_full(TURNS_FULL)
            c.latest.set(added)
            otherwise()
            _put_found(c, depth)
    s.seen_end[end - c.origin] = c.mine
    if shape.mode == INCREMENTAL:
        s.end_taken[end - c.lo] = c.taken
    with f.when(depth > c.length):
        c.length.set(depth)
        if shape.skip >= FIRST_LABEL:
            begin = c.start - c.origin
            c.label_place.set(place_of_label(s, shape.skip == FIRST_LABEL, "path", begin, depth, shape.skip_mask))


def _put_found(c: SearchFrame, depth: Value) -> None:
    """Put a match into the output; it gets its number later."""
    need_room(c, depth, c.attempt_full)
    copy_path(c, "path", c.start - c.origin, depth)
    put_match(c, MATCHED, depth)


def need_room(c: SearchFrame, length: Operand, otherwise: Block) -> None:
    """Check that there is room for one more match with a path of this length."""
    f, s = c.f, c.s
    with f.when(c.outs >= s.out_kind.length):
        c.be_full(OUTPUT_FULL, otherwise)
    with f.when(c.used + length > s.out_path.length):
        c.be_full(PATHS_FULL, otherwise)


def copy_path(c: SearchFrame, source: str, begin: Value, length: Operand) -> None:
    f, s = c.f, c.s
    path, used = s.array(source), c.used.value
    with f.loop(0, length) as at:
        s.out_path[used + at] = path[begin + at]
    c.used.set(used + length)


# ---- the end of an attempt ---------------------------------------------------------------------------------------


def emit_outcomes(c: SearchFrame) -> None:
    """Emit every way in which an attempt can end."""
    f, s = c.f, c.s
    if c.shape.mode == PREFERRED:
        f.at(c.accepted)
        _account(c)
        f.jump(c.give)
    else:
        f.at(c.accepted)
        f.jump(c.exhausted)
    f.at(c.exhausted)
    _account(c)
    _end_of_ways(c)
    f.at(c.waits)
    _wait(c)
    f.at(c.spent)
    s.cursor[STATUS_ROW] = c.start
    f.give(BUDGET_SPENT)
    f.at(c.attempt_full)
    _give_attempt_up(c)
    f.at(c.nothing)
    _give_nothing(c)
    f.at(c.give)
    _give(c)
    f.at(c.partition_full)
    _leave_for_room(c)
    f.at(c.end_partition)
    _end_partition(c)


def _account(c: SearchFrame) -> None:
    """Add the steps of the attempt up; too many beyond what rows account for are an error."""
    f, s, shape = c.f, c.s, c.shape
    c.all_steps.set(c.all_steps + c.steps - c.before)
    with f.when(c.steps > MEMORY_AFTER):
        taken = c.steps - c.before
        if shape.bounded:
            excess = taken - (c.furthest - c.start + 1) * STEPS_PER_ROW
        else:
            given = f.greatest(c.length, c.used - c.found_path) * STEPS_PER_ROW
            excess = taken - c.loop_steps + c.loop_steps.divide(8) - given
        s.cursor[EXCESS] = s.cursor[EXCESS] + f.greatest(0, excess)
        with f.when(s.cursor[EXCESS] > s.settings[ALLOWED]):
            s.cursor[STATUS_ROW] = c.start
            f.give(ALL_BUDGETS_SPENT)


def _end_of_ways(c: SearchFrame) -> None:
    """Give the result after all ways were taken."""
    f, shape = c.f, c.shape
    if shape.mode == PREFERRED:
        f.jump(c.nothing)
        return
    if shape.by_way:
        c.forget_ways()
    if shape.mode == INCREMENTAL and not shape.final:
        if shape.skip != NEXT_ROW:
            with f.when(c.waiting):
                _leave_incremental(c)
        else:
            with f.when(c.waiting & (c.hold < 0)):
                c.hold.set(c.start)
    elif shape.mode != INCREMENTAL:
        with f.when((c.length < 0) & c.has_empty):
            c.length.set(0)
    f.branch(c.length >= 0, c.give, c.nothing)


def _leave_incremental(c: SearchFrame) -> None:
    """Leave the partition: the start row has ways that wait, and those after it wait for them."""
    f, s, shape = c.f, c.s, c.shape
    s.explored_start[c.k] = c.start
    if shape.by_way:
        c.set_opened(LENGTH, c.length)
        c.set_opened(AT_LABEL, c.label_place)
    _add_pending(c)
    f.jump(c.end_partition)


def _add_pending(c: SearchFrame) -> None:
    """Mark the matches of this start row as pending: they are numbered by their ends, with others of the partition."""
    f, s = c.f, c.s
    with f.loop(c.found_from, c.outs) as at:
        s.pending[c.pendings] = at
        c.pendings.set(c.pendings + 1)


def _wait(c: SearchFrame) -> None:
    """Suspend the attempt until rows come."""
    f, shape = c.f, c.shape
    if shape.mode == INCREMENTAL or shape.final:
        f.jump(c.exhausted)  # never reached
        return
    if shape.by_attempt:
        keep_attempt(c, c.row, c.pc, c.sp, c.length)
        c.set_opened(OPEN, c.lists_found if c.lists_found is not None else 1)
    _account(c)
    if shape.exhaustive:
        c.outs.set(c.found_from)
        c.used.set(c.found_path)
    f.jump(c.end_partition)


def _give_attempt_up(c: SearchFrame) -> None:
    f, shape = c.f, c.shape
    c.all_steps.set(c.all_steps + c.steps - c.before)
    if shape.by_attempt:
        full = c.full
        with f.when(full.equals(STACK_FULL) | full.equals(MEMORY_NEEDED) | full.equals(TURNS_FULL)):
            keep_attempt(c, c.row, c.pc, c.sp, c.length)
            c.set_opened(OPEN, c.lists_found if c.lists_found is not None else 1)
    c.outs.set(c.found_from)
    c.used.set(c.found_path)
    f.jump(c.partition_full)


def _give_nothing(c: SearchFrame) -> None:
    """Leave the start row without a match."""
    f, shape = c.f, c.shape
    if shape.mode == INCREMENTAL and shape.nullable:
        with f.when(~c.has_empty):
            give_unmatched(c)
    else:
        give_unmatched(c)
    if shape.timed_out:
        with f.when(c.cut > 0):
            need_room(c, c.cut, c.partition_full)
            c.s.out_number[c.outs] = TIMED_OUT
            copy_path(c, "best", c.start - c.origin, c.cut.value)
            put_match(c, MATCHED, c.cut)
    c.start.set(c.start + 1)
    f.jump(c.next_start)


# ---- matches -----------------------------------------------------------------------------------------------------


def _give(c: SearchFrame) -> None:
    f, shape = c.f, c.shape
    if shape.memory == PARTITION_MEMORY and not shape.first_ends and c.remembers:
        c.generation.set(c.generation + 1)
        c.stamp.set(c.generation)
        c.memory_on.set(False)
    if shape.one_result:
        _give_one(c)
    else:
        with f.either(c.length > 0) as otherwise:
            _give_several(c)
            otherwise()
            _give_one(c)
    _skip(c)


def _give_one(c: SearchFrame) -> None:
    """Emit a match, or an empty one."""
    f, s, shape = c.f, c.s, c.shape
    length = c.length.value
    need_room(c, length, c.partition_full)
    c.number.set(c.number + 1)
    s.out_number[c.outs] = c.number if shape.frames is None else s.frame_place[framing.FRAME_AT]
    if shape.one_result:
        if c.follows:
            c.last_end.set(c.start + length)
            c.last_path.set(c.used - c.start - 1)
        copy_path(c, "best" if shape.mode == MAXIMAL else "path", c.start - c.origin, length)
    kind = f.constant(MATCHED, s.out_kind.type)
    if shape.nullable:
        kind = f.select(length.equals(0), f.constant(EMPTY, s.out_kind.type), kind)
    put_match(c, kind, length)


def _give_several(c: SearchFrame) -> None:
    """Order and number the matches of this start, which are in the output already (or in lists)."""
    f, s, shape = c.f, c.s, c.shape
    if c.lists_found is not None:
        with f.when(c.lists_found):
            matches, rows = matches_before(s, c.latest)
            with f.when(c.outs + matches > s.out_kind.length):
                _keep_at_end(c, OUTPUT_FULL)
            with f.when(c.used + rows > s.out_path.length):
                _keep_at_end(c, PATHS_FULL)
            outs, used = give_matches(s, c.latest, c.start, MATCHED, c.outs)
            c.outs.set(outs)
            c.used.set(used)
    if shape.mode == ALL:
        c.number.set(order_by_length(s, c.found_from, c.outs, c.number))
    else:
        _add_pending(c)


def _keep_at_end(c: SearchFrame, status: int) -> None:
    """Suspend the attempt at its end if the matches do not fit; it continues there."""
    keep_attempt(c, c.start + c.length, len(c.shape.steps) - 1, 0, c.length)
    c.set_opened(OPEN, 1)
    c.be_full(status, c.partition_full)


def _skip(c: SearchFrame) -> None:
    """Move to the start row after a match."""
    f, s, shape = c.f, c.s, c.shape
    c.cover.set(f.greatest(c.cover, f.select(c.length > 0, c.start + c.length, c.cover)))
    one_on = c.start + 1 if shape.frames is None else s.frame_place[framing.FRAME_AT] + 1
    following = f.variable("following", one_on)
    if shape.skip == PAST_LAST_ROW:
        with f.when(c.length > 0):
            following.set(c.start + c.length)
    elif shape.skip >= FIRST_LABEL:
        with f.when(c.length > 0):
            place = c.label_place.value
            if shape.one_result:
                begin = c.used - c.length
                first = shape.skip == FIRST_LABEL
                place = place_of_label(s, first, "out_path", begin, c.length, shape.skip_mask)
            with f.when(place <= 0):
                s.cursor[STATUS_ROW] = c.start
                f.give(f.select(place < 0, SKIP_NOT_FOUND, SKIP_TO_FIRST_ROW))
            following.set(c.start + place)
    if shape.frames is not None:
        framing.to_next_frame(s, c.start, following)
    c.start.set(following)
    f.jump(c.next_start)


# ---- attempts that wait ------------------------------------------------------------------------------------------


def keep_attempt(c: SearchFrame, row: Operand, pc: Operand, depth: Operand, length: Operand) -> None:
    """Keep the attempt of this partition, to continue from here; see `Attempts`."""
    for field, value in (
        (ROW, row), (PC, pc), (DEPTH, depth), (STEPS, c.steps), (ATTEMPT, c.mine), (STAMP, c.stamp),
        (REMEMBERING, c.memory_on), (LENGTH, length), (HAS_EMPTY, c.has_empty), (CUT_AT, c.cut), (SIEVE, c.sieve),
        (LATEST, c.latest), (AT_LABEL, c.label_place),
    ):  # fmt: skip
        c.set_opened(field, value)
    for place, mark in _marks(c):
        c.s.marks[c.partitions * place + c.k] = mark.value if mark is not None else -1
    labels = c.shape.labels
    for loop in range(c.shape.loops + 1):
        c.s.marks[c.partitions * (2 * labels + loop) + c.k] = c.s.loop_rows[loop]


def _marks(c: SearchFrame):  # type: ignore[no-untyped-def]
    """Places of the last and the first rows of labels, with their variables (None: not needed)."""
    labels = c.shape.labels
    for label in range(labels):
        yield label, c.match.last_row.get(label)
        yield labels + label, c.match.first_row.get(label)


def restore_attempt(c: SearchFrame) -> None:
    """Restore the attempt of this partition as it was kept."""
    c.set_opened(OPEN, 0)
    for field, variable in (
        (ROW, c.row), (PC, c.pc), (DEPTH, c.sp), (STEPS, c.steps), (ATTEMPT, c.mine), (STAMP, c.stamp),
        (LENGTH, c.length), (CUT_AT, c.cut), (SIEVE, c.sieve), (LATEST, c.latest), (AT_LABEL, c.label_place),
    ):  # fmt: skip
        variable.set(c.get_opened(field))
    c.memory_on.set(c.get_opened(REMEMBERING).differs(0))
    c.has_empty.set(c.get_opened(HAS_EMPTY).differs(0))
    for place, mark in _marks(c):
        if mark is not None:
            mark.set(c.s.marks[c.partitions * place + c.k])
    for loop in range(c.shape.loops + 1):
        c.s.loop_rows[loop] = c.s.marks[c.partitions * (2 * c.shape.labels + loop) + c.k]


# ---- the end of a partition --------------------------------------------------------------------------------------


def _leave_for_room(c: SearchFrame) -> None:
    """Leave to get more room: everything is as before the attempt."""
    f, s, shape = c.f, c.s, c.shape
    if shape.mode == INCREMENTAL:
        c.outs.set(c.partition_outs)
        c.used.set(c.partition_used)
        if shape.by_way:
            s.cursor[TURNS_END] = s.rare[TURNS_FROM]
    else:
        s.next_start[c.k] = c.start if shape.frames is None else s.frame_place[framing.FRAME_AT]
        s.numbers[c.k] = c.number
        s.covered[c.k] = c.cover
    write_cursor(c)
    f.give(c.full)


def _end_partition(c: SearchFrame) -> None:
    f, s, shape = c.f, c.s, c.shape
    k = c.k.value
    if shape.mode == INCREMENTAL:
        _end_incremental(c)
    s.next_start[k] = f.select(c.hold >= 0, c.hold, c.start)
    s.numbers[k] = c.number
    s.covered[k] = c.cover
    if shape.kept and shape.sifts:
        keep_sieve(s, k)
    if shape.by_way:
        waiting_ways.settle_ways(s, k, c.way)
    if shape.kept and shape.seeks_labels:
        for at in range(shape.required):
            s.sought[c.partitions * at + k] = s.seek[at]
    c.k.set(k + 1)
    f.jump(c.next_partition)


def _end_incremental(c: SearchFrame) -> None:
    f, s, shape = c.f, c.s, c.shape
    undecided = f.variable("undecided", False)
    if not shape.final:
        with f.when((c.at_end >= 0) & (s.explored_to[c.k] < c.hi)):
            is_taken = s.end_taken[c.hi - 1 - c.lo].equals(c.taken)
            held, outs, used, pendings = hold_back(
                s, c.at_end, c.hi, is_taken, c.partition_outs, c.outs, c.used, c.pendings
            )
            undecided.set(held)
            c.outs.set(outs)
            c.used.set(used)
            c.pendings.set(pendings)
    with f.when(c.pendings > 0):
        c.number.set(number_by_end(s, c.pendings, c.number))
    if shape.skip == NEXT_ROW:
        s.explored_start[c.k] = c.start - 1
    s.explored_to[c.k] = f.select(undecided, c.hi - 1, c.available)
