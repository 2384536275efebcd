"""Where the time goes, measured directly: seconds of the core between the beginning and the end of certain functions.

A function that is called inside another's time has its own: the outer one's clock stops for it. Generators are timed
while they run, and not while others do something with what they gave.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from types import GeneratorType
from typing import Any

Places = dict[str, list[tuple[Any, str]]]
"""What is timed under a name: attributes of modules or classes."""


@dataclass
class Phases:
    """seconds: by name, of the core. calls: how often something was timed under a name."""

    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    _inside: list[str] = field(default_factory=list)
    _since: float = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What runs in here counts as this."""
        self._stop()
        self._inside.append(name)
        self.calls[name] = self.calls.get(name, 0) + 1
        try:
            yield
        finally:
            self._stop()
            self._inside.pop()

    def _stop(self) -> None:
        now = time.process_time()
        if self._inside:
            self.seconds[self._inside[-1]] = self.seconds.get(self._inside[-1], 0.0) + now - self._since
        self._since = now

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, on this clock."""

        @wraps(function)
        def run(*arguments: Any, **named: Any) -> Any:
            with self.phase(name):
                found = function(*arguments, **named)
            return self._drawn(name, found) if isinstance(found, GeneratorType) else found

        return run

    def _drawn(self, name: str, source: Iterator[Any]) -> Iterator[Any]:
        nothing = object()
        while True:
            with self.phase(name):
                value = next(source, nothing)
            if value is nothing:
                return
            yield value

    @contextmanager
    def watching(self, places: Places) -> Iterator[Phases]:
        """These functions are timed in here."""
        before = [(owner, name, owner.__dict__[name]) for found in places.values() for owner, name in found]
        try:
            for phase, found in places.items():
                for owner, name in found:
                    setattr(owner, name, self.timed(phase, owner.__dict__[name]))
            yield self
        finally:
            for owner, name, function in before:
                setattr(owner, name, function)

    @property
    def total(self) -> float:
        return sum(self.seconds.values())

    def shown(self, *names: str) -> list[str]:
        """Seconds, for a table."""
        return [f"{self.seconds.get(name, 0.0):.2f}" for name in names]
