"""What a match can be, in the output of every matcher that gives rows or paths: codes of `kind` and `number`."""

from __future__ import annotations

MATCHED, EMPTY, UNMATCHED = range(3)
"""Kinds: a match with rows; a match without; a row of no match, where such rows are asked for."""

TIMED_OUT = 0
"""The number of a match that was cut off by its window; real ones count from 1."""
