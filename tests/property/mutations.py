"""Breaking queries in many ways, from a seed: what the tests with mutated queries share.

A mutator takes the pieces of a text and draws what becomes of them.
"""

from __future__ import annotations

import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

Mutator = Callable[[list[str], random.Random], list[str]]

SECONDS = 30  # far more than any query here takes: it tells a hang from a slow machine
CHARACTERS = "aZ09_ \t\n\r\x00\x0b\x0c\u00a0\u2003\u200b\ufeff\u0130ßé中😀٣²()[]{}'\"`.,;:|*+?^$-/\\%&#@!~<>="
BLANKS = [" ", "\t", "\r\n", "\x0c", "\u00a0", " /* x */ ", " -- x\n"]


def pieces(text: str) -> list[str]:
    return re.findall(r"\s+|\w+|'[^']*'|[^\w\s]", text)


def delete(parts: list[str], draw: random.Random) -> list[str]:
    at = draw.randrange(len(parts))
    return parts[:at] + parts[at + draw.choice([1, 1, 1, 2, 5]) :]


def duplicate(parts: list[str], draw: random.Random) -> list[str]:
    at, count = draw.randrange(len(parts)), draw.choice([1, 1, 2, 6, 12])
    return parts[: at + count] + parts[at:]


def swap(parts: list[str], draw: random.Random) -> list[str]:
    parts = list(parts)
    one, other = draw.randrange(len(parts)), draw.randrange(len(parts))
    parts[one], parts[other] = parts[other], parts[one]
    return parts


def exchange(parts: list[str], draw: random.Random, corpus: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """A word, number or sign for another one of the same kind: most of these still mean something."""
    at = draw.choice([at for at, part in enumerate(parts) if not part.isspace()] or [0])
    kind = next(kind for kind in kinds if re.match(kind, parts[at]))
    others = [part for part in pieces(draw.choice(corpus)) if re.match(kind, part)]
    return [*parts[:at], draw.choice(others or ["x"]), *parts[at + 1 :]]


def noise(parts: list[str], draw: random.Random, characters: str = CHARACTERS) -> list[str]:
    text = list("".join(parts))
    for _ in range(draw.choice([1, 1, 2, 8])):
        at = draw.randrange(len(text) + 1)
        text[at : at + draw.choice([0, 1])] = [draw.choice(characters)]
    return pieces("".join(text))


def truncate(parts: list[str], draw: random.Random) -> list[str]:
    at = draw.randrange(1, len(parts) + 1)
    return parts[:at] if draw.random() < 0.7 else parts[at - 1 :]


def splice(parts: list[str], draw: random.Random, corpus: Sequence[str]) -> list[str]:
    other = pieces(draw.choice(corpus))
    return parts[: draw.randrange(len(parts))] + other[draw.randrange(len(other)) :]


def wrap(
    parts: list[str], draw: random.Random, wrappings: Sequence[tuple[str, str]], depths: Sequence[int]
) -> list[str]:
    """Something around a few tokens: brackets, calls, CASE."""
    at = draw.randrange(len(parts))
    end = min(len(parts), at + draw.choice([1, 1, 3, 7]))
    before, after = draw.choice(wrappings)
    times = draw.choice(depths)
    return [*parts[:at], before * times, *parts[at:end], after * times, *parts[end:]]


def lengthen(parts: list[str], draw: random.Random) -> list[str]:
    """A few tokens very often, with something between them."""
    at = draw.randrange(len(parts))
    end = min(len(parts), at + draw.choice([1, 2, 3, 8]))
    between = draw.choice([" ", ", ", " | ", " AND ", " OR ", " + ", " - ", " * ", ".", "", " = ", " || "])
    times = draw.choice([2, 5, 20, 70, 300])
    return [*parts[:at], between.join(["".join(parts[at:end])] * times), *parts[end:]]


def disguise(parts: list[str], draw: random.Random) -> list[str]:
    """The same in another dress: case, blanks, comments."""
    changes: list[Callable[[str], str]] = [
        str.upper, str.lower, str.swapcase,
        lambda part: draw.choice(BLANKS) if part.isspace() else part,
        lambda part: part.replace("A", "Ä").replace("v", "𝓋"),
    ]  # fmt: skip
    change = draw.choice(changes)
    return [change(part) for part in parts]


@contextmanager
def no_hang(text: str) -> Iterator[None]:
    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"no outcome after {SECONDS} s: {text!r}")

    previous = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def print_what_breaks(
    corpus: Iterable[str], mutated: Iterable[str], outcome: Callable[[str], str], width: int = 2_000
) -> None:
    """How often each outcome comes, and the queries that break something."""
    kinds: Counter[str] = Counter(outcome(query) for query in corpus)
    for query in mutated:
        try:
            with no_hang(query):
                kinds[outcome(query)] += 1
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
            kinds[f"{type(error).__name__}: {error}"[:100]] += 1
            print(f"{type(error).__name__}: {error}\n    {query[:width]!r}\n")
    print(kinds)
