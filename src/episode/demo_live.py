"""`episode demo --live`: price falls of a running market, reported while they happen, for less than a minute."""

from __future__ import annotations

import os
import random
import time
from contextlib import nullcontext
from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from episode.terminal.progress import PERIOD, LiveQueryView, latencies, watch
from episode.terminal.quiet import quiet_spark

STREAM = """\
CREATE STREAM Ticks (symbol STRING, ts TIMESTAMP, price DOUBLE)
TIME ts KEY symbol DELAY 0 seconds"""
QUERY = """\
SELECT * FROM Ticks MATCH_RECOGNIZE (
  PARTITION BY symbol ORDER BY ts
  MEASURES A.price AS before, LAST(B.price) AS low, LAST(B.ts) AS match_end
  PATTERN (A B{8}) WITHIN 10 seconds
  DEFINE B AS price < PREV(price)
)"""
SYMBOLS, BATCH, PAUSE, SECONDS = 200, 40, 0.02, 30.0
"""Stocks, ticks that come together, seconds between them, and how long the market is open."""
FALL = 0.5
"""Seconds between two planted falls."""


def run(console: Console, seconds: float = SECONDS) -> None:
    """Open a market, start a live query over its ticks, and watch it until the market closes."""
    before = os.environ.get("EPISODE_CATALOG")
    with TemporaryDirectory(prefix="episode-demo-live-", ignore_cleanup_errors=True) as place:
        os.environ["EPISODE_CATALOG"] = str(Path(place) / "catalog")
        try:
            _run(console, seconds)
        finally:
            del os.environ["EPISODE_CATALOG"]
            if before is not None:
                os.environ["EPISODE_CATALOG"] = before


def _run(console: Console, seconds: float) -> None:
    import episode

    rate = round(BATCH / PAUSE)
    console.print(Text(f"A market of {SYMBOLS} stocks, about {rate:,} ticks a second, in a declared stream:"))
    console.print(Padding(Syntax(STREAM, "sql", background_color="default"), (1, 0)))
    console.print(Text("Eight falling ticks in a row are reported into the stream Falls, by a live query:"))
    console.print(Padding(Syntax(QUERY, "sql", background_color="default"), (1, 0)))
    with console.status("Starting Spark and the live tasks"), quiet_spark():
        episode.sql(STREAM)
        query = episode.start(QUERY, into="Falls", name="falls")
        while query.isActive and query.lastProgress is None:
            time.sleep(PERIOD)
    ending = Event()
    market = Market(ending, seconds)
    market.start()
    view = LiveQueryView("Falls")
    lively = console.is_terminal
    with Live(view, console=console, refresh_per_second=1 / PERIOD) if lively else nullcontext():
        watch(query, view, ending, None if lively else console)
    market.join()
    _wait(query)
    query.stop()
    error = query.exception()
    if error is not None:
        raise error
    _conclude(console, query.lastProgress, market)


def _wait(query: Any) -> None:
    """Wait until all ticks are matched."""
    from episode import streams

    ticks, deadline = streams.count("Ticks"), time.monotonic() + 60
    while query.isActive and time.monotonic() < deadline and (query.lastProgress or {"events": 0})["events"] < ticks:
        time.sleep(PERIOD)


def _conclude(console: Console, progress: Any, market: Market) -> None:
    import episode

    falls, _ = episode.streams.read("Falls")
    ticks, _ = episode.streams.read("Ticks")
    right = episode.sql_local(QUERY, Ticks=ticks)
    same = sorted(map(repr, falls.to_pylist())) == sorted(map(repr, right.to_pylist()))
    console.print(
        Text(
            f"{ticks.num_rows:,} ticks gave {falls.num_rows:,} falls, of which {market.falls:,} were planted. From the "
            f"append of the last tick to the fall being readable, half of them took less than the first, 90 and 99 of "
            f"100 less than the others: {latencies(progress)}."
        )
    )
    which = "the same falls" if same else "OTHER falls: this is a bug"
    console.print(Text(f"The same query over all ticks as a table gives {which}."))
    console.print(Text("Next: docs/streaming.md, and episode run QUERY --live over your own streams."))


class Market(Thread):
    """Appends ticks to the stream, now and then of a stock that falls."""

    def __init__(self, ending: Event, seconds: float) -> None:
        super().__init__(name="market", daemon=True)
        self.ending, self.seconds = ending, seconds
        self.falls = 0

    def run(self) -> None:
        try:
            self._trade()
        finally:
            self.ending.set()

    def _trade(self) -> None:
        from episode import streams

        draw = random.Random(7)
        prices = [draw.uniform(20, 200) for _ in range(SYMBOLS)]
        falling: dict[int, int] = {}
        begin = time.monotonic()
        due = fall = begin
        while time.monotonic() < begin + self.seconds:
            if time.monotonic() >= fall:
                falling[draw.randrange(SYMBOLS)] = 9
                fall += FALL
            rows = []
            moment = datetime.now(timezone.utc)
            chosen = [*falling, *draw.sample(range(SYMBOLS), BATCH - len(falling))]
            for number, stock in enumerate(chosen):
                prices[stock] *= 1 + (-0.002 if stock in falling else draw.gauss(0, 0.001))
                when = moment + timedelta(microseconds=number)
                rows.append({"symbol": f"S{stock:03d}", "ts": when, "price": round(prices[stock], 2)})
            streams.append("Ticks", rows)
            for stock in list(falling):
                falling[stock] -= 1
                if not falling[stock]:
                    del falling[stock]
                    self.falls += 1
            due += PAUSE
            time.sleep(max(0.0, due - time.monotonic()))
        # The last events wait for a later tick: until then, earlier ones may come.
        closing = datetime.now(timezone.utc) + timedelta(seconds=1)
        streams.append("Ticks", [{"symbol": "S000", "ts": closing, "price": round(prices[0] + 1, 2)}])
