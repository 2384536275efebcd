"""Feeding matchers in process, on one core, with a clock: what the experiments on plans share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from bench.harness import median, say
from episode.matchers.protocol import EventBatch, MatcherSpec
from episode.matchers.running import LocalRun, completed_by
from episode.spark.startup.workers import prepare_worker


def one_core() -> None:
    """Keep to one core, and to memory that is used again, as Spark's workers do."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    prepare_worker()


def batches_of(spec: MatcherSpec, tables: Iterable[pa.Table]) -> list[EventBatch]:
    """The tables as the matcher takes them: by key and in order of time."""
    running = LocalRun(spec)
    return [running.events(table) for table in tables]


def feeds_of(batches: Sequence[EventBatch]) -> Iterator[tuple[EventBatch, int]]:
    """Each batch with the time up to which events are complete with it."""
    for number, batch in enumerate(batches):
        yield batch, completed_by(batch, number == len(batches) - 1)


@dataclass(frozen=True)
class Fed:
    """A run, or the medians of several. parts, events: seconds and events of each feed."""

    parts: tuple[float, ...]
    events: tuple[int, ...]
    matches: int

    @property
    def seconds(self) -> float:
        return sum(self.parts)

    @property
    def rate(self) -> float:
        """Events per second."""
        return sum(self.events) / self.seconds


AnyFed = TypeVar("AnyFed", bound=Fed)


def median_parts(several: Sequence[Fed]) -> tuple[float, ...]:
    """For each feed, the median of the runs."""
    return tuple(median(part) for part in zip(*(one.parts for one in several), strict=True))


def told_medians(
    setting: str, taken: dict[str, list[AnyFed]], medians: Callable[[list[AnyFed]], AnyFed]
) -> dict[str, AnyFed]:
    """The medians of each contender's runs; they are reported, too."""
    found = {name: medians(several) for name, several in taken.items()}
    for name, one in found.items():
        say(f"{setting}, {name}: {one.seconds:.3f} s, {one.rate:,.0f} events/s, {one.matches:,} matches")
    return found


@dataclass
class Clock:
    """Seconds that the core worked, by step."""

    seconds: dict[str, float]

    @classmethod
    def of(cls, *steps: str) -> Clock:
        return cls(dict.fromkeys(steps, 0.0))

    def timed(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            begin = time.process_time()
            result = function(*arguments, **options)
            self.seconds[step] += time.process_time() - begin
            return result

        return run
