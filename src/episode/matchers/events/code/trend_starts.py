"""Aggregates over all matches if conditions relate an event to the one before it in the match, or to the first one.

For every start event, dynamic programming over the events of its window: the value of an event in a place is the sum
over the events that may come before it. If one condition compares the two, the sum is one over a range of values, from
a Fenwick tree over their ranks: n log n for a window of n events (Greta's graph without its edges). If a link has
several conditions, the events before are compared one by one: n^2.

Starts are taken in blocks, as lanes that are computed in parallel. Lanes begin in order of time, and so they expire: at
each event a range of them is at work. Without a window, one lane serves all starts.

The code works through blocks, and returns when an array is too small for the next one: the caller makes it larger, and
calls again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from episode.matchers.code.searching import first_after, first_at_least, sort_numbers, window_end
from episode.matchers.events.code.between import nodes_above, nodes_below
from episode.matchers.events.code.trend_short import PAIRS, add_short, holds_along, holds_with_first, short_partitions
from episode.matchers.events.code.trend_values import (
    EVENTS,
    EXACT,
    LEAST,
    NONE,
    REAL,
    WEIGHTS,
    AddedLanes,
    Cells,
    Parts,
    TrendShape,
    TrendValues,
    added_by,
    is_something,
    lane_words,
    one_match,
    pass_time,
    unite,
    zeros,
)
from episode.native.builder import ArrayTypes, Function, Program, Scope, entry_scope, subroutine
from episode.native.ir import I64, U64, Operand, Value
from episode.native.running import compiled_for

ROWS, WINDOW, WIDTH, GROUPS = range(4)
"""Places of `settings`. WIDTH: the most lanes at once."""
START, USED, RANKED_FROM, RANKED_TO, BUFFER, KNOWN, IS_HASHED, NEEDED, RANK_ROOM, SCAN_ROOM = range(10)
"""Places of `state`: the next row that may start a match, the lanes of the block at work, the rows whose ranks are
known, the cell after those of links, the number of totals and whether their keys are in the table, the room that is
needed, and the rows for which ranks and scanned events have room."""
FINE, MORE_RANKS, MORE_CELLS, MORE_PAIRS, MORE_SCANS, MORE_TOTALS = range(6)
NO_KEY = -1

_WRITTEN = ("state", "bases", "sizes", "start_of", "rank", "below", "above", "sorted", "scanned", "scans",
            "keys", "table")  # fmt: skip


@dataclass(frozen=True)
class StartCells(Cells):
    """Values of the starts of a block side by side, lane after lane; shared: of all starts together."""

    shared: bool

    def place(self, s: Scope, at: Operand, kind: int, lane: Operand) -> Value:
        row = super().place(s, at, kind, lane)
        return row if self.shared else row * s.state[USED]


@dataclass(frozen=True)
class StartsCode:
    """The parts that are compiled in. shared: all starts are in one lane. grouped: totals are also kept by the first
    event."""

    shape: TrendShape
    shared: bool
    grouped: bool

    @property
    def lanes(self) -> StartCells:
        return StartCells("lane", self.shape.lanes, self.shared)

    @property
    def total(self) -> Cells:
        return Cells("total", self.shape.lanes)

    @property
    def together(self) -> bool:
        """Do all starts of a short partition count alike?"""
        return not self.grouped and not self.shape.first_tests

    @property
    def ranked(self) -> tuple[int, ...]:
        """Links with one condition, by number."""
        return tuple(at for at, link in enumerate(self.shape.links) if len(link.operations) == 1)

    @property
    def scanned(self) -> tuple[int, ...]:
        """Links with several conditions."""
        return tuple(at for at, link in enumerate(self.shape.links) if len(link.operations) > 1)

    def first_test(self, number: int) -> int:
        """The number of the first condition of a link."""
        return sum(len(link.operations) for link in self.shape.links[:number])

    @property
    def types(self) -> ArrayTypes:
        written: ArrayTypes = dict.fromkeys(_WRITTEN, (I64, True))
        return {**EVENTS, **WEIGHTS, **PAIRS, **written, **self.lanes.types, **self.total.types}


@dataclass(frozen=True)
class Starts:
    """Settings of starts. width: the most starts at once. few: partitions of at most this number of rows within one
    window are compared one by one. groups: if there are several, totals are kept by the group of the first event."""

    window: int
    width: int
    shared: bool
    groups: int
    few: int


def by_start(
    shape: TrendShape, events: Mapping[str, np.ndarray], starts: Starts, total: TrendValues, keys: np.ndarray
) -> tuple[TrendValues, np.ndarray]:
    """Add up the matches of partitions begins[g]:ends[g], whose rows are in order of time.

    slot int64[n]: the total of the matches that end with a row; negative: none. group int64[n]: of first events. keys
    int64: of the totals so far, slot * groups + group. Returns the totals, and their keys.
    """
    kind = StartsCode(shape, starts.shared, starts.groups > 1)
    if kind.together:
        short = short_partitions(events, starts.window, starts.few)
        if short.any():
            add_short(shape, {**events, **_some(events, short)}, total)
        events = {**events, **_some(events, ~short)}
    if len(events["begins"]) == 0:
        return total, keys
    code, work = compiled_for(starts_program, kind), TrendWork(kind, events, starts, total, keys)
    while True:
        status = code.run(work.arrays)
        if status == FINE:
            return work.totals()
        work.make_room(status, 2 * int(work.arrays["state"][NEEDED]))


def _some(events: Mapping[str, np.ndarray], which: np.ndarray) -> dict[str, np.ndarray]:
    """The bounds of some partitions."""
    return {name: events[name][which] for name in ("begins", "ends")}


class TrendWork:
    """The arrays that the code works on."""

    def __init__(
        self, kind: StartsCode, events: Mapping[str, np.ndarray], starts: Starts, total: TrendValues, keys: np.ndarray
    ) -> None:
        self.kind, self.width = kind, starts.width
        links = len(kind.shape.links)
        state = np.zeros(10, np.int64)
        state[KNOWN] = len(keys)
        settings = [len(events["time"]), starts.window, starts.width, starts.groups]
        self.arrays = {
            **events, "settings": np.array(settings, np.int64), "state": state, "bases": np.zeros(links, np.int64),
            "sizes": np.zeros(links, np.int64), "start_of": np.zeros(starts.width, np.int64),
            "scanned": np.zeros(len(kind.scanned), np.int64), "keys": keys.copy(),
            "table": np.full(64 + 4 * len(keys), NO_KEY, np.int64), **kind.total.arrays(total),
        }  # fmt: skip
        for status, room in ((MORE_RANKS, 0), (MORE_CELLS, 1), (MORE_PAIRS, 64), (MORE_SCANS, 0)):
            self.make_room(status, room)

    def make_room(self, status: int, room: int) -> None:
        """Make room in the arrays that were too small."""
        state, kind = self.arrays["state"], self.kind
        if status == MORE_RANKS:
            state[RANK_ROOM] = room
            for name in ("rank", "below", "above"):
                self.arrays[name] = np.empty(len(kind.ranked) * room, np.int64)
            self.arrays["sorted"] = np.empty(2 * room, np.int64)
        elif status == MORE_CELLS:
            self.arrays |= kind.lanes.arrays(zeros(room * self.width, *kind.shape.lanes.counts))
        elif status == MORE_PAIRS:
            self.arrays |= {name: np.zeros(room, np.int64) for name in PAIRS}
        elif status == MORE_SCANS:
            state[SCAN_ROOM] = room
            self.arrays["scans"] = np.empty(len(kind.scanned) * room, np.int64)
        else:
            self._grow_totals(room)

    def _grow_totals(self, room: int) -> None:
        more = self.kind.total.arrays(zeros(room, *self.kind.shape.lanes.counts)) | {"keys": np.empty(room, np.int64)}
        for name, new in more.items():
            new[: len(self.arrays[name])] = self.arrays[name]
        self.arrays |= {**more, "table": np.full(4 * room, NO_KEY, np.int64)}
        self.arrays["state"][IS_HASHED] = 0

    def totals(self) -> tuple[TrendValues, np.ndarray]:
        known = int(self.arrays["state"][KNOWN])
        exact, real, least = self.kind.shape.lanes.counts
        kinds = (("low", exact), ("high", exact), ("real", real), ("least", least))
        count = len(self.arrays["total_low"]) // exact
        values = (self.arrays[f"total_{kind}"].reshape(count, lanes) for kind, lanes in kinds)
        return TrendValues(*values), self.arrays["keys"][:known]


# ---- blocks ----------------------------------------------------------------------------------------------


def starts_program(kind: StartsCode) -> Program:
    s = entry_scope("trends", kind.types)
    f, shape = s.f, kind.shape
    if kind.grouped:  # put the known keys into a new table
        with f.when(s.state[IS_HASHED].equals(0)):
            with f.loop(0, s.state[KNOWN]) as number:
                s.table[_find_spot(s, s.keys[number])] = number
            s.state[IS_HASHED] = 1
    with f.loop(0, s.begins.length) as part:
        high = s.ends[part]
        start = f.variable("start", f.greatest(s.state[START], s.begins[part]))
        with f.during(lambda: start < high):
            at = start.value
            with f.either((s.bits[at] & f.constant(shape.first_bits, U64)).equals(0)) as otherwise:
                start.set(at + 1)
                otherwise()
                status = _take_block(kind, s, at, high)
                f.give_if(status.differs(FINE), status)
                start.set(s.state[START])
    f.give(FINE)
    return s.program


@subroutine()
def _take_block(kind: StartsCode, s: Scope, start: Value, high: Value) -> Operand:
    """Add up the matches of the next starts from a row on. Returns the array that is too small, if one is."""
    f = s.f
    next_start, count, last = _starts_of_block(kind, s, start, high)
    stop = high
    if not kind.shared:
        stop = first_after(s, "time", last, high, window_end(f, s.time[last], s.settings[WINDOW]))
    wanted = f.variable("wanted", 0)
    with f.loop(start, stop) as row:
        wanted.set(wanted + (s.slot[row] >= 0).to(I64))
    with f.when(wanted > 0):
        if kind.ranked or kind.scanned:
            with f.when(stop > s.state[RANKED_TO]):
                _prepare(kind, s, start, stop, high)
        else:
            _need_pairs(kind, s, start, stop, len(kind.shape.bits))
        if kind.grouped:
            room = s.state[KNOWN] + wanted * count
            _need(s, s.keys.length, room, MORE_TOTALS)
        s.state[USED] = f.value(1) if kind.shared else count
        _clear_cells(kind, s, 0, s.state[BUFFER])
        for number in range(len(kind.scanned)):
            s.scanned[number] = 0
        _sweep(kind, s, start, next_start, stop)
    s.state[START] = next_start
    return FINE


def _starts_of_block(kind: StartsCode, s: Scope, start: Value, high: Value) -> tuple[Value, Value, Value]:
    """The row after the last start, how many starts there are, and the last one."""
    f = s.f
    if kind.shared:
        return high, f.value(1), start
    following, count, last = f.variable("following", start), f.variable("count", 0), f.variable("last", start)
    with f.during(lambda: (following < high) & (count < s.settings[WIDTH])):
        at = following.value
        with f.when((s.bits[at] & f.constant(kind.shape.first_bits, U64)).differs(0)):
            count.set(count + 1)
            last.set(at)
        following.set(at + 1)
    return following.value, count.value, last.value


def _need(s: Scope, room: Value, needed: Value, status: int) -> None:
    """Give the status if there is too little room."""
    with s.f.when(room < needed):
        s.state[NEEDED] = needed
        s.f.give(status)


def _need_pairs(kind: StartsCode, s: Scope, begin: Value, end: Value, base: Operand) -> None:
    """Room for the values of events of one time, after the cells of places and links."""
    f = s.f
    most = _most_at_once(s, begin, end) * len(kind.shape.bits)
    _need(s, s.pair_row.length, most, MORE_PAIRS)
    cells = s.lane_low.length.divide(s.settings[WIDTH] * kind.shape.lanes.counts[0])
    _need(s, cells, most + base, MORE_CELLS)
    s.state[BUFFER] = f.value(base)


@subroutine()
def _most_at_once(s: Scope, begin: Value, end: Value) -> Value:
    """The most rows of one time."""
    f = s.f
    most, at = f.variable("most", 1), f.variable("at", begin)
    with f.during(lambda: at < end):
        first = pass_time(s, at, end)
        most.set(f.greatest(most, at - first))
    return most


def _prepare(kind: StartsCode, s: Scope, start: Value, stop: Value, high: Value) -> None:
    """Ranks and places of cells, for a block and about as many rows after it."""
    f, links = s.f, kind.shape.links
    end = f.least(high, stop + (stop - start))
    reach = end - start
    if kind.ranked:
        _need(s, s.state[RANK_ROOM], reach, MORE_RANKS)
    if kind.scanned:
        _need(s, s.state[SCAN_ROOM], reach, MORE_SCANS)
    base = f.variable("base", len(kind.shape.bits))
    for number, link in enumerate(links):
        if not link.operations:
            continue
        s.bases[number] = base
        size = _rank(kind, number, s, start, end) if number in kind.ranked else reach
        s.sizes[number] = size
        base.set(base + size * (2 if link.operations == ("ne",) else 1))
    _need_pairs(kind, s, start, end, base.value)
    s.state[RANKED_FROM], s.state[RANKED_TO] = start, end


# ---- ranks -----------------------------------------------------------------------------------------------


@subroutine()
def _rank(kind: StartsCode, number: int, s: Scope, begin: Value, end: Value) -> Value:
    """Rank the rows begin:end by the value that later events compare with; for each current row, the number of ranks
    below, and the first rank above. Negative: no event fits. Returns the number of ranks."""
    f, shape, link = s.f, kind.shape, kind.shape.links[number]
    (operation,), place = link.operations, kind.ranked.index(number)
    test = s.settings[ROWS] * kind.first_test(number)

    def is_before(row: Value) -> Value:
        return shape.has(f, s.bits[row], link.source) & s.before_valid[test + row].differs(0)

    count = f.variable("count", 0)
    with f.loop(begin, end) as row:
        with f.when(is_before(row)):
            s.sorted[count] = s.before[test + row]
            count.set(count + 1)
    sort_numbers(s, "sorted", count.value)
    ranks = s.state[RANK_ROOM] * place - begin
    with f.loop(begin, end) as row:
        at = ranks + row
        s.rank[at] = s.below[at] = s.above[at] = -1
        with f.when(is_before(row)):
            s.rank[at] = first_at_least(s, "sorted", 0, count, s.before[test + row])
        with f.when(shape.has(f, s.bits[row], link.target) & s.current_valid[test + row].differs(0)):
            _rank_current(s, operation, s.current[test + row], count.value, at)
    return count


def _rank_current(s: Scope, operation: str, value: Value, count: Value, at: Value) -> None:
    f = s.f
    left = first_at_least(s, "sorted", 0, count, value)
    if operation == "eq":
        with f.when(left < count):
            with f.when(s.sorted[left].equals(value)):
                s.below[at] = left
        return
    right = first_after(s, "sorted", left, count, value) if operation in ("ge", "lt", "ne") else left
    if operation in ("gt", "ne"):
        s.below[at] = left
    elif operation == "ge":
        s.below[at] = right
    if operation in ("lt", "ne"):
        s.above[at] = right
    elif operation == "le":
        s.above[at] = left


# ---- values of many starts side by side ------------------------------------------------------------------


@contextmanager
def _each_lane(kind: StartsCode, f: Function, begin: Operand, end: Operand) -> Iterator[Value]:
    if kind.shared:
        yield f.value(0)
        return
    with f.loop(begin, end) as lane:
        yield lane


@subroutine()
def _clear_cells(kind: StartsCode, s: Scope, begin: Value, end: Value) -> None:
    """Clear cells: no matches."""
    for which, count in enumerate(kind.shape.lanes.counts):
        if count:
            first, stop = (kind.lanes.place(s, cell, which, 0) for cell in (begin, end))
            with s.f.loop(first, stop) as at:
                kind.lanes.store(s, which, at, NONE[which])


@subroutine()
def _add_cells(kind: StartsCode, s: Scope, at: Value, other: Value, begin: Value, end: Value) -> None:
    """lanes[at] += lanes[other], of a range of lanes"""
    f, cells = s.f, kind.lanes
    for which, count in enumerate(kind.shape.lanes.counts):
        if count:
            with f.loop(0, count) as number:
                one, two = (cells.place(s, cell, which, number) for cell in (at, other))
                with _each_lane(kind, f, begin, end) as lane:
                    _unite_lane(cells, s, which, one + lane, cells.load(s, which, two + lane))


def _unite_lane(cells: StartCells, s: Scope, kind: int, place: Value, more: Parts) -> None:
    cells.store(s, kind, place, unite(s.f, kind, cells.load(s, kind, place), more))


@subroutine()
def _take(
    kind: StartsCode, _name: str, added: AddedLanes, s: Scope, at: Value, row: Value, begin: Value, end: Value
) -> None:
    """lanes[at] *= the event of a row, which adds to some lanes"""
    f, cells = s.f, kind.lanes
    counts = [cells.place(s, at, which, 0) for which in (EXACT, REAL)]
    for which, numbers in enumerate(added):
        for number in numbers:
            own = cells.place(s, at, which, number)
            with _each_lane(kind, f, begin, end) as lane:
                more = added_by(s, which, number, row, lambda which: cells.load(s, which, counts[which] + lane))
                if which == LEAST:
                    with f.when(is_something(cells.load(s, EXACT, counts[EXACT] + lane))):
                        _unite_lane(cells, s, which, own + lane, more)
                else:
                    _unite_lane(cells, s, which, own + lane, more)


# ---- the pass --------------------------------------------------------------------------------------------


@subroutine()
def _sweep(kind: StartsCode, s: Scope, start: Value, next_start: Value, stop: Value) -> None:
    """Sweep the events of one block, in order of time. Lanes alive:begun are at work, those from begun to fresh begin
    now."""
    f = s.f
    alive, begun, fresh = (f.variable(name, 0) for name in ("alive", "begun", "fresh"))
    row, pairs = f.variable("row", start), f.variable("pairs", 0)
    with f.during(lambda: row < stop):
        begin = pass_time(s, row, stop)
        now = s.time[begin]
        if not kind.shared:
            with f.during(lambda: alive < begun) as after:
                ends = window_end(f, s.time[s.start_of[alive]], s.settings[WINDOW])
                f.jump_if(ends >= now, after)
                alive.set(alive + 1)
        pairs.set(0)
        fresh.set(begun)
        with f.loop(begin, row.value) as event:
            bits = s.bits[event]
            with f.when(bits.differs(0)):
                starts = (event < next_start) & (bits & f.constant(kind.shape.first_bits, U64)).differs(0)
                if not kind.shared:
                    with f.when(starts):
                        s.start_of[fresh] = event
                        fresh.set(fresh + 1)
                for place in kind.shape.places:
                    with f.when(kind.shape.has(f, bits, place)):
                        at = s.state[BUFFER] + pairs
                        _fill(kind, s, place, at, event, starts, (alive.value, begun.value, fresh.value))
                        if place in kind.shape.continued:
                            number = pairs.value
                            s.pair_row[number], s.pair_place[number] = event, place
                            pairs.set(number + 1)
        begun.set(1 if kind.shared else fresh)
        _store_pairs(kind, s, pairs.value, alive.value, begun.value)


def _fill(
    kind: StartsCode, s: Scope, place: int, at: Value, event: Value, starts: Value, lanes: tuple[Value, Value, Value]
) -> None:
    """Set the value of an event in a place, at a cell; add matches that end with it to their totals. lanes: see
    `_sweep`."""
    f, shape = s.f, kind.shape
    alive, begun, fresh = lanes
    _clear_cells(kind, s, at, at + 1)
    for number, link in enumerate(shape.links):
        if link.target == place and not link.operations:
            _add_cells(kind, s, at, link.source, alive, begun)
        elif link.target == place:
            _add_before(kind, number, s, at, event, alive, begun)
    for test, (operation, places) in enumerate(shape.first_tests):
        if place in places:
            with f.loop(alive, begun) as lane:
                with f.when(~holds_with_first(s, operation, test, event, s.start_of[lane])):
                    for which, number in shape.lanes.all:  # no matches
                        kind.lanes.store(s, which, kind.lanes.place(s, at, which, number) + lane, NONE[which])
    if place in shape.starts:
        with f.when(starts):
            _begin_match(kind, s, at, 0 if kind.shared else fresh - 1)
    added = shape.lanes.added_at(place)
    if any(added):
        _take(kind, lane_words(added), added, s, at, event, alive, fresh)
    if place in shape.ends:
        with f.when(s.slot[event] >= 0):
            _end_matches(kind, s, at, event, alive, fresh)


@subroutine()
def _begin_match(kind: StartsCode, s: Scope, at: Value, lane: Value) -> None:
    """Begin a match without events before this one."""
    for which in (EXACT, REAL):
        if kind.shape.lanes.counts[which]:
            place = kind.lanes.place(s, at, which, 0) + lane
            _unite_lane(kind.lanes, s, which, place, one_match(s.f, which, 0))


@subroutine()
def _end_matches(kind: StartsCode, s: Scope, at: Value, event: Value, alive: Value, fresh: Value) -> None:
    f = s.f
    counts = kind.lanes.place(s, at, EXACT, 0)
    with _each_lane(kind, f, alive, fresh) as lane:
        with f.when(is_something(kind.lanes.load(s, EXACT, counts + lane))):
            slot = s.slot[event]
            if kind.grouped:
                slot = _find_key(s, slot * s.settings[GROUPS] + s.group[s.start_of[lane]])
            for which, number in kind.shape.lanes.all:
                place = kind.lanes.place(s, at, which, number) + lane
                kind.total.add(s, slot, which, number, kind.lanes.load(s, which, place))


def _store_pairs(kind: StartsCode, s: Scope, pairs: Value, alive: Value, begun: Value) -> None:
    """Make the events of one time available to later ones."""
    f, links = s.f, kind.shape.links
    with f.loop(0, pairs) as pair:
        at, event, found = s.state[BUFFER] + pair, s.pair_row[pair], s.pair_place[pair]
        for place in sorted(kind.shape.continued):
            with f.when(found.equals(place)):
                mine = [(number, link) for number, link in enumerate(links) if link.source == place]
                for number, link in mine:
                    if link.operations:
                        _store(kind, number, s, at, event, alive, begun)
                if any(not link.operations for _, link in mine):
                    _add_cells(kind, s, place, at, alive, begun)


# ---- links with conditions -------------------------------------------------------------------------------


@subroutine()
def _add_before(kind: StartsCode, number: int, s: Scope, at: Value, row: Value, begin: Value, end: Value) -> None:
    """lanes[at] += the events that may come before a row's, along a link with conditions"""
    f, link = s.f, kind.shape.links[number]
    base, size = s.bases[number], s.sizes[number]
    if number in kind.scanned:
        place = kind.scanned.index(number)
        scans = s.state[SCAN_ROOM] * place
        with f.loop(0, s.scanned[place]) as other:
            with f.when(holds_along(s, link.operations, kind.first_test(number), row, s.scans[scans + other])):
                _add_cells(kind, s, at, base + other, begin, end)
        return
    rank = s.state[RANK_ROOM] * kind.ranked.index(number) - s.state[RANKED_FROM] + row
    (operation,) = link.operations
    if operation == "eq":
        below = s.below[rank]
        with f.when(below >= 0):
            _add_cells(kind, s, at, base + below, begin, end)
    if operation in ("gt", "ge", "ne"):
        nodes_below(f, s.below[rank], lambda node: _add_cells(kind, s, at, base + node - 1, begin, end))
    if operation in ("lt", "le", "ne"):
        back = base + size if operation == "ne" else base
        above = s.above[rank]
        with f.when(above >= 0):
            nodes_below(f, size - above, lambda node: _add_cells(kind, s, at, back + node - 1, begin, end))


@subroutine()
def _store(kind: StartsCode, number: int, s: Scope, at: Value, row: Value, begin: Value, end: Value) -> None:
    """Make the value of a row's event available along a link with conditions."""
    f, link = s.f, kind.shape.links[number]
    base, size = s.bases[number], s.sizes[number]
    if number in kind.scanned:
        place = kind.scanned.index(number)
        count = s.scanned[place]
        _add_cells(kind, s, base + count, at, begin, end)
        s.scans[s.state[SCAN_ROOM] * place + count] = row
        s.scanned[place] = count + 1
        return
    rank = s.rank[s.state[RANK_ROOM] * kind.ranked.index(number) - s.state[RANKED_FROM] + row]
    (operation,) = link.operations
    with f.when(rank >= 0):
        if operation == "eq":
            _add_cells(kind, s, base + rank, at, begin, end)
        if operation in ("gt", "ge", "ne"):
            nodes_above(f, rank + 1, size + 1, lambda node: _add_cells(kind, s, base + node - 1, at, begin, end))
        if operation in ("lt", "le", "ne"):
            back = base + size if operation == "ne" else base
            nodes_above(f, size - rank, size + 1, lambda node: _add_cells(kind, s, back + node - 1, at, begin, end))


# ---- totals by the first event ---------------------------------------------------------------------------


def _find_spot(s: Scope, key: Value) -> Value:
    """The spot of a key in the table, or the free one for it."""
    f = s.f
    mixed = (key.to(U64) * f.constant(0x9E3779B97F4A7C15, U64)) >> f.constant(20, U64)
    spot = f.variable("spot", mixed.remainder(s.table.length.to(U64)).to(I64))

    def is_other() -> Value:
        number = s.table[spot]
        return number.differs(NO_KEY) & s.keys[f.greatest(number, 0)].differs(key)

    with f.during(is_other):
        following = spot + 1
        spot.set(f.select(following.equals(s.table.length), 0, following))
    return spot.value


@subroutine()
def _find_key(s: Scope, key: Value) -> Value:
    """The number of a key; a new one is added to the known keys, which have room for it."""
    f = s.f
    spot = _find_spot(s, key)
    with f.when(s.table[spot].equals(NO_KEY)):
        known = s.state[KNOWN]
        s.keys[known] = key
        s.table[spot] = known
        s.state[KNOWN] = known + 1
    return s.table[spot]
