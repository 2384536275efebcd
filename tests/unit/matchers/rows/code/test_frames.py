"""The matches that rows have in their frames, against trying every row of every frame."""

from __future__ import annotations

import numpy as np
import pytest

from episode.matchers.rows.code.arrays import LOOKBACK, REACH, SETTINGS
from episode.matchers.rows.code.frames import ALL_ROWS, FRAME_PLACE, begin_frames, next_start_in_frames, to_next_frame
from episode.native.ir import U64
from tests.unit.matchers.rows.code.leaves import Leaf

BEGIN, AFTER = Leaf(begin_frames, 2), Leaf(to_next_frame, 2)
FIRST_LABELS = (1 << 63) | 2


def next_start(seek: bool, reaches_all: bool, leaps: bool) -> Leaf:
    return Leaf(
        lambda s, start, end: next_start_in_frames(
            s, start, end, s.f.constant(FIRST_LABELS, U64), seek=seek, endless=reaches_all, skips_bare_starts=leaps
        ),
        2,
    )


@pytest.mark.parametrize("reaches_all", [False, True])
@pytest.mark.parametrize("leaps", [False, True])
@pytest.mark.parametrize("seek", [False, True])
def test_matches_in_frames(seek: bool, reaches_all: bool, leaps: bool) -> None:
    """A match of a row depends on the frame only if it reads rows before the frame, or the frame's end cuts it off."""
    step = next_start(seek, reaches_all, leaps)
    for seed in range(20):
        draw = np.random.default_rng(seed)
        rows, lo = 40, 4
        lookback, reach = int(draw.integers(0, 4)), ALL_ROWS if reaches_all else int(draw.integers(1, 9))
        bits = draw.choice(np.array([1, 2, 1 << 63], np.uint64), rows, p=[0.8, 0.1, 0.1])
        offers = bits & np.uint64(FIRST_LABELS) != 0
        length = np.where(draw.random(rows) < 0.3, draw.integers(1, 6, rows), 0)
        luck = draw.random((rows, rows)) < 0.5
        skip = draw.integers(1, 4, rows)

        frame, start = np.arange(rows)[:, None], np.arange(rows)
        ends = np.minimum(rows, frame + reach)
        found = offers & (length > 0) & (length <= ends - start) & ((start >= frame + lookback) | luck)

        expected, frame = [], lo
        while frame < rows:
            starts = range(frame, min(rows, frame + reach)) if seek else [frame]
            first = next((start for start in starts if found[frame, start]), None)
            if first is not None:
                expected.append((frame, first))
            frame += 1 if first is None else int(skip[first])

        arrays = {
            "frame_place": np.zeros(FRAME_PLACE, np.int64),
            "settings": np.zeros(SETTINGS, np.int64),
            "bits": bits,
        }
        arrays["settings"][[REACH, LOOKBACK]] = reach, lookback
        BEGIN(arrays, lo, lo)
        matches, start = [], lo
        while True:
            start, end = step(arrays, start, rows)
            if start >= rows:
                assert (start, end) == (rows, rows)
                break
            frame = int(arrays["frame_place"][0])
            assert end == min(rows, frame + reach)
            assert frame <= start < end
            assert offers[start] or not leaps
            if found[frame, start]:
                matches.append((frame, start))
                AFTER(arrays, start, frame + skip[start])
                start = frame + int(skip[start])
            else:
                start += 1
        assert matches == expected
