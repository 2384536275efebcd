"""Sample data with known answers: stock ticks with planted shapes, web clicks with planted sessions and funnels.

Everything is generated from one seed. The planted episodes are returned and written next to the data, so that the demo
and the tests can compare a query's matches with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SYMBOLS = (
    "ACME", "BOLT", "CRUX", "DUNE", "ECHO", "FLUX", "GILD", "HALO", "IRIS", "JUNO",
    "KITE", "LUMA", "MOSS", "NOVA", "ONYX", "PIKE", "QUAY", "RUNE", "SAGE", "TARN",
)  # fmt: skip
DAY = np.datetime64("2026-03-02T00:00:00", "us")
OPENING, CLOSING = 34_200, 57_600
"""Trading hours in seconds of the day: 09:30 to 16:00."""

MINUTE = 60.0
SESSION_GAP = 30 * MINUTE
FUNNEL_LIMIT = 30 * MINUTE
FUNNEL = ("view", "cart", "checkout", "purchase")

TIMESTAMP = pa.timestamp("us", tz="UTC")
TICKS = pa.schema([("symbol", pa.string()), ("ts", TIMESTAMP), ("price", pa.float64()), ("volume", pa.int64())])
CLICKS = pa.schema([("user_id", pa.int64()), ("ts", TIMESTAMP), ("action", pa.string()), ("url", pa.string())])
PLANTED = pa.schema([("shape", pa.string()), ("key", pa.string()), ("first_ts", TIMESTAMP), ("last_ts", TIMESTAMP)])


@dataclass(frozen=True)
class Sample:
    """A table and the episodes that were planted in it."""

    table: pa.Table
    planted: pa.Table

    def count(self, shape: str) -> int:
        """Number of planted episodes of one shape."""
        return int(np.count_nonzero(self.planted["shape"].to_numpy() == shape))


@dataclass(frozen=True)
class SampleFiles:
    """Paths and contents of the files that `write` wrote."""

    ticks_path: Path
    clicks_path: Path
    ticks: Sample
    clicks: Sample


def write(directory: str | Path, *, seed: int = 7) -> SampleFiles:
    """Write ticks.parquet, clicks.parquet and planted.parquet to a directory, about 350,000 rows in all."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    files = SampleFiles(folder / "ticks.parquet", folder / "clicks.parquet", stock_ticks(seed), web_clicks(seed + 1))
    pq.write_table(files.ticks.table, files.ticks_path)
    pq.write_table(files.clicks.table, files.clicks_path)
    pq.write_table(pa.concat_tables([files.ticks.planted, files.clicks.planted]), folder / "planted.parquet")
    return files


# ---- stock ticks -----------------------------------------------------------------------------------

SHAPES = ("fall", "tick", "v", "w")
SLOT = 500
"""Ticks per planted shape; the longest shape is far shorter."""


LONGEST_NOISE = 6
"""Moves in one direction that may be chance; a planted leg has more, except the fall of a tick."""


def stock_ticks(seed: int = 7, *, symbols: tuple[str, ...] = SYMBOLS, ticks: int = 10_000) -> Sample:
    """Generate one trading day of `ticks` ticks for each symbol, ordered by time.

    Prices walk at random in small steps of whole cents. Planted on top, one shape to every 500 ticks: long falls,
    ticks (a short fall, then a rise well above its start), V- and W-shapes. Every leg of a shape but the fall of a tick
    has at least ten steps, more than chance is allowed to make. The steps around a shape are flat, so that its first
    and last row are certain.
    """
    rng = np.random.default_rng(seed)
    count = len(symbols)
    steps = rng.choice(np.array([-2, -1, 0, 1, 2]), size=(count, ticks), p=[0.1, 0.25, 0.3, 0.25, 0.1])
    steps[:, :: LONGEST_NOISE + 1] = 0
    found: list[tuple[str, int, int, int]] = []
    for symbol in range(count):
        for slot in range(ticks // SLOT):
            shape = SHAPES[int(rng.integers(len(SHAPES)))]
            moves = _moves(shape, rng)
            first = slot * SLOT + int(rng.integers(2, SLOT - len(moves) - 2))
            steps[symbol, first] = 0
            steps[symbol, first + 1 : first + 1 + len(moves)] = moves
            steps[symbol, first + 1 + len(moves)] = 0
            found.append((shape, symbol, first, first + len(moves)))

    opening_cents = rng.integers(2_000, 40_000, size=count)
    unit = np.maximum(1, opening_cents // 5_000)
    steps[:, 0] = 0
    cents = opening_cents[:, None] + np.cumsum(steps, axis=1) * unit[:, None]
    cents = np.maximum(cents, 100)

    gaps = rng.exponential(1.0, size=(count, ticks)) + 0.01
    elapsed = np.cumsum(gaps, axis=1)
    seconds = OPENING + (CLOSING - OPENING) * elapsed / (elapsed[:, -1:] + 1.0)
    times = _timestamps(seconds)
    volume = 100 * rng.geometric(0.25, size=(count, ticks))

    order = np.argsort(times, axis=None, kind="stable")
    names = pa.DictionaryArray.from_arrays(
        pa.array(np.repeat(np.arange(count, dtype=np.int32), ticks)[order]), pa.array(symbols, pa.string())
    ).cast(pa.string())
    prices = (cents / 100.0).reshape(-1)[order]
    table = _table(TICKS, names, times.reshape(-1)[order], prices, volume.reshape(-1)[order])
    which, first_row, last_row = np.array([place for _, *place in found], dtype=np.int64).reshape(-1, 3).T
    shapes, keys = [shape for shape, *_ in found], [symbols[symbol] for symbol in which]
    return Sample(table, _table(PLANTED, shapes, keys, times[which, first_row], times[which, last_row]))


def _table(schema: pa.Schema, *columns: Any) -> pa.Table:
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _moves(shape: str, rng: np.random.Generator) -> np.ndarray:
    """The price moves of one shape, in units: falls are negative, rises positive, never zero."""

    def leg(low: int, high: int, least: int, most: int) -> np.ndarray:
        return rng.integers(least, most + 1, size=int(rng.integers(low, high + 1)))

    if shape == "fall":
        return -leg(20, 40, 2, 6)
    if shape == "tick":
        return np.concatenate([-leg(4, 6, 2, 4), leg(12, 20, 4, 8)])
    if shape == "v":
        return np.concatenate([-leg(10, 20, 2, 6), leg(10, 20, 2, 6)])
    return np.concatenate([-leg(10, 16, 2, 6), leg(10, 16, 2, 6), -leg(10, 16, 2, 6), leg(10, 16, 2, 6)])


# ---- web clicks ------------------------------------------------------------------------------------

PAGES = ("view", "search", "home", "help", "cart")


def web_clicks(seed: int = 8, *, users: int = 3_000) -> Sample:
    """One day of clicks, ordered by time: sessions of a user lie more than half an hour apart, clicks in one less.

    Planted: `session` (every one), `purchase` (a funnel of view, cart, checkout and purchase within half an hour),
    `slow` (the same, but over more than half an hour) and `abandoned` (no purchase). No other session has a checkout.
    """
    rng = np.random.default_rng(seed)
    per_user = 1 + rng.poisson(3.0, size=users)
    sessions = int(per_user.sum())
    user = np.repeat(np.arange(users), per_user)
    kind = rng.choice(np.array(["browse", "purchase", "slow", "abandoned"]), size=sessions, p=[0.8, 0.1, 0.04, 0.06])
    clicks = np.where(kind == "browse", rng.geometric(1 / 12, size=sessions), 6 + rng.integers(0, 12, size=sessions))

    # Seconds since the click before, within a session; then every session's whole length.
    session = np.repeat(np.arange(sessions), clicks)
    starts = np.cumsum(clicks) - clicks
    place = np.arange(len(session)) - starts[session]
    gap = np.minimum(rng.exponential(45.0, size=len(session)) + 1.0, 20 * MINUTE)
    funnel_pace = (
        np.where(kind == "slow", 60.0, rng.uniform(4.0, 25.0, size=sessions)) * MINUTE / np.maximum(clicks - 1, 1)
    )
    gap = np.where(kind[session] == "browse", gap, funnel_pace[session])
    gap[starts] = 0.0
    length = np.bincount(session, weights=gap, minlength=sessions)

    # A user's next session starts when the one before has ended and more than the gap has passed.
    pause = SESSION_GAP + 90.0 + rng.exponential(25 * MINUTE, size=sessions)
    first_of_user = np.cumsum(per_user) - per_user
    advance = np.concatenate([[0.0], (length + pause)[:-1]])
    advance[first_of_user] = 0.0
    elapsed = np.cumsum(advance)
    begin = rng.uniform(0, 8 * 60 * MINUTE, size=users)[user] + elapsed - elapsed[first_of_user][user]
    within = np.cumsum(gap)
    seconds = begin[session] + within - within[starts][session]

    action = rng.choice(np.array(PAGES), size=len(session), p=[0.5, 0.2, 0.15, 0.07, 0.08]).astype("U8")
    funnel = kind[session] != "browse"
    action[funnel & (action == "cart")] = "view"  # a funnel's only cart is its own
    last = clicks[session] - 1
    for step, name in enumerate(FUNNEL):
        action[funnel & (place == step * last // 3)] = name
    action[(kind[session] == "abandoned") & (place == last)] = "home"

    times = _timestamps(seconds)
    product = rng.integers(1, 500, size=len(session)).astype("U3")
    url = np.char.add(
        np.char.add("/", action), np.where(np.isin(action, ["view", "cart"]), np.char.add("/", product), "")
    )
    order = np.lexsort((np.arange(len(times)), times))
    table = _table(CLICKS, 1 + user[session][order], times[order], action[order], url[order])

    bounds = times[starts], times[starts + clicks - 1]
    special = np.flatnonzero(kind != "browse")
    rows = np.concatenate([np.arange(sessions), special])
    shapes, keys = np.concatenate([np.full(sessions, "session"), kind[special]]), (1 + user[rows]).astype("U")
    return Sample(table, _table(PLANTED, shapes, keys, bounds[0][rows], bounds[1][rows]))


def _timestamps(seconds: np.ndarray) -> np.ndarray:
    """Seconds of the day as datetime64[us], to the millisecond."""
    return DAY + (np.round(seconds * 1_000).astype(np.int64) * 1_000).astype("timedelta64[us]")


# ---- machine readings ------------------------------------------------------------------------------


MACHINES = ("press", "lathe", "mill", "saw", "oven", "pump")
READINGS = pa.schema(
    [
        ("machine", pa.string()),
        ("ts", TIMESTAMP),
        ("temperature", pa.float64()),
        ("load", pa.int64()),
        ("door", pa.string()),
    ]
)
HOT = 80.0
"""Degrees above which a machine is hot; no reading outside a planted episode comes near."""
PERIOD = 5
"""Seconds between two readings of a machine."""
MACHINE_SLOT = 240
"""Readings to every episode: twenty minutes, of which the longest takes less than half."""
KINDS = ("aired", "checked", "heat", "door")


def machine_readings(seed: int = 9, *, machines: tuple[str, ...] = MACHINES, hours: int = 6) -> Sample:
    """Readings of all machines, ordered by time. Planted, one to every twenty minutes of a machine: `aired` (the door
    is opened while it is hot, and closed after it has cooled), `checked` (opened and closed again while it is hot),
    `heat` (hot, and the door stays closed) and `door` (open for a while, and never hot)."""
    rng = np.random.default_rng(seed)
    count = hours * 3600 // PERIOD
    warmth = np.cumsum(rng.normal(0.0, 0.35, size=(len(machines), count)), axis=1)
    temperature = 58.0 + 9.0 * np.tanh(warmth / 9.0) + rng.normal(0.0, 0.4, size=warmth.shape)
    load = np.clip(np.round(45 + 25 * np.tanh(warmth[:, ::-1] / 8) + rng.normal(0, 4, size=warmth.shape)), 0, 100)
    is_open = np.zeros(warmth.shape, dtype=bool)
    found: list[tuple[str, int, int, int]] = []
    for machine in range(len(machines)):
        for slot in range(count // MACHINE_SLOT):
            kind = KINDS[int(rng.integers(len(KINDS)))]
            first = slot * MACHINE_SLOT + int(rng.integers(10, MACHINE_SLOT // 2))
            length = int(rng.integers(30, 80))
            last = first + length
            opened = first + int(rng.integers(length // 4, length // 2))
            if kind != "door":
                shape = np.sin(np.linspace(0.25, np.pi - 0.25, length))
                temperature[machine, first:last] = HOT + 2 + 14 * shape + rng.normal(0, 0.3, size=length)
            if kind == "aired":
                is_open[machine, opened : last + int(rng.integers(5, 20))] = True
            elif kind == "checked":
                is_open[machine, opened : last - int(rng.integers(5, length // 4))] = True
            elif kind == "door":
                is_open[machine, first:last] = True
            found.append((kind, machine, first, last))

    seconds = 6 * 3600 + PERIOD * np.arange(count)
    times = DAY + (seconds * 1_000_000).astype("timedelta64[us]")
    by_time = (array.T.reshape(-1) for array in (np.round(temperature, 1), load.astype(np.int64), is_open))
    degrees, loads, doors = by_time
    names = np.tile(np.array(machines), count)
    every = np.repeat(times, len(machines))
    table = _table(READINGS, names, every, degrees, loads, np.where(doors, "open", "closed"))
    which, first_row, last_row = np.array([place for _, *place in found], dtype=np.int64).reshape(-1, 3).T
    kinds, keys = [kind for kind, *_ in found], [machines[machine] for machine in which]
    return Sample(table, _table(PLANTED, kinds, keys, times[first_row], times[last_row]))
