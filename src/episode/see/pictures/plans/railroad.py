"""Rails of a pattern as a railroad diagram: a path from the left to the right is a match.

At a switch the preferred way is thick; alternatives are numbered in order of preference. A part begins and ends at the
height of its rail, and knows how far it extends above and below.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from episode.plan.sections import Rail, RailChoice, RailLoop, RailRow, RailStop
from episode.see.pictures.plans.drawing import CODE_SIZE, SMALL_SIZE, Drawing, width_of

GAP, ARC, HALF = 22.0, 10.0, 15.0
"""The distance of two parts; the radius of a turn; half the height of a box."""
_DOWN, _ON = f"q {ARC} 0 {ARC} {ARC}", f"q 0 {ARC} {ARC} {ARC}"
_UP, _OFF = f"q {ARC} 0 {ARC} -{ARC}", f"q 0 -{ARC} {ARC} -{ARC}"
"""Turns of a rail to the right: down, then right again; up, then right again."""
CAPTION = 14.0
MOST_WIDE = 900.0
MOST_PARTS = 150
"""Labels that are drawn; the rest of a longer pattern is left out."""


class Part(ABC):
    """A stretch of rail. up, down: how far it extends above and below the rail."""

    width: float
    up: float
    down: float

    @abstractmethod
    def draw(self, on: Drawing, x: float, y: float, rail: str) -> None:
        """Draw it from (x, y) on. rail: the kind of its rail outside of choices."""

    def draw_in_middle(self, on: Drawing, x: float, y: float, width: float, rail: str) -> None:
        """Draw it in the middle of a stretch, with rails to both ends."""
        left = x + (width - self.width) / 2
        on.line([(x, y), (left, y)], rail)
        on.line([(left + self.width, y), (x + width, y)], rail)
        self.draw(on, left, y, rail)


class _Box(Part):
    def __init__(self, stop: RailStop) -> None:
        self.stop = stop
        below = max([width_of(line, SMALL_SIZE) for line in stop.notes], default=0.0)
        self.width = max(width_of(stop.text, CODE_SIZE, code=True) + 24.0, below, 34.0)
        self.up, self.down = HALF, HALF + CAPTION * len(stop.notes) + (3.0 if stop.notes else 0.0)

    def draw(self, on: Drawing, x: float, y: float, rail: str) -> None:
        begin, stop = len(on.parts), self.stop
        wide = width_of(stop.text, CODE_SIZE, code=True) + 24.0
        left = x + (self.width - wide) / 2
        on.line([(x, y), (left, y)], rail)
        on.line([(left + wide, y), (x + self.width, y)], rail)
        on.box(left, y - HALF, wide, 2 * HALF, stop.kind, 15.0 if stop.round_ else 6.0)
        on.text(left + wide / 2, y + 4.5, stop.text, "code name", "middle")
        for number, line in enumerate(stop.notes):
            on.text(x + self.width / 2, y + HALF + CAPTION * (number + 1) - 1.0, line, "number", "middle")
        on.group("label", stop.title, begin)


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
            right, left = end + ARC, x - ARC
            on.line([(end, y), (right, y), (right, turn), (left, turn), (left, below), (x, below)], "preferred")
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
    """A part that may repeat (above), may be skipped (below), or both."""

    def __init__(self, part: Part, loop: RailLoop) -> None:
        self.part, self.greedy, self.words = part, loop.greedy, loop.words
        self.again, self.passed = loop.repeats, loop.optional
        self.inset = 2 * ARC
        self.width = max(part.width, width_of(self.words, SMALL_SIZE) + 4.0) + 2 * self.inset
        self.up = part.up + (8.0 + CAPTION if self.again else 0.0)
        self.down = part.down + (14.0 + (0.0 if self.again else CAPTION) if self.passed else 0.0)

    def draw(self, on: Drawing, x: float, y: float, rail: str) -> None:
        greedy, right = self.greedy, x + self.width
        main = rail if not self.passed else "preferred" if greedy else "rail"
        self.part.draw_in_middle(on, x, y, self.width, main)
        begin = len(on.parts)
        if self.again:
            top = y - self.part.up - 6.0
            up = f"M {right - ARC:.1f} {y:.1f} {_UP} V {top + ARC:.1f} q 0 -{ARC} -{ARC} -{ARC}"
            back = f"H {x + ARC:.1f} q -{ARC} 0 -{ARC} {ARC} V {y - ARC:.1f} {_ON}"
            on.path(f"{up} {back}", "preferred" if greedy else "rail")
            on.arrow(x + self.width / 2 - 4.0, top, "left")
            on.text(x + self.width / 2, top - 5.0, self.words, "small", "middle")
        if self.passed:
            bottom = y + self.part.down + 8.0
            down = f"M {x:.1f} {y:.1f} {_DOWN} V {bottom - ARC:.1f} {_ON}"
            on.path(f"{down} H {right - 2 * ARC:.1f} {_UP} V {y + ARC:.1f} {_OFF}", "rail" if greedy else "preferred")
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
        begin = len(on.parts)
        on.box(x, y - self.up + 4.0, self.width, self.up + self.down - 4.0, "frame", 4.0)
        on.text(x + 6.0, y - self.up + 16.0, self.title, "small")
        on.group("framed", self.title, begin)
        self.part.draw_in_middle(on, x, y, self.width, rail)


def draw_rails(whole: Rail) -> Drawing:
    """Draw a pattern from its beginning to the match."""
    builder = _Builder()
    outer = whole.parts if isinstance(whole, RailRow) and whole.parts and not whole.title else (whole,)
    parts = [builder.part(one) for one in outer]
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
    """Makes parts of rails, up to MOST_PARTS labels."""

    def __init__(self) -> None:
        self.left = MOST_PARTS

    def part(self, rail: Rail) -> Part:
        if self.left <= 0:
            return _Box(RailStop("…", "any", "more, which is not drawn"))
        if isinstance(rail, RailStop):
            self.left -= not rail.round_
            return _Box(rail)
        if isinstance(rail, RailLoop):
            return _Repeated(self.part(rail.part), rail)
        parts = []
        for one in rail.parts:
            parts.append(self.part(one))
            if self.left <= 0:
                break
        if isinstance(rail, RailChoice):
            return _Choice(parts)
        row = _Row(parts) if parts else _Nothing()
        return _Framed(row, rail.title) if rail.title else row
