"""The queries of the experiments."""

from __future__ import annotations

TICK_CLAUSE = """\
  PARTITION BY key
  ORDER BY ts
  MEASURES A.key AS symbol,
           A.price AS init_price,
           LAST(D.price) AS max_price
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO NEXT ROW
  {mode}PATTERN (A B+ C* D+)
  DEFINE
    B AS B.price < PREV(B.price),
    C AS C.price >= PREV(C.price) AND C.price <= A.price,
    D AS D.price > PREV(D.price) AND D.price > A.price"""

TICK = TICK_CLAUSE.format(mode="")
"""The "tick" of the PCQ paper's Figure 2: a fall, then a rise above where the fall began; tried from every row.

B, C and D exclude each other, so the preferred match of every start is also its longest, and MAXIMAL MATCH, as
printed in the paper, finds the same.
"""

TICK_MAXIMAL = TICK_CLAUSE.format(mode="MAXIMAL MATCH\n  ")

RARE = """\
  PARTITION BY key
  ORDER BY ts
  MEASURES A.price AS init_price,
           LAST(C.price) AS end_price
  ONE ROW PER MATCH
  AFTER MATCH SKIP TO NEXT ROW
  PATTERN (A B+ C+)
  DEFINE
    A AS A.price < PREV(A.price) - 0.015 AND PREV(A.price) > PREV(A.price, 2) + 0.015,
    B AS B.price > PREV(B.price),
    C AS C.price < PREV(C.price)"""
"""All conditions look at one row and the ones before it, and one row in a hundred can start a match."""


def select(clause: str) -> str:
    """The statement around a clause."""
    return f"SELECT symbol, init_price, max_price FROM ticks MATCH_RECOGNIZE (\n{clause}\n)"
