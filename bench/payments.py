"""Events of accounts for the experiments with many rules, and rules of the kinds that such events are watched with.

Seeded, in global order of time, as Parquet in several files; see `ticks`. A rule is one of six shapes with kinds of
events, thresholds and windows of its own, so that sets of rules have much in common and no two rules are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.data_sets import DATA, made_once

SCHEMA = pa.schema(
    [
        ("account", pa.int32()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("kind", pa.string()),
        ("amount", pa.float64()),
        ("country", pa.string()),
    ]
)
SEED = 11
SLICE = 1_250_000
ROW_GROUP = 312_500
OPENING = np.datetime64("2026-03-02T00:00:00", "us").astype(np.int64)
KINDS = {
    "view": 0.34, "search": 0.16, "card_payment": 0.14, "login": 0.1, "logout": 0.07, "transfer": 0.05,
    "deposit": 0.04, "withdrawal": 0.03, "login_failed": 0.025, "device_added": 0.012, "limit_change": 0.01,
    "password_change": 0.008, "payee_added": 0.008, "card_blocked": 0.004, "statement": 0.002, "complaint": 0.001,
}  # fmt: skip
COUNTRIES = ("DE", "FR", "GB", "US", "PL", "NG", "BR", "CN")
RARE = ("login_failed", "device_added", "limit_change", "password_change", "payee_added", "card_blocked")
MONEY = ("transfer", "withdrawal", "card_payment", "deposit")
GIVEN = {"time": "ts", "key": "account", "type_column": "kind"}
"""The arguments of `match` and `match_all` for these rules."""


def payments(rows: int, accounts: int) -> Path:
    """The directory of a set of events; made when it is not there yet."""
    return made_once(DATA / f"payments-{rows}-{accounts}", _slices(rows, accounts), ROW_GROUP)


def _slices(rows: int, accounts: int) -> Iterator[pa.Table]:
    now = OPENING
    for number, start in enumerate(range(0, rows, SLICE)):
        rng = np.random.default_rng([SEED, accounts, number])
        time = now + np.cumsum(1_000 * rng.integers(1, 8, SLICE))
        now = time[-1]
        kind = pa.DictionaryArray.from_arrays(rng.choice(len(KINDS), SLICE, p=_chances()).astype(np.int32), list(KINDS))
        country = pa.DictionaryArray.from_arrays(rng.integers(0, len(COUNTRIES), SLICE).astype(np.int32), COUNTRIES)
        columns = [
            pa.array(rng.integers(0, accounts, SLICE, dtype=np.int32)),
            pa.array(time).cast(SCHEMA.field("ts").type),
            kind.dictionary_decode(),
            pa.array(np.round(rng.lognormal(4, 1.2, SLICE), 2)),
            country.dictionary_decode(),
        ]
        yield pa.Table.from_arrays(columns, schema=SCHEMA).slice(0, min(SLICE, rows - start))


def _chances() -> np.ndarray:
    chances = np.array(list(KINDS.values()))
    return chances / chances.sum()


def rules(count: int) -> dict[str, str]:
    """So many rules, the first of a larger set; all shapes take turns."""
    found: dict[str, str] = {}
    for number in range(count):
        rng = np.random.default_rng([SEED, number])
        shape = SHAPES[number % len(SHAPES)]
        found[f"{shape.__name__.strip('_')}_{number:03}"] = shape(rng)
    return found


def rules_that_begin_alike(count: int, rare: bool = False) -> dict[str, str]:
    """Sequences with the same first two events and condition between them. rare: what comes after is."""
    found: dict[str, str] = {}
    for number in range(count):
        rng = np.random.default_rng([SEED, number])
        third = rng.choice(RARE) if rare else rng.choice(["view", "login", "card_payment"])
        found[f"alike_{number:03}"] = (
            f"PATTERN SEQ(view first, search second, {third} third) WHERE first.amount > 100 * second.amount AND "
            f"third.amount > {_over(rng, 50, 200)} WITHIN {int(rng.choice([10, 15, 20]))} minutes "
            "RETURN first.amount AS most, third.amount AS amount"
        )
    return found


def _over(rng: np.random.Generator, least: int, most: int) -> int:
    """A threshold, one of not too many."""
    return int(rng.integers(least // 50, most // 50)) * 50


def _minutes(rng: np.random.Generator) -> int:
    return int(rng.choice([5, 10, 15, 30, 60]))


def _rare_then_money(rng: np.random.Generator) -> str:
    """A sequence of two classes with a threshold."""
    first, second = rng.choice(RARE), rng.choice(MONEY)
    return (
        f"PATTERN SEQ({first} a, {second} b) WHERE b.amount > {_over(rng, 300, 1500)} WITHIN {_minutes(rng)} minutes "
        "RETURN a.ts AS at, b.amount AS amount"
    )


def _falls(rng: np.random.Generator) -> str:
    """A row pattern that relates rows: amounts that grow after a small one."""
    return (
        "MATCH_RECOGNIZE (PARTITION BY account ORDER BY ts MEASURES A.ts AS at, LAST(B.amount) AS most, count(*) AS n "
        f"AFTER MATCH SKIP PAST LAST ROW PATTERN (A B{{2,}} C) DEFINE A AS amount < {_over(rng, 50, 150) // 10}, "
        f"B AS amount > PREV(amount), C AS amount > {_over(rng, 500, 2000)})"
    )


def _three_kinds(rng: np.random.Generator) -> str:
    """A sequence of three classes with a condition between events."""
    first, second = rng.choice(RARE, 2, replace=False)
    return (
        f"PATTERN SEQ({first} a, {second} b, {rng.choice(MONEY)} c) WHERE a.country <> c.country AND c.amount > "
        f"{_over(rng, 100, 800)} WITHIN {_minutes(rng)} minutes RETURN a.country AS origin, c.amount AS amount"
    )


def _repeated(rng: np.random.Generator) -> str:
    """A row pattern of kinds of events: several of one kind in a row."""
    kind = rng.choice(RARE)
    return (
        "MATCH_RECOGNIZE (PARTITION BY account ORDER BY ts MEASURES FIRST(F.ts) AS at, count(F.*) AS times "
        f"PATTERN (F{{{int(rng.integers(2, 4))},}} T) DEFINE F AS kind = '{kind}', "
        f"T AS amount > {_over(rng, 50, 400)})"
    )


def _without(rng: np.random.Generator) -> str:
    """A sequence with a negation."""
    first = rng.choice(RARE)
    return (
        f"PATTERN SEQ({first} a, !(logout x), {rng.choice(MONEY)} b) WHERE b.amount > {_over(rng, 400, 2000)} "
        f"WITHIN {_minutes(rng)} minutes RETURN a.ts AS at, b.ts AS until, b.amount AS amount"
    )


def _situations(rng: np.random.Generator) -> str:
    """Two situations: a large amount, and a rare kind of event that comes within it or after it."""
    return (
        f"DEFINE L AS amount > {_over(rng, 600, 2500)}, R AS kind = '{rng.choice(RARE)}' PATTERN L before R; L meets R "
        f"WITHIN {_minutes(rng)} minutes RETURN L.start AS at, max(L.amount) AS most"
    )


SHAPES: tuple[Callable[[np.random.Generator], str], ...] = (
    _rare_then_money, _falls, _three_kinds, _repeated, _without, _situations,
)  # fmt: skip
