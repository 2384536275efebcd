"""Groups side by side, `A; B*; C*; D`, as machine code: where the one ends and the other begins.

Of each match, all events of each group between the places around them are known. A group is all of its events after the
last event of the groups before it, and before the first event of those after it; one with a count is any so many
successive ones of these. A group that is empty bounds nothing.
"""

from __future__ import annotations

from episode.matchers.events.code.arrays import LIMIT
from episode.matchers.events.code.flow import FINE, FULL, Kept, advance
from episode.matchers.time_code import search_place
from episode.native.builder import Program
from episode.native.ir import Value
from episode.native.scope import ArrayTypes, Scope, entry_scope
from episode.native.types import I64

NOT_TRIED, EMPTY = -2, -1
COUNT = 2
"""The place in `kept` of how many ways are listed; before it, the match and the group at work (-1: none)."""
BY_GROUP = ("first", "tried", "begin", "stop", "some", "last", "is_capped", "cap")
"""What is known at each group, with one place more for the end: the first event that it may have; the option under
trial; its events; of the groups before it, whether one has events, and when their last one ended; whether the next
group that is not empty must begin by a time, as a group before it has left an event out; and that time."""

_TYPES: ArrayTypes = {
    "from_": (I64, False), "rows": (I64, False), "least": (I64, False), "counts": (I64, False), "end": (I64, False),
    "settings": (I64, False), "kept": (I64, True), "which": (I64, True), "begins": (I64, True), "stops": (I64, True),
    **dict.fromkeys(BY_GROUP, (I64, True)),
}  # fmt: skip


def splits_program(groups: int) -> Program:
    """Every way to part the events of the groups, of each match: which[way], begins and stops[way, group].

    from_[group, match]: where the events of each group begin in `rows`; least, counts: how many events it needs, and
    how many it has exactly (0: all of them). Depth first over the groups. Ends with one way more than the limit.
    """
    s = entry_scope("splits", _TYPES)
    f = s.f
    at = Kept(s, "match group count")
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
                    _put_way(s, at, groups)
                    with f.when(at.count > limit):
                        at.leave(FINE)
                at.group.set(at.group - 1)
                otherwise()
                _try_next(s, at, groups, matches)
        at.match.set(at.match + 1)
    at.leave(FINE)
    return s.program


def _put_way(s: Scope, at: Kept, groups: int) -> None:
    s.which[at.count] = at.match
    for group in range(groups):
        place = at.count * groups + group
        s.begins[place], s.stops[place] = s.begin[group], s.stop[group]
    at.count.set(at.count + 1)


def _begin_group(s: Scope, at: Kept, matches: Value) -> None:
    """The first event that a group may have, and nothing tried of it."""
    f, group = s.f, at.group.value
    place = group * (matches + 1) + at.match
    first = f.variable("first", s.from_[place])
    with f.when(s.some[group].differs(0)):
        first.set(s.call("first_after", _first_after, first, s.from_[place + 1], s.last[group]))
    s.first[group], s.tried[group] = first, NOT_TRIED


def _first_after(s: Scope, first: Value, stop: Value, moment: Value) -> None:
    """The first place from `first` to `stop` of an event that is later."""
    s.f.give(search_place(s.f, first, stop, lambda at: s.end[s.rows[at]] <= moment))


def _try_next(s: Scope, at: Kept, groups: int, matches: Value) -> None:
    """The next option of a group, and on to the group after it; without one, back to the group before it."""
    f, group = s.f, at.group.value
    stop, low = s.from_[group * (matches + 1) + at.match + 1], s.first[group]
    option = s.call("next_option", _next_option, group, low, stop, group.equals(groups - 1))
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


def _next_option(s: Scope, group: Value, low: Value, stop: Value, is_last: Value) -> None:
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
    begin = f.select(is_last, f.greatest(begin, stop - 1), begin)  # what is left out is not bounded
    option_ = f.variable("option", begin)
    advance(f, option_, stop - 1, lambda now: s.end[s.rows[now + 1]].equals(s.end[s.rows[now]]))
    f.give(f.select(option_ < stop, option_, NOT_TRIED))
