"""Emits loops over records between, before or after events: negations, groups, and splits of adjacent groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from episode.matchers.code.expressions import CodeConstants
from episode.matchers.code.searching import first_at_least, search_place, window_end, window_start
from episode.matchers.events.code.arrays import LIMIT, MOST, NTH, TYPES, WINDOW
from episode.matchers.events.code.conditions import PairTests, RecordTests
from episode.matchers.times import EVER, NEVER
from episode.native.builder import ArrayTypes, Function, Program, Scope, entry_scope, subroutine
from episode.native.ir import I32, I64, Block, Operand, Value, Variable

Condition = Callable[[Value], Value]

FINE, FULL, TOO_MANY = 0, 1, 2
"""Statuses of a loop: complete; out of room (it continues there if called again); over the limit."""


class KeptVariables:
    """Variables that an array keeps between two calls of a loop."""

    def __init__(self, s: Scope, names: str) -> None:
        self._s = s
        self._variables = {name: s.f.variable(name, s.kept[place]) for place, name in enumerate(names.split())}

    def __getattr__(self, name: str) -> Variable:
        return self._variables[name]

    def leave(self, status: int) -> None:
        """Keep the variables, and return."""
        for place, variable in enumerate(self._variables.values()):
            self._s.kept[place] = variable
        self._s.f.give(status)


@contextmanager
def scanning(
    f: Function, at: Variable, within: Condition, wanted: Condition | None = None, step: int | None = 1
) -> Iterator[tuple[Value, Block]]:
    """Move a place while it is within its limits and its record is wanted: (the place, the block after).

    step: the distance of a move; None: the code built inside sets the place.
    """
    with f.during(lambda: within(at.value)) as after:
        now = at.value
        if wanted is not None:
            f.jump_unless(wanted(now), after)
        yield now, after
        if step is not None:
            at.set(now + step)


def advance(f: Function, at: Variable, stop: Value, wanted: Condition) -> None:
    """Move a place towards `stop` while its record is wanted."""
    with scanning(f, at, lambda now: now < stop, wanted):
        pass


def nodes_below(f: Function, first: Value, visit: Callable[[Value], object]) -> None:
    """Visit the nodes of a Fenwick tree that make up the sum up to one."""
    node = f.variable("node", first)
    with f.during(lambda: node > 0):
        now = node.value
        visit(now)
        node.set(now - (now & -now))


def nodes_above(f: Function, first: Value, end: Value, visit: Callable[[Value], object]) -> None:
    """Visit the nodes of a Fenwick tree, before `end`, that have one in their sums."""
    node = f.variable("node", first)
    with f.during(lambda: node < end):
        now = node.value
        visit(now)
        node.set(now + (now & -now))


FOUND = 1
"""The place in `kept` of the number of listed events; before it, the record at work."""


@dataclass(frozen=True)
class ScanShape:
    """The kind of a loop: `latest`, `earliest`, `any`, `all`, `following` or `single`, the emitters below."""

    kind: str
    tests: RecordTests


def scan_program(scan: ScanShape) -> tuple[Program, CodeConstants]:
    program, constants = Program(scan.kind), CodeConstants()
    s = Scope(program.function("run"), TYPES)
    emit: Callable[[Scope, PairTests], None] = {
        "latest": _latest_before, "earliest": _earliest_after, "any": _any_between, "all": _all_between,
        "following": _all_following, "single": _single,
    }[scan.kind]  # fmt: skip
    emit(s, PairTests(s, scan.tests, constants))
    return program, constants


def _latest_before(s: Scope, tests: PairTests) -> None:
    """found: by right record, the greatest start of the left records that end before it begins, and pass the tests.

    NTH: the nth last of them, if they are single events. NEVER: none within the window.
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

    NTH as in `_latest_before`. EVER: none within the window.
    """
    f = s.f
    window, nth = s.settings[WINDOW], s.settings[NTH]
    with f.loop(0, s.l_lo.length) as group, f.loop(s.l_lo[group], s.l_hi[group]) as left:
        newest, ends = window_end(f, s.l_start[left], window), s.l_end[left]
        stop = s.r_hi[group]
        after = window_end(f, ends, f.value(1))
        right = f.variable("right", first_at_least(s, "r_end", s.r_lo[group], stop, after))
        best, seen = f.variable("best", EVER), f.variable("seen", 0)
        in_time = scanning(f, right, lambda record: record < stop, lambda record: s.r_end[record] <= newest)
        with in_time as (record, out):
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
        s.held[left] = 1
        f.jump(after)

    with f.loop(0, s.l_low.length) as left:
        s.held[left] = 0
        _each_between(s, tests, left, note)
    f.give(0)


def _all_between(s: Scope, tests: PairTests) -> None:
    """out_rows: all records of `_each_between`, which are single events; out_from[i]:out_from[i + 1] belong
    to left record i."""

    def list_each(at: KeptVariables, left: Value) -> None:
        before = at.count.value
        _each_between(s, tests, left, lambda record, _: _put_event(s, at, before, record))

    _list_events(s, s.l_low.length, list_each)


def _all_following(s: Scope, tests: PairTests) -> None:
    """out_rows: single events after the row `first` of each record, that begin not before l_low and end not after
    l_high, MOST of each; as `_all_between`. None if `first` is -1."""
    f, most = s.f, s.settings[MOST]

    def list_each(at: KeptVariables, left: Value) -> None:
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


def _list_events(s: Scope, records: Operand, list_each: Callable[[KeptVariables, Value], None]) -> None:
    f, limit = s.f, s.settings[LIMIT]
    at = KeptVariables(s, "record count")
    with f.during(lambda: at.record < records):
        left = at.record.value
        list_each(at, left)
        s.out_from[left + 1] = at.count
        with f.when(at.count > limit):
            at.leave(TOO_MANY)
        at.record.set(left + 1)
    at.leave(FINE)


def _put_event(s: Scope, at: KeptVariables, before: Value, record: Value) -> None:
    """List an event; without room for it, the record at work is tried again."""
    with s.f.when(at.count.equals(s.out_rows.length)):
        at.count.set(before)
        at.leave(FULL)
    s.out_rows[at.count] = s.r_rows[record]
    at.count.set(at.count + 1)


def _single(s: Scope, tests: PairTests) -> None:
    """held: do the tests, all on left records, hold for each?"""
    with s.f.loop(0, s.held.length) as left:
        s.held[left] = 0
        with tests.holding(left, left):
            s.held[left] = 1
    s.f.give(0)


# Adjacent groups, `A; B*; C*; D`: where one ends and the next begins. All events of each group between the places
# around them are known for each match. A group is all of its events after the last event of the groups before it, and
# before the first event of those after it; one with a count is any run of that length of these. An empty group bounds
# nothing.


NOT_TRIED, EMPTY = -2, -1
SPLITS = 2
"""The place in `kept` of the number of listed ways; before it, the match and the group at work (-1: none)."""
BY_GROUP = ("first", "tried", "begin", "stop", "some", "last", "is_capped", "cap")
"""State at each group, with one place more for the end: the first event that it may have; the option under trial; its
events; of the groups before it, whether one has events, and when their last one ended; whether the next group that is
not empty must begin by a time, as a group before it has left an event out; and that time."""

_TYPES: ArrayTypes = {
    "from_": (I64, False), "rows": (I64, False), "least": (I64, False), "counts": (I64, False), "end": (I64, False),
    "settings": (I64, False), "kept": (I64, True), "which": (I64, True), "begins": (I64, True), "stops": (I64, True),
    **dict.fromkeys(BY_GROUP, (I64, True)),
}  # fmt: skip


def splits_program(groups: int) -> Program:
    """List every way to split the events of the groups, for each match: which[way], begins and stops[way, group].

    from_[group, match]: where the events of each group begin in `rows`; least, counts: the least number of its events,
    and the exact one (0: all of them). Depth first over the groups. Ends with one way more than the limit.
    """
    s = entry_scope("splits", _TYPES)
    f = s.f
    at = KeptVariables(s, "match group count")
    matches, limit = s.from_.length.divide(groups) - 1, s.settings[LIMIT]
    with f.during(lambda: at.match < matches):
        with f.when(at.group < 0):
            at.group.set(0)
            s.some[0], s.is_capped[0] = 0, 0
            _begin_group(s, at, matches)
        with f.during(lambda: at.group >= 0):
            with f.either(at.group.equals(groups)) as otherwise:
                with f.when(s.is_capped[groups].equals(0)):
                    with f.when(at.count.equals(s.which.length)):
                        at.leave(FULL)
                    s.which[at.count] = at.match
                    for group in range(groups):
                        place = at.count * groups + group
                        s.begins[place], s.stops[place] = s.begin[group], s.stop[group]
                    at.count.set(at.count + 1)
                    with f.when(at.count > limit):
                        at.leave(FINE)
                at.group.set(at.group - 1)
                otherwise()
                _try_next(s, at, groups, matches)
        at.match.set(at.match + 1)
    at.leave(FINE)
    return s.program


def _begin_group(s: Scope, at: KeptVariables, matches: Value) -> None:
    """Set the first event that a group may have; no option is tried yet."""
    f, group = s.f, at.group.value
    place = group * (matches + 1) + at.match
    first = f.variable("first", s.from_[place])
    with f.when(s.some[group].differs(0)):
        first.set(_first_after(s, first, s.from_[place + 1], s.last[group]))
    s.first[group], s.tried[group] = first, NOT_TRIED


@subroutine()
def _first_after(s: Scope, first: Value, stop: Value, moment: Value) -> Value:
    """The first place from `first` to `stop` of an event that is later."""
    return search_place(s.f, first, stop, lambda at: s.end[s.rows[at]] <= moment)


def _try_next(s: Scope, at: KeptVariables, groups: int, matches: Value) -> None:
    """Try the next option of a group, then the group after it; without one, return to the group before it."""
    f, group = s.f, at.group.value
    stop, low = s.from_[group * (matches + 1) + at.match + 1], s.first[group]
    option = _next_option(s, group, low, stop, group.equals(groups - 1))
    s.tried[group] = option
    with f.either(option.equals(NOT_TRIED)) as otherwise:
        at.group.set(group - 1)
        otherwise()
        after = group + 1
        for name in ("some", "last", "is_capped", "cap"):
            s.array(name)[after] = s.array(name)[group]
        with f.either(option.equals(EMPTY)) as not_empty:
            _take_nothing(s, group, low, stop)
            not_empty()
            _take_some(s, group, option, low, stop)
        at.group.set(after)
        with f.when(after < groups):
            _begin_group(s, at, matches)


def _take_nothing(s: Scope, group: Value, low: Value, stop: Value) -> None:
    f = s.f
    s.begin[group], s.stop[group] = low, low
    with f.when(low < stop):
        time = s.end[s.rows[low]]
        with f.when(s.is_capped[group].equals(0) | (s.cap[group] > time)):
            s.is_capped[group + 1], s.cap[group + 1] = 1, time


def _take_some(s: Scope, group: Value, option: Value, low: Value, stop: Value) -> None:
    f, count = s.f, s.counts[group]
    begin = f.select(count.equals(0), low, option)
    end = option + f.select(count.equals(0), 1, count)
    s.begin[group], s.stop[group] = begin, end
    s.some[group + 1], s.last[group + 1] = 1, s.end[s.rows[end - 1]]
    s.is_capped[group + 1] = 0
    with f.when(count.equals(0) & (end < stop)):
        s.is_capped[group + 1], s.cap[group + 1] = 1, s.end[s.rows[end]]


@subroutine()
def _next_option(s: Scope, group: Value, low: Value, stop: Value, is_last: Value) -> Value:
    """The option of a group after the one tried: EMPTY, its last event, or with a count its first; NOT_TRIED: none."""
    f = s.f
    tried, least, count = s.tried[group], s.least[group], s.counts[group]

    def is_too_late(place: Value) -> Value:
        return s.is_capped[group].differs(0) & (s.end[s.rows[place]] > s.cap[group])

    with f.when(count.differs(0)):
        option = f.select(tried.equals(NOT_TRIED), low, tried + 1)
        f.give_if(option + count > stop, NOT_TRIED)
        f.give(f.select(is_too_late(option), NOT_TRIED, option))
    f.give_if(tried.equals(NOT_TRIED) & least.equals(0), EMPTY)
    f.give_if(low.equals(stop), NOT_TRIED)
    f.give_if(is_too_late(low), NOT_TRIED)
    begin = f.select(tried < 0, low + f.greatest(least, 1) - 1, tried + 1)
    begin = f.select(is_last, f.greatest(begin, stop - 1), begin)  # events left out are not bounded
    option_ = f.variable("option", begin)
    advance(f, option_, stop - 1, lambda now: s.end[s.rows[now + 1]].equals(s.end[s.rows[now]]))
    return f.select(option_ < stop, option_, NOT_TRIED)
