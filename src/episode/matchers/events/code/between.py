"""What is between, before or after events, as machine code: negations, groups, and conditions on single records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from episode.matchers.events.code.arrays import LIMIT, MOST, NTH, TYPES, WINDOW
from episode.matchers.events.code.flow import FINE, FULL, TOO_MANY, Kept, scanning
from episode.matchers.events.code.tests import PairTests, RecordTests
from episode.matchers.expression_code import CodeConstants
from episode.matchers.time_code import first_at_least, window_end, window_start
from episode.matchers.times import EVER, NEVER
from episode.native.builder import Program
from episode.native.ir import Block, Operand, Value
from episode.native.scope import Scope
from episode.native.types import I32, U8

COUNT = 1
"""The place in `kept` of how many events are listed; before it, the record at work."""


@dataclass(frozen=True)
class LookShape:
    """What is looked for: `latest`, `earliest`, `any`, `all`, `following` or `single`, the emitters below."""

    kind: str
    tests: RecordTests


def look_program(look: LookShape) -> tuple[Program, CodeConstants]:
    program, constants = Program(look.kind), CodeConstants()
    s = Scope(program.function("run"), TYPES)
    emit: Callable[[Scope, PairTests], None] = {
        "latest": _latest_before, "earliest": _earliest_after, "any": _any_between, "all": _all_between,
        "following": _all_following, "single": _single,
    }[look.kind]  # fmt: skip
    emit(s, PairTests(s, look.tests, constants))
    return program, constants


def _latest_before(s: Scope, tests: PairTests) -> None:
    """found: by right record, the greatest start of the left records that end before it begins, and pass the tests.

    NTH: not the last but the nth last of them, if they are single events. NEVER: there is none within the window.
    """
    f = s.f
    window, nth = s.settings[WINDOW], s.settings[NTH]
    with f.loop(0, s.r_lo.length) as group, f.loop(s.r_lo[group], s.r_hi[group]) as right:
        oldest = window_start(f, s.r_end[right], window)
        begin = s.l_lo[group]
        left = f.variable("left", first_at_least(s, "l_end", begin, s.l_hi[group], s.r_start[right]) - 1)
        best, seen = f.variable("best", NEVER), f.variable("seen", 0)

        def may_be_later(record: Value) -> Value:
            return (s.l_end[record] >= oldest) & (s.l_end[record] > best)

        with scanning(f, left, lambda record: record >= begin, may_be_later, step=-1) as (record, _):
            starts = s.l_start[record]
            with f.when(starts >= oldest), tests.holding(record, right):
                seen.set(seen + 1)
                with f.when(seen >= nth):
                    best.set(f.greatest(best, starts))
        s.found[right] = best
    f.give(0)


def _earliest_after(s: Scope, tests: PairTests) -> None:
    """found: by left record, the least end of the right records that begin after it ends, and pass the tests.

    NTH as in `_latest_before`. EVER: there is none within the window.
    """
    f = s.f
    window, nth = s.settings[WINDOW], s.settings[NTH]
    with f.loop(0, s.l_lo.length) as group, f.loop(s.l_lo[group], s.l_hi[group]) as left:
        newest, ends = window_end(f, s.l_start[left], window), s.l_end[left]
        stop = s.r_hi[group]
        after = window_end(f, ends, f.value(1))
        right = f.variable("right", first_at_least(s, "r_end", s.r_lo[group], stop, after))
        best, seen = f.variable("best", EVER), f.variable("seen", 0)
        with scanning(f, right, lambda record: record < stop, lambda record: s.r_end[record] <= newest) as (
            record,
            out,
        ):
            with f.when(s.r_start[record] > ends), tests.holding(left, record):
                seen.set(seen + 1)
                with f.when(seen >= nth):
                    best.set(s.r_end[record])
                    f.jump(out)
        s.found[left] = best
    f.give(0)


def _each_between(s: Scope, tests: PairTests, left: Value, found: Callable[[Value, Block], None]) -> None:
    """The right records in l_low .. l_high of a left one, both included, that pass the tests, without its own events.

    found(record, the block after all)."""
    f = s.f
    low, high, group = s.l_low[left], s.l_high[left], s.group[left]
    stop = s.r_hi[group]
    right = f.variable("right", first_at_least(s, "r_end", s.r_lo[group], stop, low))
    with scanning(f, right, lambda record: record < stop, lambda record: s.r_end[record] <= high) as (record, after):
        with f.when((s.r_start[record] >= low) & ~tests.share(left, record)), tests.holding(left, record):
            found(record, after)


def _any_between(s: Scope, tests: PairTests) -> None:
    """held: by left record, is there a right record between l_low and l_high? See `_each_between`."""
    f = s.f

    def note(record: Value, after: Block) -> None:
        s.held[left] = f.constant(1, U8)
        f.jump(after)

    with f.loop(0, s.l_low.length) as left:
        s.held[left] = f.constant(0, U8)
        _each_between(s, tests, left, note)
    f.give(0)


def _all_between(s: Scope, tests: PairTests) -> None:
    """out_rows: all of them, which are single events; those of left record i are out_from[i]:out_from[i + 1]."""

    def list_each(at: Kept, left: Value) -> None:
        before = at.count.value
        _each_between(s, tests, left, lambda record, _: _put_event(s, at, before, record))

    _list_events(s, s.l_low.length, list_each)


def _all_following(s: Scope, tests: PairTests) -> None:
    """out_rows: single events after the row `first` of each record, that begin not before l_low and end not after
    l_high, MOST of each; as `_all_between`. None if `first` is -1."""
    f, most = s.f, s.settings[MOST]

    def list_each(at: Kept, left: Value) -> None:
        before = at.count.value
        row, group, low, high = s.first[left], s.group[left], s.l_low[left], s.l_high[left]
        begin = s.r_lo[group]
        stop = f.select(row >= 0, s.r_hi[group], begin)
        place = f.variable("place", first_at_least(s, "r_rows", begin, stop, (row + 1).to(I32)))

        def is_wanted(record: Value) -> Value:
            return (s.r_end[record] <= high) & (at.count - before < most)

        with scanning(f, place, lambda record: record < stop, is_wanted) as (record, _):
            with f.when(s.r_start[record] >= low):
                _put_event(s, at, before, record)

    _list_events(s, s.first.length, list_each)


def _list_events(s: Scope, records: Operand, list_each: Callable[[Kept, Value], None]) -> None:
    f, limit = s.f, s.settings[LIMIT]
    at = Kept(s, "record count")
    with f.during(lambda: at.record < records):
        left = at.record.value
        list_each(at, left)
        s.out_from[left + 1] = at.count
        with f.when(at.count > limit):
            at.leave(TOO_MANY)
        at.record.set(left + 1)
    at.leave(FINE)


def _put_event(s: Scope, at: Kept, before: Value, record: Value) -> None:
    """List an event; if there is no room for it, the record at work is tried again."""
    with s.f.when(at.count.equals(s.out_rows.length)):
        at.count.set(before)
        at.leave(FULL)
    s.out_rows[at.count] = s.r_rows[record]
    at.count.set(at.count + 1)


def _single(s: Scope, tests: PairTests) -> None:
    """held: do the tests, all on left records, hold for each?"""
    f = s.f
    with f.loop(0, s.held.length) as left:
        s.held[left] = f.constant(0, U8)
        with tests.holding(left, left):
            s.held[left] = f.constant(1, U8)
    f.give(0)
