"""The row pattern matcher: backtracking over a flat program in preference order (SQL:2016 part 5, DejaVu's modes).

For every start row the program runs depth first; the first way to ACCEPT is the preferred match. A stack holds the
untried choices. Conditions have two parts: bits (row-local, one uint64 per row, one bit per label) and residuals
(simple comparisons of two loads, and programs of the expression machine). Where conditions do not depend on the path,
a memory of visited (choice, row) states makes nested quantifiers linear; elsewhere a step budget guards.

The rows of a match are contiguous, so a match is (start, length) and the instruction that took each row.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from episode.kernels import opcodes as oc
from episode.kernels.aggregates import finished, finished_words, fold, fold_words
from episode.kernels.arrays import run_arrays
from episode.kernels.comparing import accepts, compare_floats, compare_ints, orders_of, turned
from episode.kernels.machine import run
from episode.kernels.outcomes import EMPTY, MATCHED, TIMED_OUT, UNMATCHED
from episode.kernels.rows.arrays import (
    A,
    A_NAV,
    A_VALID,
    B,
    B_NAV,
    B_VALID,
    BIT,
    COMPARE,
    ENTRY,
    EXTREME,
    FIRST,
    LABEL,
    LOOP,
    OP,
    PUSHED,
    SECOND,
    SLOT,
)

PREFERRED, MAXIMAL, INCREMENTAL, ALL = range(4)
PAST_LAST_ROW, NEXT_ROW, FIRST_LABEL, LAST_LABEL = range(4)
FINE, BUDGET_SPENT, SKIP_TO_FIRST_ROW, SKIP_NOT_FOUND, OUTPUT_FULL, PATHS_FULL, STACK_FULL, MEMORY_NEEDED = range(8)
NO_MEMORY, ATTEMPT_MEMORY, PARTITION_MEMORY = range(3)
NO_WINDOW = -1

OWN, FLOATING, OWN_VALID, FIXED, FIXED_VALID, FIXED_LABEL, ORDERS = range(7)

ZERO, ONE = np.uint64(0), np.uint64(1)
MEMORY_AFTER = 256
STEPS_PER_ROW = 64
NOTHING, FOUND, WAITING, SPENT, FULL = range(5)
AT_PARTITION, OUTS, PATHS, GENERATION, ATTEMPTS, STATUS_ROW, CUT = range(7)


@njit(cache=True, nogil=True)
def _navigate(first, offset, shift, label, sets, which, start, row, lo, hi, path, label_of, first_row, last_row):
    """Row of a navigation in the running match start..row, or -1. label: a label, -1 all, -2 look at the set."""
    found = -1
    if label == -1:
        if first:
            found = start + offset if start + offset <= row else -1
        else:
            found = row - offset if row - offset >= start else -1
    elif label >= 0 and offset == 0:
        if last_row[label] >= 0:
            found = first_row[label] if first else last_row[label]
    elif first:
        left = offset
        for at in range(start, row + 1):
            if sets[which, label_of[path[at - start]]]:
                if left == 0:
                    found = at
                    break
                left -= 1
    else:
        left = offset
        for at in range(row, start - 1, -1):
            if sets[which, label_of[path[at - start]]]:
                if left == 0:
                    found = at
                    break
                left -= 1
    if found >= 0 and shift != 0:
        found += shift
        if found < lo or found >= hi:
            found = -1
    return found


@njit(cache=True, nogil=True)
def _take_into_aggregates(
    depth, row, label, number, agg_function, agg_set, agg_column, agg_valid, agg_float, agg_from, agg_to, agg_result,
    agg_nav, agg_i, agg_f, agg_m, agg_n, sets, label_codes, nav_rows, nav_labels, code, ri, rf, rn, key, cols_i,
    cols_f, valid, const_i, const_f, run_i, run_f, run_n,
):  # fmt: skip
    """Running aggregates with one more row: column depth + 1 of agg_* from column depth.

    agg_n, agg_i, agg_f and agg_m hold the state: count, whole, real and more of `kernels.aggregates`.
    """
    for j in range(len(agg_function)):
        ai, af, am, an = agg_i[j, depth], agg_f[j, depth], agg_m[j, depth], agg_n[j, depth]
        if depth == 0:
            ai, af, am, an = 0, 0.0, 0.0, 0
        if sets[agg_set[j], label]:
            column = agg_column[j]
            function = agg_function[j]
            present = True
            whole = np.int64(0)
            value = 0.0
            if column == PUSHED:
                # The argument depends on the label or the match: evaluated as the row is taken.
                if agg_nav[j] >= 0:
                    nav_rows[agg_nav[j]], nav_labels[agg_nav[j]] = row, label_codes[label]
                run(code, agg_from[j], agg_to[j], ri, rf, rn, 1, row, key, cols_i, cols_f, valid,
                    const_i, const_f, nav_rows, nav_labels, run_i, run_f, run_n, number + 1)  # fmt: skip
                present = rn[agg_result[j], 0] == 0
                whole, value = ri[agg_result[j], 0], rf[agg_result[j], 0]
            elif column >= 0:
                present = agg_valid[j] < 0 or valid[agg_valid[j], row] != 0
                if agg_float[j]:
                    value = cols_f[column, row]
                elif function != oc.COUNT:
                    whole = cols_i[column, row]
            if present and oc.SUM_WIDE <= function <= oc.LAST_WIDE:
                high = ri[agg_result[j] + 1, 0] if column == PUSHED else cols_i[column + 1, row]
                an, ai, af, am = fold_words(function, an, ai, af, am, whole, high)
            elif present:
                an, ai, af, am = fold(function, agg_float[j], an, ai, af, am, whole, value, row)
        agg_i[j, depth + 1], agg_f[j, depth + 1] = ai, af
        agg_m[j, depth + 1], agg_n[j, depth + 1] = am, an


@njit(cache=True, nogil=True)
def _residual_holds(
    label, depth, start, row, lo, hi, number, program_from, program_to, program_result, nav_from, nav_ids,
    nav_first, nav_offset, nav_shift, nav_label, nav_set, sets, label_codes, label_of, path, first_row, last_row,
    agg_function, agg_float, agg_high, agg_i, agg_f, agg_m, agg_n, nav_rows, nav_labels, code, ri, rf, rn, key, cols_i,
    cols_f, valid, const_i, const_f, run_i, run_f, run_n, array_from,
):  # fmt: skip
    """Does the label's program hold for the row under trial?"""
    for at in range(nav_from[label], nav_from[label + 1]):
        nav = nav_ids[at]
        if nav_label[nav] == EXTREME:
            by = nav_offset[nav]
            target = np.int64(agg_m[by, depth + 1]) if agg_n[by, depth + 1] else -1
        else:
            target = _navigate(nav_first[nav], nav_offset[nav], nav_shift[nav], nav_label[nav], sets, nav_set[nav],
                               start, row, lo, hi, path, label_of, first_row, last_row)  # fmt: skip
        nav_rows[nav] = target
        nav_labels[nav] = label_codes[label_of[path[target - start]]] if start <= target <= row else -1
    for j in range(len(agg_function)):
        run_i[j], run_f[j], run_n[j] = finished(
            agg_function[j], agg_float[j], agg_n[j, depth + 1], agg_i[j, depth + 1], agg_f[j, depth + 1],
            agg_m[j, depth + 1],
        )  # fmt: skip
        if agg_high[j] >= 0:
            run_i[j], run_i[agg_high[j]], run_n[j] = finished_words(
                agg_function[j], agg_n[j, depth + 1], agg_i[j, depth + 1], agg_f[j, depth + 1], agg_m[j, depth + 1]
            )
            run_n[agg_high[j]] = run_n[j]
    if array_from[label] < array_from[label + 1]:
        run_arrays(array_from[label], array_from[label + 1], start, row, number, path, label_of, sets, label_codes,
                   nav_rows, nav_labels, code, ri, rf, rn, key, cols_i, cols_f, valid, const_i, const_f,
                   run_i, run_f, run_n, agg_i, agg_f, agg_m, agg_n)  # fmt: skip
    run(code, program_from[label], program_to[label], ri, rf, rn, 1, row, key, cols_i, cols_f, valid,
        const_i, const_f, nav_rows, nav_labels, run_i, run_f, run_n, number + 1)  # fmt: skip
    register = program_result[label]
    return rn[register, 0] == 0 and ri[register, 0] != 0


@njit(cache=True, nogil=True)
def _order_by_length(begin, end, used, number, out_length, out_number, out_path_from, out_path):
    """ALL MATCHES of one start row, shortest first, with their numbers; returns the last number."""
    origin = out_path_from[begin]
    order = np.argsort(out_length[begin:end], kind="mergesort")
    lengths = out_length[begin:end][order]
    sources = out_path_from[begin:end][order]
    copied = out_path[origin:used].copy()
    at = origin
    for i in range(end - begin):
        out_length[begin + i] = lengths[i]
        source = sources[i] - origin
        out_path[at : at + lengths[i]] = copied[source : source + lengths[i]]
        at += lengths[i]
        out_path_from[begin + i + 1] = at
        number += 1
        out_number[begin + i] = number
    return number


@njit(cache=True, nogil=True)
def _number_by_end(pending, pendings, number, out_start, out_length, out_number):
    """INCREMENTAL MATCH: numbers follow the order of the end rows; returns the last number."""
    ends = np.zeros(pendings, np.int64)
    for i in range(pendings):
        ends[i] = out_start[pending[i]] + out_length[pending[i]]
    order = np.argsort(ends, kind="mergesort")
    for i in range(pendings):
        number += 1
        out_number[pending[order[i]]] = number
    return number


@njit(cache=True, nogil=True)
def _hold_back(
    at_end, hi, is_taken, first_out, outs, used, pendings, out_kind, out_start, out_length, out_path_from, out_path,
    pending,
):  # fmt: skip
    """INCREMENTAL MATCH where `$` keeps a match from at_end undecided that would end with the last row.

    What ends there from that start on waits with it: it is taken out of the output again. Matches of a partition are
    pending in the order in which they were found. Returns (undecided, outs, used, pendings).
    """
    for i in range(first_out, outs):
        if out_start[i] >= at_end and out_start[i] + out_length[i] == hi:
            gone = out_length[i]
            for at in range(out_path_from[i], used - gone):
                out_path[at] = out_path[at + gone]
            for at in range(i, outs - 1):
                out_kind[at], out_start[at], out_length[at] = out_kind[at + 1], out_start[at + 1], out_length[at + 1]
                out_path_from[at + 1] = out_path_from[at + 2] - gone
            for at in range(pendings - 1):
                pending[at] = first_out + at
            return True, outs - 1, used - gone, pendings - 1
    return not is_taken, outs, used, pendings


@njit(cache=True, nogil=True)
def _steady_tests(test_from, tests, program_from, program_to, aggs, nav_plain, nav_label, labels):
    """Which labels are steady, and their tests with the row on the left, in columns OWN …

    Steady labels compare the row with rows of other labels, if at all: while a loop takes rows of the label, the
    other side of each test stays, and is read once.
    """
    steady = np.zeros(labels, np.bool_)
    table = np.zeros((len(tests), 8), np.int64)
    for label in range(labels):
        steady[label] = aggs == 0 and program_from[label] == program_to[label]
        for test in range(test_from[label], test_from[label + 1]):
            compare = tests[test, COMPARE]
            exchanged = tests[test, B_NAV] < 0
            nav = tests[test, A_NAV] if exchanged else tests[test, B_NAV]
            other = tests[test, B_NAV] if exchanged else tests[test, A_NAV]
            if other >= 0 or nav < 0 or not nav_plain[nav] or nav_label[nav] == label:
                steady[label] = False
                continue
            own, fixed = (B, A) if exchanged else (A, B)
            table[test, OWN], table[test, OWN_VALID] = tests[test, own], tests[test, own + 1]
            table[test, FIXED], table[test, FIXED_VALID] = tests[test, fixed], tests[test, fixed + 1]
            table[test, FIXED_LABEL] = nav_label[nav]
            table[test, ORDERS] = orders_of(turned(compare) if exchanged else compare)
            table[test, FLOATING] = tests[test, FLOATING]
    return steady, table


@njit(cache=True, nogil=True)
def match_partitions(
    program, rules, test_arrays, residuals, navigations, aggregates, rows, partitions, found, work, until, final
):
    """Run every partition from its next start row as far as the rows allow.

    The tuples are those of `kernels.rows.arrays`. until: rows with time <= until are all here; final: no more rows will
    come. What is found and the work arrays are the caller's and never grow here, so that no loop counts references:
    where one is too small, the attempt is given up, the state is as before it, and the status says which array to
    enlarge before the call is made again. Returns the status.
    """
    (code, label_of, loop_from, loop_ids, slots, loops, labels,
     first_bits, follow_bits, one_row_enough, nullable) = program  # fmt: skip
    mode, skip, memory, with_unmatched, within, emit_timed_out, lookahead, budget = rules
    test_from, tests = test_arrays
    (program_from, program_to, program_result, nav_from, nav_ids, array_from,
     machine_code, registers, const_i, const_f) = residuals  # fmt: skip
    nav_first, nav_offset, nav_shift, nav_label, nav_set, nav_plain, track, sets, label_codes = navigations
    (agg_function, agg_set, agg_column, agg_valid, agg_float, agg_from, agg_to, agg_result, agg_nav,
     agg_high) = aggregates  # fmt: skip
    bits, time, key, cols_i, cols_f, valid = rows
    key_lo, key_hi, at_start, next_start, numbers, covered, explored_start, explored_to = partitions
    out_kind, out_start, out_length, out_number, out_path_from, out_path = found
    (cursor, stack_pc, stack_row, stack_low, path, best, previous, memo, seen_end, end_taken, pending,
     agg_i, agg_f, agg_m, agg_n) = work  # fmt: skip
    skip_set = len(sets) - 1
    outs = cursor[OUTS]
    used = cursor[PATHS]
    generation = cursor[GENERATION]
    attempt = cursor[ATTEMPTS]
    first_row = np.full(labels, -1, np.int64)
    last_row = np.full(labels, -1, np.int64)
    loop_rows = np.full(loops + 1, -1, np.int64)
    aggs = len(agg_function)
    values = aggs + array_from[len(array_from) - 1]
    run_i = np.zeros(values, np.int64)
    run_f = np.zeros(values, np.float64)
    run_n = np.zeros(values, np.uint8)
    navs = len(nav_first)
    nav_rows = np.full(navs, -1, np.int64)
    nav_labels = np.full(navs, -1, np.int64)
    ri = np.zeros((registers, 1), np.int64)
    rf = np.zeros((registers, 1), np.float64)
    rn = np.zeros((registers, 1), np.uint8)
    steady, turned_tests = _steady_tests(test_from, tests, program_from, program_to, aggs, nav_plain, nav_label, labels)
    tracked = np.zeros(labels, np.bool_)
    for nav in range(navs):
        if nav_label[nav] >= 0:
            tracked[nav_label[nav]] = True
    fixed_i = np.zeros(len(tests), np.int64)
    fixed_f = np.zeros(len(tests), np.float64)
    exhaustive = mode != PREFERRED
    windowed = within != NO_WINDOW
    leaps = not nullable and not with_unmatched
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
        memory_on = False
        full = FINE
        while start < hi:
            if leaps:
                while start < available and (bits[start] & first_bits) == ZERO:
                    start += 1
            if start >= available:
                break
            if not nullable:
                # A start row must offer a first label, and its successor a label that may follow.
                possible = (bits[start] & first_bits) != ZERO
                if possible and not one_row_enough:
                    if start + 1 < available:
                        possible = (bits[start + 1] & follow_bits) != ZERO
                    elif final:
                        possible = False
                if not possible:
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

            # ---- one attempt -------------------------------------------------------------------------
            attempt += 1
            result = NOTHING
            waiting = False
            has_empty = False
            length = np.int64(-1)
            if emit_timed_out:
                cursor[CUT] = 0
            row = start
            pc = 0
            sp = 0
            steps = 0
            if track:
                for at in range(labels):
                    last_row[at] = -1
            if memory == ATTEMPT_MEMORY or exhaustive:
                generation += 1
                memory_on = False
            base = start if memory == ATTEMPT_MEMORY or exhaustive else lo
            found_from, found_path = outs, used
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
                                if mode != INCREMENTAL:
                                    result = WAITING
                                    break
                        if emit_timed_out and cursor[CUT] == 0:
                            cursor[CUT] = row - start
                            for at in range(row - start):
                                best[at] = path[at]
                    elif windowed and np.uint64(time[row] - time[start]) > np.uint64(within):
                        failed = True
                        if emit_timed_out and cursor[CUT] == 0:
                            cursor[CUT] = row - start
                            for at in range(row - start):
                                best[at] = path[at]
                    else:
                        label = code[pc, LABEL]
                        if (bits[row] & np.uint64(code[pc, BIT])) == ZERO:
                            failed = True
                        else:
                            depth = row - start
                            path[depth] = pc
                            if tracked[label]:
                                before = last_row[label]
                                previous[depth] = before
                                if before < 0:
                                    first_row[label] = row
                                last_row[label] = row
                            if steady[label]:
                                for test in range(test_from[label], test_from[label + 1]):
                                    fixed_row = last_row[turned_tests[test, FIXED_LABEL]]
                                    if fixed_row < 0:
                                        failed = True
                                        break
                                    check = turned_tests[test, FIXED_VALID]
                                    if check >= 0 and valid[check, fixed_row] == 0:
                                        failed = True
                                        break
                                    check = turned_tests[test, OWN_VALID]
                                    if check >= 0 and valid[check, row] == 0:
                                        failed = True
                                        break
                                    if turned_tests[test, FLOATING]:
                                        order = compare_floats(
                                            cols_f[turned_tests[test, OWN], row],
                                            cols_f[turned_tests[test, FIXED], fixed_row],
                                        )
                                    else:
                                        order = compare_ints(
                                            cols_i[turned_tests[test, OWN], row],
                                            cols_i[turned_tests[test, FIXED], fixed_row],
                                        )
                                    if (turned_tests[test, ORDERS] >> (order + 1)) & 1 == 0:
                                        failed = True
                                        break
                            else:
                                if aggs:
                                    _take_into_aggregates(
                                        depth, row, label, number, agg_function, agg_set, agg_column, agg_valid,
                                        agg_float, agg_from, agg_to, agg_result, agg_nav, agg_i, agg_f, agg_m, agg_n,
                                        sets, label_codes, nav_rows, nav_labels, machine_code, ri, rf, rn, key, cols_i, cols_f,
                                        valid, const_i, const_f, run_i, run_f, run_n,
                                    )  # fmt: skip

                                for test in range(test_from[label], test_from[label + 1]):
                                    row_a = row_b = row
                                    nav = tests[test, A_NAV]
                                    if nav >= 0 and nav_plain[nav]:
                                        row_a = last_row[nav_label[nav]]
                                    elif nav >= 0:
                                        row_a = _navigate(
                                            nav_first[nav], nav_offset[nav], nav_shift[nav], nav_label[nav], sets,
                                            nav_set[nav], start, row, lo, hi, path, label_of, first_row, last_row,
                                        )  # fmt: skip
                                    nav = tests[test, B_NAV]
                                    if nav >= 0 and nav_plain[nav]:
                                        row_b = last_row[nav_label[nav]]
                                    elif nav >= 0:
                                        row_b = _navigate(
                                            nav_first[nav], nav_offset[nav], nav_shift[nav], nav_label[nav], sets,
                                            nav_set[nav], start, row, lo, hi, path, label_of, first_row, last_row,
                                        )  # fmt: skip
                                    if row_a < 0 or row_b < 0:
                                        failed = True
                                        break
                                    check = tests[test, A_VALID]
                                    if check >= 0 and valid[check, row_a] == 0:
                                        failed = True
                                        break
                                    check = tests[test, B_VALID]
                                    if check >= 0 and valid[check, row_b] == 0:
                                        failed = True
                                        break
                                    if tests[test, FLOATING]:
                                        order = compare_floats(
                                            cols_f[tests[test, A], row_a], cols_f[tests[test, B], row_b]
                                        )
                                    else:
                                        order = compare_ints(
                                            cols_i[tests[test, A], row_a], cols_i[tests[test, B], row_b]
                                        )
                                    if not accepts(tests[test, COMPARE], order):
                                        failed = True
                                        break

                                if not failed and program_from[label] < program_to[label]:
                                    failed = not _residual_holds(
                                        label, depth, start, row, lo, hi, number, program_from, program_to,
                                        program_result, nav_from, nav_ids, nav_first, nav_offset, nav_shift, nav_label,
                                        nav_set, sets, label_codes, label_of, path, first_row, last_row, agg_function,
                                        agg_float, agg_high, agg_i, agg_f, agg_m, agg_n, nav_rows, nav_labels, machine_code, ri,
                                        rf, rn, key, cols_i, cols_f, valid, const_i, const_f, run_i, run_f, run_n,
                                        array_from,
                                    )  # fmt: skip

                            if failed:
                                if tracked[label]:
                                    last_row[label] = previous[depth]
                            else:
                                row += 1
                                pc += 1
                                if code[pc, LOOP] and steady[label] and not memory_on:
                                    # A greedy loop over this label: take rows while they last; each is a way out.
                                    # The first row passed the tests, so their other sides are there.
                                    low = row
                                    bit = np.uint64(code[pc - 1, BIT])
                                    from_test, to_test = test_from[label], test_from[label + 1]
                                    for test in range(from_test, to_test):
                                        if turned_tests[test, FLOATING]:
                                            fixed_f[test] = cols_f[
                                                turned_tests[test, FIXED], last_row[turned_tests[test, FIXED_LABEL]]
                                            ]
                                        else:
                                            fixed_i[test] = cols_i[
                                                turned_tests[test, FIXED], last_row[turned_tests[test, FIXED_LABEL]]
                                            ]
                                    while row < available and (bits[row] & bit) != ZERO:
                                        if windowed and np.uint64(time[row] - time[start]) > np.uint64(within):
                                            break
                                        holds = True
                                        for test in range(from_test, to_test):
                                            if (
                                                turned_tests[test, OWN_VALID] >= 0
                                                and valid[turned_tests[test, OWN_VALID], row] == 0
                                            ):
                                                holds = False
                                                break
                                            if turned_tests[test, FLOATING]:
                                                order = compare_floats(
                                                    cols_f[turned_tests[test, OWN], row], fixed_f[test]
                                                )
                                            else:
                                                order = compare_ints(
                                                    cols_i[turned_tests[test, OWN], row], fixed_i[test]
                                                )
                                            if (turned_tests[test, ORDERS] >> (order + 1)) & 1 == 0:
                                                holds = False
                                                break
                                        if not holds:
                                            break
                                        path[row - start] = pc - 1
                                        if tracked[label]:
                                            previous[row - start] = last_row[label]
                                            last_row[label] = row
                                        row += 1
                                    steps += row - low
                                    if row > low:
                                        if sp >= stack_room:
                                            full = STACK_FULL
                                            result = FULL
                                            break
                                        stack_pc[sp], stack_row[sp], stack_low[sp] = code[pc, SECOND], row - 1, low
                                        sp += 1
                                    if row < available:
                                        pc = code[pc, SECOND]
                elif o == oc.SPLIT:
                    steps += 1
                    if steps > MEMORY_AFTER:
                        if memory != NO_MEMORY:
                            memory_on = True
                        if steps > budget and steps > budget + STEPS_PER_ROW * (hi - start):
                            result = SPENT
                            break
                    if row < available and not memory_on:
                        # A side that needs a label this row does not offer is no choice.
                        if (bits[row] & np.uint64(code[code[pc, FIRST], ENTRY])) == ZERO:
                            pc = code[pc, SECOND]
                            continue
                        if (bits[row] & np.uint64(code[code[pc, SECOND], ENTRY])) == ZERO:
                            pc = code[pc, FIRST]
                            continue
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
                        if memo[index] == generation:
                            failed = True
                        else:
                            memo[index] = generation
                    if not failed:
                        if sp >= stack_room:
                            full = STACK_FULL
                            result = FULL
                            break
                        stack_pc[sp], stack_row[sp], stack_low[sp] = code[pc, SECOND], row, row
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
                        if at_end < 0:
                            at_end = start
                        if mode != INCREMENTAL:
                            result = WAITING
                            break
                elif o == oc.ENTER:
                    if sp >= stack_room:
                        full = STACK_FULL
                        result = FULL
                        break
                    loop = code[pc, FIRST]
                    stack_pc[sp] = -1 - loop
                    stack_row[sp] = loop_rows[loop]
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
                            best[:depth] = path[:depth]
                    else:
                        if seen_end[depth] != attempt:
                            seen_end[depth] = attempt
                            if depth > length:
                                length = depth
                                best[:depth] = path[:depth]
                            keep = True
                            if mode == INCREMENTAL:
                                end = start + depth - 1
                                if start <= explored_start[k] and end < explored_to[k]:
                                    keep = False
                                    end_taken[end - lo] = k + 1
                                elif end_taken[end - lo] == k + 1:
                                    keep = False
                                else:
                                    end_taken[end - lo] = k + 1
                            if keep:
                                if outs >= room or used + depth > path_room:
                                    full = OUTPUT_FULL if outs >= room else PATHS_FULL
                                    result = FULL
                                    break
                                out_kind[outs] = MATCHED
                                out_start[outs] = start
                                out_length[outs] = depth
                                out_path[used : used + depth] = path[:depth]
                                used += depth
                                out_path_from[outs + 1] = used
                                outs += 1
                if failed:
                    back = False
                    while sp > 0:
                        sp -= 1
                        target = stack_row[sp]
                        if stack_pc[sp] < 0:
                            loop_rows[-1 - stack_pc[sp]] = target
                            continue
                        pc = stack_pc[sp]
                        low = stack_low[sp]
                        if track:
                            for at in range(row - 1, target - 1, -1):
                                if tracked[label_of[path[at - start]]]:
                                    last_row[label_of[path[at - start]]] = previous[at - start]
                        row = target
                        if low < target:
                            # Ways out of a loop, the last first: rows at which nothing can go on are passed over.
                            label = code[pc, LABEL]
                            looping = label_of[path[low - start]]
                            from_test = to_test = 0
                            if code[pc, OP] == oc.MATCH and steady[label]:
                                from_test, to_test = test_from[label], test_from[label + 1]
                                for test in range(from_test, to_test):
                                    fixed_row = last_row[turned_tests[test, FIXED_LABEL]]
                                    if turned_tests[test, FIXED_LABEL] == looping or fixed_row < 0:
                                        to_test = from_test
                                        break
                                    check = turned_tests[test, FIXED_VALID]
                                    if check >= 0 and valid[check, fixed_row] == 0:
                                        to_test = from_test
                                        break
                                    if turned_tests[test, FLOATING]:
                                        fixed_f[test] = cols_f[turned_tests[test, FIXED], fixed_row]
                                    else:
                                        fixed_i[test] = cols_i[turned_tests[test, FIXED], fixed_row]
                            while low < target:
                                holds = (bits[target] & np.uint64(code[pc, ENTRY])) != ZERO
                                if holds:
                                    for test in range(from_test, to_test):
                                        if (
                                            turned_tests[test, OWN_VALID] >= 0
                                            and valid[turned_tests[test, OWN_VALID], target] == 0
                                        ):
                                            holds = False
                                            break
                                        if turned_tests[test, FLOATING]:
                                            order = compare_floats(
                                                cols_f[turned_tests[test, OWN], target], fixed_f[test]
                                            )
                                        else:
                                            order = compare_ints(cols_i[turned_tests[test, OWN], target], fixed_i[test])
                                        if (turned_tests[test, ORDERS] >> (order + 1)) & 1 == 0:
                                            holds = False
                                            break
                                if holds:
                                    break
                                target -= 1
                            if tracked[looping] and target < row:
                                last_row[looping] = previous[target - start]
                        if low < target:
                            stack_row[sp] = target - 1
                            sp += 1
                        row = target
                        back = True
                        break
                    if not back:
                        break

            # ---- what the attempt gave ---------------------------------------------------------------
            if result == FULL:
                outs, used = found_from, found_path
                break
            if result == SPENT:
                cursor[STATUS_ROW] = start
                return BUDGET_SPENT
            if result == WAITING or (waiting and mode == INCREMENTAL and skip != NEXT_ROW):
                if mode == INCREMENTAL:
                    explored_start[k] = start
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
                        out_path[used + at] = best[at]
                    used += cut
                    out_path_from[outs + 1] = used
                    outs += 1
                start += 1
                continue

            if memory == PARTITION_MEMORY:
                generation += 1
                memory_on = False
            if exhaustive and mode != MAXIMAL and length > 0:
                # The matches of this start are in the output already; here they get their order and number.
                if mode == ALL:
                    number = _order_by_length(
                        found_from, outs, used, number, out_length, out_number, out_path_from, out_path
                    )
                else:
                    for i in range(found_from, outs):
                        pending[pendings] = i
                        pendings += 1
                path[:length] = best[:length]
            else:
                if exhaustive and length > 0:
                    path[:length] = best[:length]
                if outs >= room or used + length > path_room:
                    full = OUTPUT_FULL if outs >= room else PATHS_FULL
                    break
                number += 1
                out_kind[outs] = EMPTY if length == 0 else MATCHED
                out_start[outs] = start
                out_length[outs] = length
                out_number[outs] = number
                for i in range(length):
                    out_path[used + i] = path[i]
                used += length
                out_path_from[outs + 1] = used
                outs += 1

            if length > 0:
                cover = max(cover, start + length)
            if length == 0 or skip == NEXT_ROW:
                start += 1
            elif skip == PAST_LAST_ROW:
                start += length
            else:
                position = -1
                for i in range(length):
                    if sets[skip_set, label_of[path[i]]]:
                        position = i
                        if skip == FIRST_LABEL:
                            break
                if position <= 0:
                    cursor[STATUS_ROW] = start
                    return SKIP_NOT_FOUND if position < 0 else SKIP_TO_FIRST_ROW
                start += position

        if full != FINE:
            if mode == INCREMENTAL:
                outs, used = partition_outs, partition_used
                generation += 1
                for at in range(hi - lo + 1):
                    end_taken[at] = 0
            else:
                next_start[k], numbers[k], covered[k] = start, number, cover
            cursor[AT_PARTITION], cursor[OUTS], cursor[PATHS] = k, outs, used
            cursor[GENERATION], cursor[ATTEMPTS] = generation, attempt
            return full
        undecided = False
        if mode == INCREMENTAL and at_end >= 0:
            undecided, outs, used, pendings = _hold_back(
                at_end, hi, end_taken[hi - 1 - lo] == k + 1, partition_outs, outs, used, pendings,
                out_kind, out_start, out_length, out_path_from, out_path, pending,
            )  # fmt: skip
        if mode == INCREMENTAL and pendings:
            number = _number_by_end(pending, pendings, number, out_start, out_length, out_number)
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
    cursor[AT_PARTITION], cursor[OUTS], cursor[PATHS] = len(key_lo), outs, used
    return FINE
