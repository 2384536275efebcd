"""The row pattern matcher: backtracking over a flat program in preference order (SQL:2016 part 5, DejaVu's modes).

For every start row the program runs depth first; the first way to ACCEPT is the preferred match. A stack holds the
untried choices. Conditions have two parts: bits (row-local, one uint64 per row, one bit per label) and residuals
(simple comparisons of two loads, and programs of the expression machine). Where conditions do not depend on the path,
a memory of visited (choice, row) states makes nested quantifiers linear; elsewhere step budgets guard, one for each
start row and one for all of them together.

The rows of a match are contiguous, so a match is (start, length) and the instruction that took each row.

An attempt that needs rows to come waits. Where attempts are kept, everything it has done so far stays as it is, in
arrays by row of the batch, and it goes on from there when rows come; elsewhere it starts over. Nothing that it has done
can come out otherwise with more rows: rows are looked at only where they and the rows that NEXT needs are there, `$`
waits at the last row, and a window that has ended stays ended. INCREMENTAL MATCH does not wait at one place: it goes
through all ways, and those that come to the last row are kept one by one (`ways`).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels import opcodes as oc
from episode.kernels.lean import NoNegativeIndices
from episode.kernels.outcomes import EMPTY, MATCHED, TIMED_OUT, UNMATCHED
from episode.kernels.rows.arrays import (
    ALL_STEPS,
    AT_LABEL,
    AT_PARTITION,
    ATTEMPTS,
    BIT,
    CRAMPED,
    CUT,
    ENTRY,
    EXCESS,
    EXTREME_AT,
    FIRST,
    GENERATION,
    LABEL,
    LENGTH,
    LOOP,
    OP,
    OPEN,
    OUTS,
    PASSED,
    PATHS,
    ROOM,
    SECOND,
    SIEVE,
    SIFTED,
    SIFTINGS,
    SLOT,
    STACK,
    STATUS_ROW,
    STEPS,
    STUCK,
    TURNS_END,
    UNLOOKED,
    UNSIFTED,
)
from episode.kernels.rows.attempts import enlarge_stack, keep_attempt, take_attempt_up
from episode.kernels.rows.conditions import residual_holds, take_into_aggregates, tests_hold, walks_the_path
from episode.kernels.rows.frames import FRAME_AT, begin_frames, next_start_in_frames, to_next_frame
from episode.kernels.rows.numbering import hold_back, number_by_end, order_by_length, place_of_label
from episode.kernels.rows.scratch import scratch_of
from episode.kernels.rows.sifting import FAILS, UNDECIDED, seek_labels, sift
from episode.kernels.rows.steady import fix_other_sides, have_other_sides, own_sides_hold, steady_tests_hold
from episode.kernels.rows.turns import NO_ROOM, give_matches, matches_before, with_match
from episode.kernels.rows.ways import (
    ARRIVAL,
    DONE,
    FROM,
    GIVEN_UP,
    KEEPS,
    KEPT,
    KEPT_HERE,
    KNOWN_FROM,
    LABEL_PLACE,
    LATEST_MATCH,
    MINE,
    NO_ROOM_FOR_WAYS,
    RESUMED,
    RUSHED,
    TAKEN,
    TURNS_FROM,
    WAITS,
    WAY_START,
    WAY_STEPS,
    WAYS,
    begin_attempt,
    begin_partition,
    has_more,
    keep_way,
    settle_ways,
    stay,
    take_way_up,
    write_path,
)

PREFERRED, MAXIMAL, INCREMENTAL, ALL = range(4)
PAST_LAST_ROW, NEXT_ROW, FIRST_LABEL, LAST_LABEL = range(4)
FINE, BUDGET_SPENT, SKIP_TO_FIRST_ROW, SKIP_NOT_FOUND, OUTPUT_FULL, PATHS_FULL, STACK_FULL, MEMORY_NEEDED = range(8)
ALL_BUDGETS_SPENT, WAYS_FULL, TURNS_FULL, SIFTING_SLOW = 8, 9, 10, 11
NO_MEMORY, ATTEMPT_MEMORY, PARTITION_MEMORY = range(3)
NO_WINDOW = -1

ZERO, ONE = np.uint64(0), np.uint64(1)
MEMORY_AFTER = 256
STEPS_PER_ROW = 64
BUDGETS = 20
"""All start rows of a feed together may take so many budgets, beyond the steps that the rows they reach account for."""
STEPS_PER_ROW_READ = 1024
"""Where nothing says how far a start row may look, a row accounts for so many steps of all start rows together, and not
for STEPS_PER_ROW of each start row that reaches it. Rows that a loop takes at once are an eighth of a step."""
LOOKS_AFTER = 8
"""Steps after which a start row is asked whether its window has the labels that every match has."""
SIFTED_PER_ROW, LEAST_SIFTED = 64, 1 << 20
"""At the end of input: start rows that look through more rows than that, for each row, are to be sifted all at once."""
NOTHING, FOUND, WAITING, SPENT, FULL = range(5)


@njit(cache=True, nogil=True, pipeline_class=NoNegativeIndices)
def match_partitions(
    program, rules, frames, test_arrays, residuals, navigations, aggregates, rows, partitions, attempts, found, work,
    until, final,
):  # fmt: skip
    """Run every partition from its next start row as far as the rows allow.

    The tuples are those of `kernels.rows.arrays`; frames: None where there are none, and nothing is compiled for them.
    until: rows with time <= until are all here; final: no more rows will come. What is found and the work arrays are
    the caller's and never grow here: where one is too small, the attempt is given up, the state is as before it, and
    the status says which array to enlarge before the call is made again (a kept attempt goes on then). Returns the
    status.
    """
    (code, label_of, loop_from, loop_ids, slots, loops, labels,
     first_bits, follow_bits, one_row_enough, nullable, required) = program  # fmt: skip
    (mode, skip, memory, with_unmatched, within, emit_timed_out, lookahead, budget, patience, counting,
     bounded) = rules  # fmt: skip
    test_from, tests, sieves = test_arrays
    (program_from, program_to, program_result, nav_from, nav_ids, array_from,
     machine_code, _, const_i, const_f) = residuals  # fmt: skip
    nav_first, nav_offset, nav_shift, nav_label, nav_set, nav_plain, track, sets, label_codes = navigations
    (agg_function, agg_set, agg_column, agg_valid, agg_float, agg_from, agg_to, agg_result, agg_nav,
     agg_high) = aggregates  # fmt: skip
    bits, time, key, cols_i, cols_f, valid = rows
    key_lo, key_hi, at_start, next_start, numbers, covered, explored_start, explored_to = partitions
    kept, opened, marks, sought, ways, way_values, turns = attempts
    out_kind, out_start, out_length, out_number, out_path_from, out_path = found
    (cursor, stack_pc, stack_row, stack_low, path, best, previous, memo, seen_end, end_taken, pending,
     agg_i, agg_f, agg_m, agg_n, counts) = work  # fmt: skip
    skip_set = len(sets) - 1
    outs = cursor[OUTS]
    used = cursor[PATHS]
    generation = cursor[GENERATION]
    attempt = cursor[ATTEMPTS]
    scratch = scratch_of(program, test_arrays, residuals, navigations, aggregates)
    (first_row, last_row, tracked, loop_rows, arrival_loops, arrived, seek, rare, frame_place, steady, turned_tests,
     fixed_i, fixed_f, nav_rows, nav_labels, run_i, run_f, run_n, ri, rf, rn) = scratch  # fmt: skip
    aggs = len(agg_function)
    exhaustive = mode != PREFERRED
    windowed = within != NO_WINDOW
    by_way = kept and mode == INCREMENTAL
    by_attempt = kept and mode != INCREMENTAL
    lists = by_attempt and mode == ALL and cursor[CRAMPED] == 0
    # Of INCREMENTAL, all ends that a start can reach are taken by it or by one before: later ones need not go there.
    first_ends = mode == INCREMENTAL and skip == NEXT_ROW and memory == PARTITION_MEMORY and not with_unmatched
    own_memory = memory == ATTEMPT_MEMORY or (exhaustive and not (mode == MAXIMAL or first_ends))
    # A match goes on from a row as the last one did if both had the same label there.
    goes_on = memory == PARTITION_MEMORY and loops == 0 and not track and (mode == PREFERRED or mode == MAXIMAL)
    goes_on = goes_on and not counting
    leaps = not nullable and not with_unmatched and not counting
    looks = len(required) > 0 and (windowed or final) and not emit_timed_out and frames is None
    unsifted = UNSIFTED if len(sieves) > 0 and (windowed or final) else PASSED
    seeks_on = sought.shape[1] > 0
    all_steps = cursor[ALL_STEPS]
    walks = by_way and (counting or walks_the_path(nav_label, nav_offset, array_from, machine_code))
    rows_read = 0
    for k in range(len(key_lo)):
        rows_read += key_hi[k] - key_lo[k]
    allowed = BUDGETS * budget
    if not bounded:
        allowed += STEPS_PER_ROW_READ * rows_read
    most_sifted = SIFTED_PER_ROW * rows_read + LEAST_SIFTED
    bottom = np.int64(0)
    room = len(out_kind)
    path_room = len(out_path)
    stack_room = len(stack_pc)

    for k in range(cursor[AT_PARTITION], len(key_lo)):
        partition_outs, partition_used = outs, used
        lo, hi = key_lo[k], key_hi[k]
        start = next_start[k]
        number = numbers[k]
        cover = covered[k]
        available = hi if final else hi - lookahead
        hold = np.int64(-1)
        pendings = 0
        at_end = np.int64(-1)
        generation += 1
        stamp = rare[TAKEN] = generation
        memory_on = False
        remembered_to = np.int64(-1)
        last_end, last_path = np.int64(-1), np.int64(0)
        full = FINE
        resumes = False
        extreme = sifted_to = np.int64(-1)
        begin_partition(k, rare, opened, cursor, by_way)
        if kept:
            resumes = opened[OPEN, k] != 0
            extreme, sifted_to = opened[EXTREME_AT, k], opened[SIFTED, k]
        if by_attempt:
            bottom, stack_room = opened[STACK, k], opened[ROOM, k]
            if resumes and mode == ALL and not lists:
                opened[OPEN, k] = 0
                resumes = False
        for at in range(len(required)):
            seek[at] = sought[at, k] if seeks_on else lo
        if frames is not None:
            begin_frames(frame_place, start, lo)
        while True:
            if by_way and rare[WAYS]:
                # The start rows up to the last one explored have gone on, as far as they wait.
                resumes = rare[DONE] < rare[WAYS]
                if resumes:
                    start = ways[rare[FROM] + rare[DONE], WAY_START]
                elif skip == NEXT_ROW:
                    start = max(start, explored_start[k] + 1)
            if frames is not None:
                start, hi = next_start_in_frames(frame_place, frames, start, key_hi[k], leaps, first_bits, bits)
                available, lo = hi, frame_place[FRAME_AT]
            elif leaps and not resumes:
                while start < available and (bits[start] & first_bits) == ZERO:
                    start += 1
            if start >= available:
                break
            dismissed = False
            if not nullable and not counting and not resumes:
                # A start row must offer a first label, and its successor a label that may follow.
                possible = (bits[start] & first_bits) != ZERO
                if possible and not one_row_enough:
                    if start + 1 < available:
                        possible = (bits[start + 1] & follow_bits) != ZERO
                    elif final:
                        possible = False
                dismissed = not possible
            lacking = False
            sieve = UNLOOKED if looks else unsifted
            if looks and not dismissed and (resumes or by_way):
                sieve = unsifted
                dismissed, lacking = seek_labels(seek, required, start, available, hi, within, until, final, time, bits)
            if by_attempt and resumes and not dismissed and opened[SIEVE, k] == STUCK:
                sifted, extreme, sifted_to = sift(
                    sieves, start, extreme, sifted_to, available, hi, within, until, final, time, bits, cols_i, cols_f,
                    valid,
                )  # fmt: skip
                if sifted == UNDECIDED:
                    break
                opened[SIEVE, k] = PASSED
                dismissed = sifted == FAILS
            if dismissed:
                if by_attempt:
                    opened[OPEN, k] = 0
                if by_way:
                    while has_more(rare, ways, start):
                        rare[DONE] += 1
                resumes = False
                if with_unmatched and start >= cover:
                    if outs >= room:
                        full = OUTPUT_FULL
                        break
                    out_kind[outs] = UNMATCHED
                    out_start[outs] = start
                    out_length[outs] = 1
                    out_path_from[outs + 1] = used
                    outs += 1
                start += 1
                continue
            if by_attempt and resumes and lacking and not with_unmatched and opened[STEPS, k] > patience:
                break
            if by_way and lacking and rare[KEEPS]:
                # Before the label comes, no way can end: those that wait stay, and a start row waits where it is.
                if hold < 0:
                    hold = start
                if resumes:
                    kept_as = stay(rare, cursor, ways, way_values)
                else:
                    begin_attempt(rare, start, 0)
                    last_row[:] = -1
                    kept_as = keep_way(
                        rare, ways, way_values, turns, cursor, start, 0, start, 0, path, start, first_row, last_row,
                        loop_rows, agg_i, agg_f, agg_m, agg_n, aggs,
                    )  # fmt: skip
                if kept_as != KEPT and kept_as != GIVEN_UP:
                    full = WAYS_FULL if kept_as == NO_ROOM_FOR_WAYS else TURNS_FULL
                    break
                if skip != NEXT_ROW:
                    explored_start[k] = start
                    if not resumes:
                        opened[LENGTH, k] = opened[AT_LABEL, k] = -1
                    break
                resumes = False
                start += 1
                continue

            # ---- one attempt -------------------------------------------------------------------------
            result = NOTHING
            waiting = False
            has_empty = False
            length = np.int64(-1)
            if emit_timed_out:
                cursor[CUT] = 0
            row = furthest = start
            pc = 0
            sp = 0
            steps = 0
            before = 0
            origin = np.int64(0) if by_attempt else start
            frontier = start
            base = np.int64(0) if by_attempt else start if own_memory else key_lo[k]
            found_from, found_path = outs, used
            if resumes and by_attempt:
                begin_attempt(rare, start, 0)
                (row, pc, sp, steps, rare[MINE], stamp, memory_on, length, has_empty, cursor[CUT], sieve,
                 rare[LATEST_MATCH], rare[LABEL_PLACE]) = take_attempt_up(
                     k, opened, marks, first_row, last_row, loop_rows
                )  # fmt: skip
                if sieve == UNLOOKED:
                    sieve = unsifted
                before = steps
                furthest = frontier = row
            else:
                if exhaustive or own_memory or start > remembered_to:
                    generation += 1
                    if own_memory or start > remembered_to:
                        stamp = generation
                        memory_on = False
                if exhaustive or kept:
                    begin_attempt(rare, start, generation)
                rare[RUSHED] = 0
                if resumes:
                    if skip != NEXT_ROW:
                        length, rare[LABEL_PLACE] = opened[LENGTH, k], opened[AT_LABEL, k]
                    steps = before = ways[rare[FROM] + rare[DONE], WAY_STEPS]
                    sieve = PASSED
                    row, pc = take_way_up(
                        rare, ways, way_values, turns, walks, start, path, origin, first_row, last_row, loop_rows,
                        arrival_loops, agg_i, agg_f, agg_m, agg_n, aggs,
                    )  # fmt: skip
                    furthest = frontier = row
                else:
                    attempt += 1
                    if track:
                        for at in range(labels):
                            last_row[at] = -1
            resumes = False
            while True:
                failed = False
                o = code[pc, OP]
                if o == oc.MATCH:
                    if row >= available:
                        failed = True
                        if not final:
                            if row >= hi:
                                passed = (
                                    within != NO_WINDOW
                                    and until >= time[start]
                                    and np.uint64(until - time[start]) >= np.uint64(within)
                                )
                            else:
                                passed = windowed and np.uint64(time[row] - time[start]) > np.uint64(within)
                            if not passed:
                                waiting = True
                                rare[WAITS] = 1
                                if mode != INCREMENTAL:
                                    result = WAITING
                                    break
                        if emit_timed_out and cursor[CUT] == 0:
                            cursor[CUT] = row - start
                            for at in range(start - origin, row - origin):
                                best[at] = path[at]
                    elif windowed and np.uint64(time[row] - time[start]) > np.uint64(within):
                        failed = True
                        if emit_timed_out and cursor[CUT] == 0:
                            cursor[CUT] = row - start
                            for at in range(start - origin, row - origin):
                                best[at] = path[at]
                    else:
                        label = code[pc, LABEL]
                        again = counting and row > start and path[row - 1 - origin] == pc
                        if (bits[row] & np.uint64(code[pc, BIT])) == ZERO:
                            failed = True
                        else:
                            place = row - origin
                            path[place] = pc
                            if tracked[label]:
                                last = last_row[label]
                                previous[place] = last
                                if last < 0:
                                    first_row[label] = row
                                last_row[label] = row
                            if steady[label]:
                                failed = not steady_tests_hold(
                                    row, test_from[label], test_from[label + 1], turned_tests, last_row, cols_i,
                                    cols_f, valid,
                                )  # fmt: skip
                            else:
                                if aggs:
                                    take_into_aggregates(
                                        row == start, place, row, label, number, agg_function, agg_set, agg_column,
                                        agg_valid, agg_float, agg_from, agg_to, agg_result, agg_nav, agg_i, agg_f,
                                        agg_m, agg_n, sets, label_codes, nav_rows, nav_labels, machine_code, ri, rf,
                                        rn, key, cols_i, cols_f, valid, const_i, const_f, run_i, run_f, run_n,
                                    )  # fmt: skip

                                failed = not tests_hold(
                                    test_from[label], test_from[label + 1], tests, origin, start, row, lo, hi,
                                    nav_first, nav_offset, nav_shift, nav_label, nav_set, nav_plain, sets, path,
                                    label_of, first_row, last_row, cols_i, cols_f, valid,
                                )  # fmt: skip
                                if not failed and program_from[label] < program_to[label]:
                                    failed = not residual_holds(
                                        label, origin, start, row, lo, hi, number, program_from, program_to,
                                        program_result, nav_from, nav_ids, nav_first, nav_offset, nav_shift, nav_label,
                                        nav_set, sets, label_codes, label_of, path, first_row, last_row, agg_function,
                                        agg_float, agg_high, agg_i, agg_f, agg_m, agg_n, nav_rows, nav_labels,
                                        machine_code, ri, rf, rn, key, cols_i, cols_f, valid, const_i, const_f, run_i,
                                        run_f, run_n, array_from, max(start, rare[KNOWN_FROM]),
                                    )  # fmt: skip

                            if failed and tracked[label]:
                                last_row[label] = previous[place]
                        if counting and row >= frontier:
                            frontier = row
                            counts[pc, np.int64(again), 0] += 1
                            if failed:
                                counts[pc, np.int64(again), 1] += 1
                        if not failed:
                            row += 1
                            pc += 1
                            if row <= last_end and out_path[last_path + row] == pc - 1:
                                # As the last match went on from here, so does this one.
                                depth = last_end - start
                                for at in range(row, last_end):
                                    path[at - origin] = out_path[last_path + at + 1]
                                if not exhaustive:
                                    result = FOUND
                                    length = depth
                                    break
                                failed = True
                                if depth > length:
                                    length = depth
                                    best[start - origin : last_end - origin] = path[start - origin : last_end - origin]
                            elif code[pc, LOOP] and steady[label] and not memory_on and not counting:
                                # A greedy loop over this label: take rows while they last; each is a way out.
                                # The first row passed the tests, so their other sides are there.
                                if sp >= stack_room:
                                    bottom, stack_room = enlarge_stack(
                                        by_attempt, k, sp, bottom, stack_room, opened, cursor, stack_pc, stack_row,
                                        stack_low,
                                    )  # fmt: skip
                                    if sp >= stack_room:
                                        full = STACK_FULL
                                        result = FULL
                                        break
                                low = row
                                bit = np.uint64(code[pc - 1, BIT])
                                from_test, to_test = test_from[label], test_from[label + 1]
                                fix_other_sides(
                                    from_test, to_test, turned_tests, last_row, cols_i, cols_f, fixed_i, fixed_f
                                )
                                stop = available
                                if sieve != PASSED or lacking:
                                    stop = min(available, row + (LOOKS_AFTER if sieve == UNLOOKED else patience))
                                while row < stop and (bits[row] & bit) != ZERO:
                                    if windowed and np.uint64(time[row] - time[start]) > np.uint64(within):
                                        break
                                    if not own_sides_hold(
                                        row, from_test, to_test, turned_tests, fixed_i, fixed_f, cols_i, cols_f, valid
                                    ):
                                        break
                                    path[row - origin] = pc - 1
                                    if tracked[label]:
                                        previous[row - origin] = last_row[label]
                                        last_row[label] = row
                                    row += 1
                                steps += row - low
                                rare[RUSHED] += row - low
                                if row > low:
                                    stack_pc[bottom + sp] = code[pc, SECOND]
                                    stack_row[bottom + sp], stack_low[bottom + sp] = row - 1, low
                                    sp += 1
                                if row < stop:
                                    pc = code[pc, SECOND]
                            if by_way and row >= available:
                                # At the last row: all that come here alike go on alike.
                                if memory != NO_MEMORY:
                                    era = rare[TAKEN] if first_ends else rare[MINE]
                                    failed = arrived[pc] == era
                                    arrived[pc] = era
                                rare[ARRIVAL], rare[KEPT_HERE], rare[WAITS] = pc, 0, 0
                                for at in range(loops + 1):
                                    arrival_loops[at] = loop_rows[at]
                elif o == oc.SPLIT:
                    steps += 1
                    if steps > MEMORY_AFTER:
                        if memory != NO_MEMORY:
                            memory_on = True
                        if steps > budget and steps > budget + STEPS_PER_ROW * (hi - start):
                            result = SPENT
                            break
                    if sieve == UNLOOKED and steps > LOOKS_AFTER:
                        # Each label that every match has must be offered within the window.
                        sieve = unsifted
                        dismissed, lacking = seek_labels(
                            seek, required, start, available, hi, within, until, final, time, bits
                        )
                        if dismissed:
                            break
                    if steps > patience:
                        if lacking and mode != INCREMENTAL and not with_unmatched:
                            result = WAITING
                            break
                        if sieve == UNSIFTED:
                            # The search has become long: is there a row for which it is worth while?
                            sifted, extreme, sifted_to = sift(
                                sieves, start, extreme, sifted_to, available, hi, within, until, final, time, bits,
                                cols_i, cols_f, valid,
                            )  # fmt: skip
                            cursor[SIFTINGS] += sifted_to - start
                            if sifted == FAILS:
                                if final and cursor[SIFTINGS] > most_sifted:
                                    full = SIFTING_SLOW
                                    result = FULL
                                break
                            sieve = PASSED
                            if sifted == UNDECIDED and mode != INCREMENTAL and not with_unmatched:
                                sieve = STUCK
                                result = WAITING
                                break
                    if row < available and not memory_on and not counting:
                        # A side that needs a label this row does not offer is no choice.
                        if (bits[row] & np.uint64(code[code[pc, FIRST], ENTRY])) == ZERO:
                            pc = code[pc, SECOND]
                            continue
                        if (bits[row] & np.uint64(code[code[pc, SECOND], ENTRY])) == ZERO:
                            pc = code[pc, FIRST]
                            continue
                    if sp >= stack_room:
                        bottom, stack_room = enlarge_stack(
                            by_attempt, k, sp, bottom, stack_room, opened, cursor, stack_pc, stack_row, stack_low
                        )
                        if sp >= stack_room:
                            full = STACK_FULL
                            result = FULL
                            break
                    if memory_on:
                        state = code[pc, SLOT]
                        for at in range(loop_from[pc], loop_from[pc + 1]):
                            if loop_rows[loop_ids[at]] == row:
                                state += 1
                        index = (row - base) * slots + state
                        if index >= len(memo):
                            full = MEMORY_NEEDED
                            result = FULL
                            break
                        if memo[index] == stamp:
                            failed = True
                        else:
                            memo[index] = stamp
                            remembered_to = max(remembered_to, row)
                    if not failed:
                        stack_pc[bottom + sp] = code[pc, SECOND]
                        stack_row[bottom + sp], stack_low[bottom + sp] = row, row
                        sp += 1
                        pc = code[pc, FIRST]
                elif o == oc.JUMP:
                    pc = code[pc, FIRST]
                elif o == oc.START:
                    if row == lo and at_start[k]:
                        pc += 1
                    else:
                        failed = True
                elif o == oc.END:
                    if row < hi:
                        failed = True
                    elif final:
                        pc += 1
                    else:
                        failed = True
                        waiting = True
                        rare[WAITS] = 1
                        if at_end < 0:
                            at_end = start
                        if mode != INCREMENTAL:
                            result = WAITING
                            break
                elif o == oc.ENTER:
                    if sp >= stack_room:
                        bottom, stack_room = enlarge_stack(
                            by_attempt, k, sp, bottom, stack_room, opened, cursor, stack_pc, stack_row, stack_low
                        )
                        if sp >= stack_room:
                            full = STACK_FULL
                            result = FULL
                            break
                    loop = code[pc, FIRST]
                    stack_pc[bottom + sp] = -1 - loop
                    stack_row[bottom + sp] = stack_low[bottom + sp] = loop_rows[loop]
                    sp += 1
                    loop_rows[loop] = row
                    pc += 1
                elif o == oc.CHECK:
                    pc = code[pc, SECOND] if loop_rows[code[pc, FIRST]] == row else pc + 1
                else:  # ACCEPT
                    depth = row - start
                    if not exhaustive:
                        result = FOUND
                        length = depth
                        break
                    failed = True
                    if depth == 0:
                        has_empty = True
                    elif mode == MAXIMAL:
                        if depth > length:
                            length = depth
                            best[start - origin : row - origin] = path[start - origin : row - origin]
                    elif seen_end[row - 1 - origin] != rare[MINE]:
                        keep = True
                        end = row - 1
                        if mode == INCREMENTAL:
                            if start <= explored_start[k] and end < explored_to[k]:
                                keep = False
                            else:
                                keep = end_taken[end - lo] != rare[TAKEN]
                        if rare[KNOWN_FROM] > start and (keep or skip >= FIRST_LABEL):
                            write_path(rare, turns, start, path, origin)
                        if lists:
                            added = with_match(turns, cursor, rare[LATEST_MATCH], start, row, path, origin)
                            if added == NO_ROOM:
                                full = TURNS_FULL
                                result = FULL
                                break
                            rare[LATEST_MATCH] = added
                        elif keep:
                            if outs >= room or used + depth > path_room:
                                full = OUTPUT_FULL if outs >= room else PATHS_FULL
                                result = FULL
                                break
                            out_kind[outs] = MATCHED
                            out_start[outs] = start
                            out_length[outs] = depth
                            out_path[used : used + depth] = path[start - origin : row - origin]
                            used += depth
                            out_path_from[outs + 1] = used
                            outs += 1
                        seen_end[row - 1 - origin] = rare[MINE]
                        if mode == INCREMENTAL:
                            end_taken[end - lo] = rare[TAKEN]
                        if depth > length:
                            length = depth
                            if skip >= FIRST_LABEL:
                                rare[LABEL_PLACE] = place_of_label(
                                    skip == FIRST_LABEL, path, start - origin, depth, label_of, sets, skip_set
                                )
                if failed:
                    furthest = max(furthest, row)
                    if by_way and rare[WAITS] and rare[KEEPS] and not rare[KEPT_HERE]:
                        kept_as = keep_way(
                            rare, ways, way_values, turns, cursor, start, rare[ARRIVAL], row, steps, path, origin,
                            first_row, last_row, arrival_loops, agg_i, agg_f, agg_m, agg_n, aggs,
                        )  # fmt: skip
                        if kept_as != KEPT and kept_as != GIVEN_UP:
                            full = WAYS_FULL if kept_as == NO_ROOM_FOR_WAYS else TURNS_FULL
                            result = FULL
                            break
                    back = False
                    while sp > 0:
                        sp -= 1
                        target = stack_row[bottom + sp]
                        if stack_pc[bottom + sp] < 0:
                            loop_rows[-1 - stack_pc[bottom + sp]] = target
                            continue
                        pc = stack_pc[bottom + sp]
                        low = stack_low[bottom + sp]
                        if track:
                            for at in range(row - 1 - origin, target - 1 - origin, -1):
                                if tracked[label_of[path[at]]]:
                                    last_row[label_of[path[at]]] = previous[at]
                        row = target
                        if low < target:
                            # Ways out of a loop, the last first: rows at which nothing can go on are passed over.
                            label = code[pc, LABEL]
                            looping = label_of[path[low - origin]]
                            from_test = to_test = 0
                            if (
                                code[pc, OP] == oc.MATCH
                                and steady[label]
                                and have_other_sides(
                                    test_from[label], test_from[label + 1], turned_tests, looping, last_row, valid
                                )
                            ):
                                from_test, to_test = test_from[label], test_from[label + 1]
                                fix_other_sides(
                                    from_test, to_test, turned_tests, last_row, cols_i, cols_f, fixed_i, fixed_f
                                )
                            while low < target and not (
                                (bits[target] & np.uint64(code[pc, ENTRY])) != ZERO
                                and own_sides_hold(
                                    target, from_test, to_test, turned_tests, fixed_i, fixed_f, cols_i, cols_f, valid
                                )
                            ):
                                target -= 1
                            steps += 1
                            if tracked[looping] and target < row:
                                last_row[looping] = previous[target - origin]
                        if low < target:
                            stack_row[bottom + sp] = target - 1
                            sp += 1
                        row = target
                        back = True
                        break
                    if not back:
                        if not (rare[RESUMED] and has_more(rare, ways, start)):
                            break
                        row, pc = take_way_up(
                            rare, ways, way_values, turns, walks, start, path, origin, first_row, last_row, loop_rows,
                            arrival_loops, agg_i, agg_f, agg_m, agg_n, aggs,
                        )  # fmt: skip
                        frontier = row

            # ---- what the attempt gave ---------------------------------------------------------------
            all_steps += steps - before
            if by_attempt and (result == WAITING or full in (STACK_FULL, MEMORY_NEEDED, TURNS_FULL)):
                keep_attempt(
                    k, opened, marks, row, pc, sp, steps, rare[MINE], stamp, memory_on, length, has_empty, cursor[CUT],
                    sieve, rare[LATEST_MATCH], rare[LABEL_PLACE], first_row, last_row, loop_rows,
                )  # fmt: skip
                opened[OPEN, k] = mode != ALL or lists
            if result == FULL:
                outs, used = found_from, found_path
                break
            if result == SPENT:
                cursor[STATUS_ROW] = start
                return BUDGET_SPENT
            if steps > MEMORY_AFTER:
                if bounded:
                    cursor[EXCESS] += max(0, steps - before - STEPS_PER_ROW * (furthest - start + 1))
                else:
                    given = STEPS_PER_ROW * max(length, used - found_path)
                    cursor[EXCESS] += max(0, steps - before - rare[RUSHED] + rare[RUSHED] // 8 - given)
                if cursor[EXCESS] > allowed:
                    cursor[STATUS_ROW] = start
                    return ALL_BUDGETS_SPENT
            if by_way:
                while has_more(rare, ways, start):
                    rare[DONE] += 1
            if result == WAITING or (waiting and mode == INCREMENTAL and skip != NEXT_ROW):
                if mode == INCREMENTAL:
                    explored_start[k] = start
                    if by_way:
                        opened[LENGTH, k], opened[AT_LABEL, k] = length, rare[LABEL_PLACE]
                    for i in range(found_from, outs):
                        pending[pendings] = i
                        pendings += 1
                elif exhaustive:
                    outs, used = found_from, found_path
                break
            if waiting and hold < 0:
                hold = start
            if exhaustive and length < 0 and has_empty and mode != INCREMENTAL:
                length = 0
            if exhaustive and length >= 0:
                result = FOUND
            if result == NOTHING:
                if with_unmatched and start >= cover and not (exhaustive and has_empty):
                    if outs >= room:
                        full = OUTPUT_FULL
                        break
                    out_kind[outs] = UNMATCHED
                    out_start[outs] = start
                    out_length[outs] = 1
                    out_path_from[outs + 1] = used
                    outs += 1
                if emit_timed_out and cursor[CUT] > 0:
                    cut = cursor[CUT]
                    if outs >= room or used + cut > path_room:
                        full = OUTPUT_FULL if outs >= room else PATHS_FULL
                        break
                    out_kind[outs] = MATCHED
                    out_start[outs] = start
                    out_length[outs] = cut
                    out_number[outs] = TIMED_OUT
                    for at in range(cut):
                        out_path[used + at] = best[start - origin + at]
                    used += cut
                    out_path_from[outs + 1] = used
                    outs += 1
                start += 1
                continue

            if memory == PARTITION_MEMORY and not first_ends:
                generation += 1
                stamp = generation
                memory_on = False
            if exhaustive and mode != MAXIMAL and length > 0:
                # The matches of this start are in the output already; here they get their order and number.
                if lists:
                    matches, path_rows = matches_before(turns, rare[LATEST_MATCH])
                    if outs + matches > room or used + path_rows > path_room:
                        full = OUTPUT_FULL if outs + matches > room else PATHS_FULL
                        # It goes on at the end of the search.
                        keep_attempt(
                            k, opened, marks, start + length, len(code) - 1, 0, steps, rare[MINE], stamp, memory_on,
                            length, has_empty, cursor[CUT], sieve, rare[LATEST_MATCH], rare[LABEL_PLACE], first_row,
                            last_row, loop_rows,
                        )  # fmt: skip
                        break
                    outs, used = give_matches(
                        turns, rare[LATEST_MATCH], start, MATCHED, outs, used, out_kind, out_start, out_length,
                        out_path_from, out_path,
                    )  # fmt: skip
                if mode == ALL:
                    number = order_by_length(
                        found_from, outs, used, number, out_length, out_number, out_path_from, out_path
                    )
                else:
                    for i in range(found_from, outs):
                        pending[pendings] = i
                        pendings += 1
            else:
                if exhaustive and length > 0:
                    path[start - origin : start - origin + length] = best[start - origin : start - origin + length]
                if outs >= room or used + length > path_room:
                    full = OUTPUT_FULL if outs >= room else PATHS_FULL
                    break
                number += 1
                out_kind[outs] = EMPTY if length == 0 else MATCHED
                out_start[outs] = start
                out_length[outs] = length
                out_number[outs] = number if frames is None else frame_place[FRAME_AT]
                for i in range(length):
                    out_path[used + i] = path[start - origin + i]
                if goes_on:
                    last_end, last_path = start + length, used - start - 1
                used += length
                out_path_from[outs + 1] = used
                outs += 1

            if length > 0:
                cover = max(cover, start + length)
            following = start + 1
            if frames is not None:
                following = frame_place[FRAME_AT] + 1
            if length > 0 and skip == PAST_LAST_ROW:
                following = start + length
            elif length > 0 and skip != NEXT_ROW:
                if mode == PREFERRED or mode == MAXIMAL:
                    rare[LABEL_PLACE] = place_of_label(
                        skip == FIRST_LABEL, path, start - origin, length, label_of, sets, skip_set
                    )
                if rare[LABEL_PLACE] <= 0:
                    cursor[STATUS_ROW] = start
                    return SKIP_NOT_FOUND if rare[LABEL_PLACE] < 0 else SKIP_TO_FIRST_ROW
                following = start + rare[LABEL_PLACE]
            if frames is not None:
                to_next_frame(frame_place, start, following)
            start = following

        if full != FINE:
            if mode == INCREMENTAL:
                outs, used = partition_outs, partition_used
                if by_way:
                    cursor[TURNS_END] = rare[TURNS_FROM]
            else:
                if frames is not None:
                    start = frame_place[FRAME_AT]
                next_start[k], numbers[k], covered[k] = start, number, cover
            cursor[AT_PARTITION], cursor[OUTS], cursor[PATHS] = k, outs, used
            cursor[GENERATION], cursor[ATTEMPTS], cursor[ALL_STEPS] = generation, attempt, all_steps
            return full
        undecided = False
        if mode == INCREMENTAL and at_end >= 0 and explored_to[k] < hi:
            undecided, outs, used, pendings = hold_back(
                at_end, hi, end_taken[hi - 1 - lo] == rare[TAKEN], partition_outs, outs, used, pendings,
                out_kind, out_start, out_length, out_path_from, out_path, pending,
            )  # fmt: skip
        if mode == INCREMENTAL and pendings:
            number = number_by_end(pending, pendings, number, out_start, out_length, out_number)
        if mode == INCREMENTAL:
            if skip == NEXT_ROW:
                explored_start[k] = start - 1
            explored_to[k] = available
            if undecided:
                explored_to[k] = hi - 1
        if hold >= 0:
            next_start[k] = hold
        else:
            next_start[k] = start
        numbers[k] = number
        covered[k] = cover
        if kept:
            opened[EXTREME_AT, k], opened[SIFTED, k] = extreme, sifted_to
        if by_way:
            settle_ways(k, rare, opened, cursor, ways, way_values)
        if seeks_on:
            for at in range(len(required)):
                sought[at, k] = seek[at]
    cursor[GENERATION], cursor[ATTEMPTS], cursor[ALL_STEPS] = generation, attempt, all_steps
    cursor[AT_PARTITION], cursor[OUTS], cursor[PATHS] = len(key_lo), outs, used
    return FINE
