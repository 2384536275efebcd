"""What every query needs in a process that matches, loaded ahead."""

from __future__ import annotations


def load() -> None:
    """Load the matchers of all languages; and run a kernel: the first one brings numba's own tables with it."""
    import pyarrow as pa

    from episode.matchers import engines  # noqa: F401  (they are found loaded)
    from episode.matchers.compiled import PACKING, is_compiled
    from episode.matchers.envelope import Packing, pack, unpack
    from episode.matchers.keys import KeyCoder
    from episode.matchers.ordering import events_of
    from episode.matchers.protocol import InputOrder, OrderKey

    if not is_compiled(PACKING):
        return  # whoever has a query to run compiles, and says so
    order = InputOrder(("k",), (OrderKey("ts"),))
    events = pa.table({"k": [1, 2, 1], "ts": [1, 2, 3], "v": [1.0, 2.5, 3.0]})
    for _, table in unpack(pack([events], Packing(order, 2), 0)):
        events_of(table, order, KeyCoder(order.keys))
