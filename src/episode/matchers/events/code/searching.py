"""Places in sorted arrays of events; see also `matchers.time_code`."""

from __future__ import annotations

from episode.native.ir import Operand, Value
from episode.native.scope import Scope


def first_after(s: Scope, array: str, first: Operand, stop: Operand, value: Operand) -> Value:
    """The first place from `first` to `stop` of an ascending array whose value is greater."""

    def build(s: Scope, first: Value, stop: Value, value: Value) -> None:
        f, values = s.f, s.array(array)
        low, high = f.variable("low", first), f.variable("high", stop)
        with f.during(lambda: low < high):
            middle = (low + high) >> 1
            with f.either(values[middle] <= value) as otherwise:
                low.set(middle + 1)
                otherwise()
                high.set(middle)
        f.give(low)

    return s.call(f"first_after_in_{array}", build, first, stop, value)
