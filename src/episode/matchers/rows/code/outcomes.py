"""Emits the outcomes of attempts: matches and their numbers, rows that wait, and where the search continues."""

from __future__ import annotations

from contextlib import nullcontext

from episode.matchers.codes import EMPTY, MATCHED, TIMED_OUT
from episode.matchers.rows import arrays as layout
from episode.matchers.rows.code import frames as framing
from episode.matchers.rows.code import paths
from episode.matchers.rows.code import waiting_ways as ways
from episode.matchers.rows.code.arrays import ALLOWED
from episode.matchers.rows.code.search import SearchFrame, give_unmatched, keep_attempt, put_match, write_cursor
from episode.matchers.rows.code.sieves import keep_sieve
from episode.native.ir import BOOL, Block, Operand, Value

# ---- ACCEPT ------------------------------------------------------------------------------------------------------


def accept(c: SearchFrame, fail: Block) -> None:
    """Accept the rows from the start row to the row before this one as a match."""
    f, s, shape = c.f, c.s, c.shape
    depth = c.row - c.start
    if shape.mode == layout.PREFERRED:
        c.length.set(depth)
        f.jump(c.accepted)
        return
    with f.when(depth.equals(0)):
        c.has_empty.set(True)
        f.jump(fail)
    if shape.mode == layout.MAXIMAL:
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
    if shape.mode == layout.INCREMENTAL:
        old = (c.start <= s.explored_start[c.k]) & (end < s.explored_to[c.k])
        keep = ~old & s.end_taken[end - c.lo].differs(c.taken)
    if shape.by_way:
        wanted = keep if shape.skip < layout.FIRST_LABEL else f.constant(True, BOOL)
        with f.when((s.rare[ways.KNOWN_FROM] > c.start) & wanted):
            ways.write_path(s, c.start, c.origin)
    if c.lists_found is None:
        with f.when(keep):
            _put_found(c, depth)
    else:
        with f.either(c.lists_found) as otherwise:
            added = paths.with_match(s, c.latest, c.start, c.row, c.origin)
            with f.when(added.equals(paths.NO_ROOM)):
                c.be_full(layout.TURNS_FULL)
            c.latest.set(added)
            otherwise()
            _put_found(c, depth)
    s.seen_end[end - c.origin] = c.mine
    if shape.mode == layout.INCREMENTAL:
        s.end_taken[end - c.lo] = c.taken
    with f.when(depth > c.length):
        c.length.set(depth)
        if shape.skip >= layout.FIRST_LABEL:
            begin = c.start - c.origin
            first = shape.skip == layout.FIRST_LABEL
            c.label_place.set(paths.place_of_label(s, "path", begin, depth, first=first, labels=shape.skip_mask))


def _put_found(c: SearchFrame, depth: Value) -> None:
    """Put a match into the output; it gets its number later."""
    need_room(c, depth, c.attempt_full)
    copy_path(c, "path", c.start - c.origin, depth)
    put_match(c, MATCHED, depth)


def need_room(c: SearchFrame, length: Operand, otherwise: Block) -> None:
    """Check that there is room for one more match with a path of this length."""
    f, s = c.f, c.s
    with f.when(c.outs >= s.out_kind.length):
        c.be_full(layout.OUTPUT_FULL, otherwise)
    with f.when(c.used + length > s.out_path.length):
        c.be_full(layout.PATHS_FULL, otherwise)


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
    f.at(c.accepted)
    if c.shape.mode == layout.PREFERRED:
        _account(c)
    f.jump(c.give if c.shape.mode == layout.PREFERRED else c.exhausted)
    f.at(c.exhausted)
    _account(c)
    _end_of_ways(c)
    f.at(c.spent)
    s.cursor[layout.STATUS_ROW] = c.start
    f.give(layout.BUDGET_SPENT)
    emitters = {
        c.waits: _wait, c.attempt_full: _give_attempt_up, c.nothing: _give_nothing, c.give: _give,
        c.partition_full: _leave_for_room, c.end_partition: _end_partition,
    }  # fmt: skip
    for block, emit in emitters.items():
        f.at(block)
        emit(c)


def _account(c: SearchFrame) -> None:
    """Add the steps of the attempt up; too many beyond what rows account for are an error."""
    f, s, shape = c.f, c.s, c.shape
    c.all_steps.set(c.all_steps + c.steps - c.before)
    with f.when(c.steps > layout.MEMORY_AFTER):
        taken = c.steps - c.before
        if shape.bounded:
            excess = taken - (c.furthest - c.start + 1) * layout.STEPS_PER_ROW
        else:
            given = f.greatest(c.length, c.used - c.found_path) * layout.STEPS_PER_ROW
            excess = taken - c.loop_steps + c.loop_steps.divide(8) - given
        s.cursor[layout.EXCESS] = s.cursor[layout.EXCESS] + f.greatest(0, excess)
        with f.when(s.cursor[layout.EXCESS] > s.settings[ALLOWED]):
            s.cursor[layout.STATUS_ROW] = c.start
            f.give(layout.ALL_BUDGETS_SPENT)


def _end_of_ways(c: SearchFrame) -> None:
    """Give the result after all ways were taken."""
    f, shape = c.f, c.shape
    if shape.mode == layout.PREFERRED:
        f.jump(c.nothing)
        return
    if shape.by_way:
        c.forget_ways()
    if shape.mode == layout.INCREMENTAL and not shape.final:
        if shape.skip != layout.NEXT_ROW:
            with f.when(c.waiting):
                _leave_incremental(c)
        else:
            with f.when(c.waiting & (c.hold < 0)):
                c.hold.set(c.start)
    elif shape.mode != layout.INCREMENTAL:
        with f.when((c.length < 0) & c.has_empty):
            c.length.set(0)
    f.branch(c.length >= 0, c.give, c.nothing)


def _leave_incremental(c: SearchFrame) -> None:
    """Leave the partition: the start row has ways that wait, and those after it wait for them."""
    f, s, shape = c.f, c.s, c.shape
    s.explored_start[c.k] = c.start
    if shape.by_way:
        c.set_opened(layout.LENGTH, c.length)
        c.set_opened(layout.AT_LABEL, c.label_place)
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
    if shape.mode == layout.INCREMENTAL or shape.final:
        f.jump(c.exhausted)  # never reached
        return
    if shape.by_attempt:
        keep_attempt(c)
    _account(c)
    if shape.exhaustive:
        c.outs.set(c.found_from)
        c.used.set(c.found_path)
    f.jump(c.end_partition)


def _give_attempt_up(c: SearchFrame) -> None:
    f, shape = c.f, c.shape
    c.all_steps.set(c.all_steps + c.steps - c.before)
    if shape.by_attempt:
        resumes = c.full.equals(layout.STACK_FULL) | c.full.equals(layout.MEMORY_NEEDED)
        with f.when(resumes | c.full.equals(layout.TURNS_FULL)):
            keep_attempt(c)
    c.outs.set(c.found_from)
    c.used.set(c.found_path)
    f.jump(c.partition_full)


def _give_nothing(c: SearchFrame) -> None:
    """Leave the start row without a match."""
    f, shape = c.f, c.shape
    with f.when(~c.has_empty) if shape.mode == layout.INCREMENTAL and shape.nullable else nullcontext():
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
    if shape.memory == layout.PARTITION_MEMORY and not shape.first_ends and c.remembers:
        c.set_all(generation=c.generation + 1, stamp=c.generation, memory_on=False)
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
        copy_path(c, "best" if shape.mode == layout.MAXIMAL else "path", c.start - c.origin, length)
    kind = f.constant(MATCHED, s.out_kind.type)
    if shape.nullable:
        kind = f.select(length.equals(0), f.constant(EMPTY, s.out_kind.type), kind)
    put_match(c, kind, length)


def _give_several(c: SearchFrame) -> None:
    """Order and number the matches of this start, which are in the output already (or in lists)."""
    f, s, shape = c.f, c.s, c.shape
    if c.lists_found is not None:
        with f.when(c.lists_found):
            matches, rows = paths.matches_before(s, c.latest)
            with f.when(c.outs + matches > s.out_kind.length):
                _keep_at_end(c, layout.OUTPUT_FULL)
            with f.when(c.used + rows > s.out_path.length):
                _keep_at_end(c, layout.PATHS_FULL)
            c.outs.set(paths.give_matches(s, c.latest, c.start, c.outs))
            c.used.set(s.out_path_from[c.outs])
    if shape.mode == layout.ALL:
        c.number.set(paths.order_by_length(s, c.found_from, c.outs, c.number))
    else:
        _add_pending(c)


def _keep_at_end(c: SearchFrame, status: int) -> None:
    """Suspend the attempt at its end if the matches do not fit; it continues there."""
    c.set_all(row=c.start + c.length, pc=len(c.shape.steps) - 1, sp=0)
    keep_attempt(c)
    c.be_full(status, c.partition_full)


def _skip(c: SearchFrame) -> None:
    """Move to the start row after a match."""
    f, s, shape = c.f, c.s, c.shape
    c.cover.set(f.greatest(c.cover, f.select(c.length > 0, c.start + c.length, c.cover)))
    one_on = c.start + 1 if shape.frames is None else s.frame_place[framing.FRAME_AT] + 1
    following = f.variable("following", one_on)
    if shape.skip == layout.PAST_LAST_ROW:
        with f.when(c.length > 0):
            following.set(c.start + c.length)
    elif shape.skip >= layout.FIRST_LABEL:
        with f.when(c.length > 0):
            place = c.label_place.value
            if shape.one_result:
                begin = c.used - c.length
                first = shape.skip == layout.FIRST_LABEL
                place = paths.place_of_label(s, "out_path", begin, c.length, first=first, labels=shape.skip_mask)
            with f.when(place <= 0):
                s.cursor[layout.STATUS_ROW] = c.start
                f.give(f.select(place < 0, layout.SKIP_NOT_FOUND, layout.SKIP_TO_FIRST_ROW))
            following.set(c.start + place)
    if shape.frames is not None:
        framing.to_next_frame(s, c.start, following)
    c.start.set(following)
    f.jump(c.next_start)


# ---- the end of a partition --------------------------------------------------------------------------------------


def _leave_for_room(c: SearchFrame) -> None:
    """Leave to get more room: everything is as before the attempt."""
    f, s, shape = c.f, c.s, c.shape
    if shape.mode == layout.INCREMENTAL:
        c.outs.set(c.partition_outs)
        c.used.set(c.partition_used)
        if shape.by_way:
            s.cursor[layout.TURNS_END] = s.rare[ways.TURNS_FROM]
    else:
        s.next_start[c.k] = c.start if shape.frames is None else s.frame_place[framing.FRAME_AT]
        s.numbers[c.k] = c.number
        s.covered[c.k] = c.cover
    write_cursor(c)
    f.give(c.full)


def _end_partition(c: SearchFrame) -> None:
    f, s, shape = c.f, c.s, c.shape
    k = c.k.value
    if shape.mode == layout.INCREMENTAL:
        _end_incremental(c)
    s.next_start[k] = f.select(c.hold >= 0, c.hold, c.start)
    s.numbers[k] = c.number
    s.covered[k] = c.cover
    if shape.kept and shape.sifts:
        keep_sieve(s, k)
    if shape.by_way:
        ways.settle_ways(s, k, shape=c.way)
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
            held, outs, used, pendings = paths.hold_back(
                s, c.at_end, c.hi, is_taken, c.partition_outs, c.outs, c.used, c.pendings
            )
            undecided.set(held)
            c.set_all(outs=outs, used=used, pendings=pendings)
    with f.when(c.pendings > 0):
        c.number.set(paths.number_by_end(s, c.pendings, c.number))
    if shape.skip == layout.NEXT_ROW:
        s.explored_start[c.k] = c.start - 1
    s.explored_to[c.k] = f.select(undecided, c.hi - 1, c.available)
