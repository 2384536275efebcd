"""Groups side by side: calls of the compiled loop that parts their events."""

from __future__ import annotations

import numpy as np

from episode.matchers.events.code.arrays import LIMIT, settings_of
from episode.matchers.events.code.flow import FULL
from episode.matchers.events.code.splits import BY_GROUP, COUNT, splits_program
from episode.native.running import compiled_for

LEAST_ROOM = 1024


def part_groups(
    from_: np.ndarray, rows: np.ndarray, least: np.ndarray, counts: np.ndarray, end: np.ndarray, limit: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every way to part the events of groups: (match int64[ways], from int64[ways, groups], to); one more than `limit`
    if there are more. See `code.splits`; from_ int64[groups, matches + 1], rows: of the events, whose times are `end`.
    """
    groups = len(least)
    arrays = {
        "from_": from_.reshape(-1), "rows": rows.astype(np.int64), "least": least, "counts": counts, "end": end,
        "settings": settings_of({LIMIT: limit}), "kept": np.array([0, -1, 0], np.int64),
        **{name: np.zeros(groups + 1, np.int64) for name in BY_GROUP}, **_room(LEAST_ROOM, groups),
    }  # fmt: skip
    program = compiled_for(splits_program, groups)
    while program.run(arrays) == FULL:
        more = _room(len(arrays["which"]), groups)
        arrays |= {name: np.concatenate([arrays[name], more[name]]) for name in more}
    count = arrays["kept"][COUNT]
    begins, stops = (arrays[name].reshape(-1, groups)[:count] for name in ("begins", "stops"))
    return arrays["which"][:count], begins, stops


def _room(ways: int, groups: int) -> dict[str, np.ndarray]:
    sizes = {"which": ways, "begins": ways * groups, "stops": ways * groups}
    return {name: np.empty(size, np.int64) for name, size in sizes.items()}
