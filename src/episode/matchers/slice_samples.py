"""A small piece of work that calls all kernels of slices of time, so that they are compiled ahead."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from episode.matchers.columns import key_hashes
from episode.matchers.envelope import Packing, pack, unpack
from episode.matchers.protocol import InputOrder, OrderKey
from episode.matchers.slice_routing import trimmed
from episode.matchers.sliced_keys import SlicedKey, SlicedKeys
from episode.matchers.slicing import Overlap

_ROWS = 16


def slice_once() -> None:
    """Pack events of two keys, and of none, one of them in slices; and trim them."""
    table = pa.table({"k": pa.array(np.arange(_ROWS) % 2), "ts": pa.array(np.arange(_ROWS))})
    overlap = Overlap(before_time=1, before_rows=1, after_time=1, after_rows=1)
    for keys in (("k",), ()):
        order = InputOrder(keys, (OrderKey("ts"),))
        key = int(key_hashes(table.slice(0, 1), keys)[0]) if keys else 0
        sliced = SlicedKeys((SlicedKey(key, (_ROWS // 2,)),), overlap, first=1)
        for unit, rows in unpack(pack([table], Packing(order, 1, sliced=sliced), 0)):
            part = sliced.slice_of(unit)
            if part is not None:
                list(trimmed([rows], order, part.bounds, overlap, rows.nbytes))
