"""The queries of `make bench NAME=esper` in Esper's language EPL."""

from __future__ import annotations

from bench.cars import Thresholds

TICK = """\
@name('out') select * from Tick match_recognize (
  partition by key
  measures A.key as symbol, A.price as init_price, last(D.price) as max_price
  all matches
  after match skip to current row
  pattern (A B+ C* D+ E)
  define
    B as B.price < prev(B.price),
    C as C.price >= prev(C.price) and C.price <= A.price,
    D as D.price > prev(D.price) and D.price > A.price,
    E as E.price <= prev(E.price)
)
"""

QUERY_5 = """\
@name('out') select a.id as id from pattern [
  every a=Trade(name='IBM')
  -> (every b=Trade(name='Sun') -> every c=Trade(name='Oracle')) where timer:within(201 milliseconds)
]
"""
"""The guard ends at its time: 201 lets an event pass that comes 200 after the first."""


def aggressive_drivers(limits: Thresholds) -> str:
    """TPStream's Listing 1: situations by match_recognize, their relations by a join of windows."""
    return "\n".join(
        (
            _situations("Accelerating", "accel", ">", limits.accel, "E.ts - F.ts >= 5000"),
            _situations("Speeding", "speed", ">", limits.speed, "E.ts - F.ts between 4000 and 30000"),
            _situations("Braking", "accel", "<", limits.brake, "E.ts - F.ts >= 3000"),
            JOIN,
        )
    )


def _situations(name: str, column: str, comparison: str, limit: float, lasting: str) -> str:
    """A situation begins with the first report that fits, and ends with the first after it that does not."""
    return f"""\
insert into {name} select * from Report match_recognize (
  partition by car
  measures F.car as car, F.ts as begins, E.ts as ends,
    (F.speed + coalesce(sum(M.speed), 0)) / (1 + count(M.speed)) as avg_speed
  after match skip past last row
  pattern (F M* E)
  define
    F as F.{column} {comparison} {limit}
      and (prev(F.{column}) is null or not (prev(F.{column}) {comparison} {limit})),
    M as M.{column} {comparison} {limit},
    E as not (E.{column} {comparison} {limit}) and {lasting}
);"""


JOIN = """\
@name('out') select b.car as id, b.avg_speed as avg_speed
from Accelerating#time(301 seconds) as a, Speeding#time(301 seconds) as b, Braking#time(301 seconds) as c
where a.car = b.car and c.car = b.car
  and (a.ends = b.begins
    or (a.begins < b.begins and b.begins < a.ends and a.ends < b.ends)
    or (a.begins = b.begins and a.ends < b.ends)
    or (b.begins < a.begins and a.ends < b.ends))
  and ((b.begins < c.begins and c.ends < b.ends)
    or (b.begins < c.begins and b.ends = c.ends)
    or (b.begins < c.begins and c.begins < b.ends and b.ends < c.ends)
    or b.ends = c.begins)
  and a.ends < c.begins
  and max(a.ends, b.ends, c.ends) - min(a.begins, b.begins, c.begins) <= 300000;
"""
