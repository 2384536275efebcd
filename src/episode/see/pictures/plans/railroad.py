"""Row patterns as railroad diagrams: who follows the rails from the left to the right has a match.

At a switch the preferred way is the thick one; alternatives have numbers in order of preference. A part is entered and
left at the height of its rail; it knows how far it reaches above and below it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from episode.lang.rows.syntax import (
    Alternation,
    Anchor,
    Concatenation,
    Exclusion,
    Label,
    Pattern,
    Permutation,
    Quantified,
)
from episode.see.pictures.plans.drawing import CODE_SIZE, SMALL_SIZE, Drawing, width_of

GAP, ARC, HALF = 22.0, 10.0, 15.0
"""Between two parts; the radius of a turn; half the height of a box."""
_DOWN, _ON = f"q {ARC} 0 {ARC} {ARC}", f"q 0 {ARC} {ARC} {ARC}"
_UP, _OFF = f"q {ARC} 0 {ARC} -{ARC}", f"q 0 -{ARC} {ARC} -{ARC}"
"""Turns of a rail that goes to the right: down, and on from there; up, and on from there."""
CAPTION = 14.0
MOST_WIDE = 900.0
MOST_PARTS = 150
"""A pattern of more labels is drawn so far."""


@dataclass(frozen=True)
class LabelBox:
    """How a label is shown: the kind of its box, what it is in words, and lines below it."""

    kind: str
    title: str
    lines: tuple[str, ...] = ()


class Part(ABC):
    """A stretch of rail. up, down: how far it reaches above and below its rail."""

    width: float
    up: float
    down: float

    @abstractmethod
    def draw(self, on: Drawing, x: float, y: float, rail: str) -> None:
        """With the rail at height y, from x on; rail: its kind, where there is nothing to choose."""


class _Box(Part):
    def __init__(self, text: str, box: LabelBox, round_: float = 6.0) -> None:
        self.text, self.box, self.round_ = text, box, round_
        below = max([width_of(line, SMALL_SIZE) for line in box.lines], default=0.0)
        self.width = max(width_of(text, CODE_SIZE, code=True) + 24.0, below, 34.0)
        self.up, self.down = HALF, HALF + CAPTION * len(box.lines) + (3.0 if box.lines else 0.0)

    def draw(self, on: Drawing, x: float, y: float, rail: str) -> None:
        begin = len(on.parts)
        wide = width_of(self.text, CODE_SIZE, code=True) + 24.0
        left = x + (self.width - wide) / 2
        on.line([(x, y), (left, y)], rail)
        on.line([(left + wide, y), (x + self.width, y)], rail)
        on.box(left, y - HALF, wide, 2 * HALF, self.box.kind, self.round_)
        on.text(left + wide / 2, y + 4.5, self.text, "code name", "middle")
        for number, line in enumerate(self.box.lines):
            on.text(x + self.width / 2, y + HALF + CAPTION * (number + 1) - 1.0, line, "number", "middle")
        on.group("label", self.box.title, begin)


class _Nothing(Part):
    width, up, down = 40.0, 14.0, 4.0

    def draw(self, on: Drawing, x: float, y: float, rail: str) -> None:
        on.line([(x, y), (x + self.width, y)], rail)
        on.text(x + self.width / 2, y - 5.0, "no row", "small", "middle")


class _Row(Part):
    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self.width = sum(part.width for part in parts) + GAP * (len(parts) - 1)
        self.up, self.down = max(part.up for part in parts), max(part.down for part in parts)

    def draw(self, on: Drawing, x: float, y: float, rail: str) -> None:
        for number, part in enumerate(self.parts):
            if number:
                on.line([(x, y), (x + GAP, y)], rail)
                on.arrow(x + GAP - 1.0, y)
                x += GAP
            part.draw(on, x, y, rail)
            x += part.width


class _Rows(Part):
    """A row that is too long, as several."""

    def __init__(self, parts: Sequence[Part], most: float) -> None:
        rows: list[list[Part]] = [[]]
        for part in parts:
            if rows[-1] and _Row([*rows[-1], part]).width > most:
                rows.append([])
            rows[-1].append(part)
        self.rows = [_Row(row) for row in rows]
        self.width = max(row.width for row in self.rows)
        self.up = self.rows[0].up
        between = sum(one.down + two.up + 26.0 for one, two in zip(self.rows, self.rows[1:], strict=False))
        self.down = between + self.rows[-1].down

    def draw(self, on: Drawing, x: float, y: float, rail: str) -> None:
        for number, row in enumerate(self.rows):
            row.draw(on, x, y, rail)
            end = x + row.width
            if number == len(self.rows) - 1:
                return
            turn, below = y + row.down + 13.0, y + row.down + 26.0 + self.rows[number + 1].up
            on.line(
                [(end, y), (end + ARC, y), (end + ARC, turn), (x - ARC, turn), (x - ARC, below), (x, below)],
                "preferred",
            )
            on.arrow(x - 1.0, below)
            y = below


class _Choice(Part):
    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self.inset = 2 * ARC + 16.0
        self.width = max(part.width for part in parts) + 2 * self.inset
        self.up = parts[0].up
        self.down = parts[0].down + sum(part.up + part.down + 10.0 for part in parts[1:])

    def draw(self, on: Drawing, x: float, y: float, rail: str) -> None:
        height = y
        for number, part in enumerate(self.parts):
            kind, drawn = "preferred" if number == 0 else "rail", len(on.parts)
            if number:
                height += self.parts[number - 1].down + 10.0 + part.up
                self._side(on, x, y, height, kind)
            begin, end = x + self.inset, x + self.width - self.inset
            if number == 0:
                on.line([(x, y), (begin, y)], kind)
                on.line([(begin + part.width, y), (x + self.width, y)], kind)
            else:
                on.line([(begin + part.width, height), (end, height)], kind)
            on.text(begin - 5.0, height - 4.0, str(number + 1), "number", "end")
            on.group("choice", f"alternative {number + 1}{', which is preferred' if number == 0 else ''}", drawn)
            part.draw(on, begin, height, kind)

    def _side(self, on: Drawing, x: float, top: float, height: float, kind: str) -> None:
        inner, right = self.inset - 2 * ARC, x + self.width
        on.path(f"M {x:.1f} {top:.1f} {_DOWN} V {height - ARC:.1f} {_ON} h {inner:.1f}", kind)
        on.path(f"M {right - self.inset:.1f} {height:.1f} h {inner:.1f} {_UP} V {top + ARC:.1f} {_OFF}", kind)


class _Repeated(Part):
    """A part that may come again (above), may be passed over (below), or both."""

    def __init__(self, part: Part, node: Quantified, words: str) -> None:
        self.part, self.node = part, node
        self.again = node.maximum != 1
        self.passed = node.minimum == 0
        self.words = words
        self.inset = 2 * ARC
        self.width = max(part.width, width_of(self.words, SMALL_SIZE) + 4.0) + 2 * self.inset
        self.up = part.up + (8.0 + CAPTION if self.again else 0.0)
        self.down = part.down + (14.0 + (0.0 if self.again else CAPTION) if self.passed else 0.0)

    def draw(self, on: Drawing, x: float, y: float, rail: str) -> None:
        greedy, right = self.node.greedy, x + self.width
        inner = x + (self.width - self.part.width) / 2
        main = rail if not self.passed else "preferred" if greedy else "rail"
        on.line([(x, y), (inner, y)], main)
        on.line([(inner + self.part.width, y), (right, y)], main)
        self.part.draw(on, inner, y, main)
        begin = len(on.parts)
        if self.again:
            top = y - self.part.up - 6.0
            on.path(
                f"M {right - ARC:.1f} {y:.1f} {_UP} V {top + ARC:.1f} q 0 -{ARC} -{ARC} -{ARC} "
                f"H {x + ARC:.1f} q -{ARC} 0 -{ARC} {ARC} V {y - ARC:.1f} {_ON}",
                "preferred" if greedy else "rail",
            )
            on.arrow(x + self.width / 2 - 4.0, top, "left")
            on.text(x + self.width / 2, top - 5.0, self.words, "small", "middle")
        if self.passed:
            bottom = y + self.part.down + 8.0
            on.path(
                f"M {x:.1f} {y:.1f} {_DOWN} V {bottom - ARC:.1f} {_ON} "
                f"H {right - 2 * ARC:.1f} {_UP} V {y + ARC:.1f} {_OFF}",
                "rail" if greedy else "preferred",
            )
            on.arrow(x + self.width / 2 + 4.0, bottom, "right")
            if not self.again:
                on.text(x + self.width / 2, bottom + 12.0, self.words, "small", "middle")
        on.group("loop", self.words, begin)


class _Framed(Part):
    def __init__(self, part: Part, title: str) -> None:
        self.part, self.title = part, title
        self.width = max(part.width, width_of(title, SMALL_SIZE)) + 24.0
        self.up, self.down = part.up + 24.0, part.down + 8.0

    def draw(self, on: Drawing, x: float, y: float, rail: str) -> None:
        inner = x + (self.width - self.part.width) / 2
        begin = len(on.parts)
        on.box(x, y - self.up + 4.0, self.width, self.up + self.down - 4.0, "frame", 4.0)
        on.text(x + 6.0, y - self.up + 16.0, self.title, "small")
        on.group("framed", self.title, begin)
        on.line([(x, y), (inner, y)], rail)
        on.line([(inner + self.part.width, y), (x + self.width, y)], rail)
        self.part.draw(on, inner, y, rail)


def preferring(node: Quantified) -> str:
    """`+`, `{2,5}?` and so on, and what it prefers."""
    low, high = node.minimum, node.maximum
    sign = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high))
    if sign is None:
        sign = f"{{{low}}}" if low == high else f"{{{low or ''},{'' if high is None else high}}}"
    if low == high:
        return f"{sign} times"
    return f"{sign} prefers more rows" if node.greedy else f"{sign}? prefers fewer rows"


def railroad(
    pattern: Pattern, box_of: Callable[[Label], LabelBox], words: Callable[[Quantified], str] = preferring
) -> Drawing:
    """A pattern from its beginning to the match. box_of: how a label, at its place in the pattern, is shown. words:
    what is said of a repetition."""
    builder = _Builder(box_of, words)
    parts = [builder.part(one) for one in (pattern.parts if isinstance(pattern, Concatenation) else (pattern,))]
    body = _Rows(parts, MOST_WIDE)
    drawing = Drawing(body.width + 2 * (GAP + 16.0), body.up + body.down + 8.0)
    y = body.up + 4.0
    drawing.add(f'<circle cx="8" cy="{y:.1f}" r="6" class="dot"><title>start row</title></circle>')
    drawing.line([(8.0, y), (16.0 + GAP, y)], "preferred")
    body.draw(drawing, 16.0 + GAP, y, "preferred")
    end = 16.0 + GAP + body.rows[-1].width
    last = y + sum(one.down + two.up + 26.0 for one, two in zip(body.rows, body.rows[1:], strict=False))
    drawing.line([(end, last), (end + GAP - 6.0, last)], "preferred")
    drawing.arrow(end + GAP - 5.0, last)
    x = end + GAP + 4.0
    drawing.add(
        f'<g><title>match</title><circle cx="{x:.1f}" cy="{last:.1f}" r="9" class="end"/>'
        f'<circle cx="{x:.1f}" cy="{last:.1f}" r="4" class="dot"/></g>'
    )
    return drawing


class _Builder:
    """Makes parts of a pattern, as long as there are not too many."""

    def __init__(self, box_of: Callable[[Label], LabelBox], words: Callable[[Quantified], str]) -> None:
        self.box_of, self.words = box_of, words
        self.left = MOST_PARTS

    def part(self, pattern: Pattern) -> Part:
        if self.left <= 0:
            return _Box("…", LabelBox("any", "more, which is not drawn"))
        if isinstance(pattern, Label):
            self.left -= 1
            return _Box(pattern.name, self.box_of(pattern))
        if isinstance(pattern, Anchor):
            where = "start" if pattern.at_start else "end"
            return _Box("^" if pattern.at_start else "$", LabelBox("end", f"the {where} of the partition"), 15.0)
        if isinstance(pattern, (Concatenation, Alternation, Permutation)):
            parts = []
            for one in pattern.parts:
                parts.append(self.part(one))
                if self.left <= 0:
                    break
            if isinstance(pattern, Alternation):
                return _Choice(parts)
            if isinstance(pattern, Concatenation):
                return _Row(parts)
            return _Framed(_Row(parts), "PERMUTE: any order, this one first")
        if isinstance(pattern, Quantified):
            inner = self.part(pattern.part)
            return (
                inner
                if (pattern.minimum, pattern.maximum) == (1, 1)
                else _Repeated(inner, pattern, self.words(pattern))
            )
        if isinstance(pattern, Exclusion):
            return _Framed(self.part(pattern.part), "{- -} not shown")
        return _Nothing()
