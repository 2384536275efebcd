"""Three common queries over a frame of page visits, and the visits: `make bench NAME=pandas`."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas

SEED = 5
KEY_ROWS = 1_000
"""Rows of each key."""
GAP = 30
KINDS = {"v": 0.3, "c": 0.1, "p": 0.05, "o": 0.55}
"""What a visitor does (views, puts into the cart, pays, other) and how often."""


@dataclass(frozen=True)
class Question:
    """A query. columns: those that it needs; results: those of its result, which order the matches."""

    name: str
    text: str
    columns: tuple[str, ...]
    results: tuple[str, ...]


QUESTIONS = (
    Question(
        "V-shapes",
        """
        SELECT k, begins, ends, bottom FROM visits MATCH_RECOGNIZE (
            PARTITION BY k ORDER BY ts
            MEASURES A.ts AS begins, LAST(UP.ts) AS ends, LAST(DOWN.v) AS bottom
            ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
            PATTERN (A DOWN+ UP+)
            DEFINE DOWN AS DOWN.v < PREV(DOWN.v), UP AS UP.v > PREV(UP.v))
        """,
        ("k", "ts", "v"),
        ("k", "begins", "ends", "bottom"),
    ),
    Question(
        "funnels",
        """
        SELECT k, begins, ends FROM visits MATCH_RECOGNIZE (
            PARTITION BY k ORDER BY ts
            MEASURES V.ts AS begins, P.ts AS ends
            ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
            PATTERN (V X*? C Y*? P)
            DEFINE V AS V.kind = 'v', X AS X.kind != 'p', C AS C.kind = 'c', Y AS Y.kind != 'v', P AS P.kind = 'p')
        """,
        ("k", "ts", "kind"),
        ("k", "begins", "ends"),
    ),
    Question(
        "sessions",
        f"""
        SELECT k, begins, ends, n FROM visits MATCH_RECOGNIZE (
            PARTITION BY k ORDER BY ts
            MEASURES FIRST(ts) AS begins, LAST(ts) AS ends, COUNT(*) AS n
            ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
            PATTERN (S M*)
            DEFINE M AS M.ts - PREV(M.ts) <= {GAP})
        """,
        ("k", "ts"),
        ("k", "begins", "ends", "n"),
    ),
)


def visits(rows: int) -> pandas.DataFrame:
    """Return visits of rows / 1,000 visitors, in no order: a price, a kind, and seconds; one gap in ten is long."""
    draw = np.random.default_rng(SEED)
    gaps = draw.integers(1, GAP, rows) + (draw.random(rows) < 0.1) * draw.integers(GAP, 20 * GAP, rows)
    frame = pandas.DataFrame(
        {
            "k": np.arange(rows) // KEY_ROWS,
            "ts": np.cumsum(gaps),
            "v": draw.integers(0, 10_000, rows) / 100,
            "kind": np.array(list(KINDS))[draw.choice(len(KINDS), rows, p=list(KINDS.values()))],
        }
    )
    return frame.iloc[draw.permutation(rows)]


def funnels_by_re(frame: pandas.DataFrame) -> np.ndarray:
    """Return the funnels as a regular expression over one letter for each row finds them: key, begin and end."""
    found = []
    for key, rows in frame.sort_values(["k", "ts"], kind="stable").groupby("k"):
        time = rows["ts"].to_numpy()
        for match in re.finditer("v[^p]*?c[^v]*?p", "".join(rows["kind"])):
            found.append((key, time[match.start()], time[match.end() - 1]))
    return np.array(found, float).reshape(-1, 3)


def in_order(result: pandas.DataFrame, question: Question) -> np.ndarray:
    """Return the values of a result as numbers, in order of its columns."""
    values = result[list(question.results)].to_numpy(float)
    return values[np.lexsort(values.T[::-1])]
