"""Elements of SVG, how much room text takes, and drawings that are put together of them.

No font is known where a picture is made: widths are estimated, a little too wide.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape

SANS_SIZE, CODE_SIZE, SMALL_SIZE = 13.0, 12.5, 11.0
LINE = 16.0
"""From one line of text to the next."""
_CODE_WIDTH = 0.61
_NARROW, _WIDE = frozenset("iljtf.,:;|!'()[]{} I-1"), frozenset("mwMWCDGHNOQRU%@→←≈")


def width_of(text: str, size: float = SANS_SIZE, code: bool = False) -> float:
    """How wide a text is, about."""
    if code:
        return len(text) * size * _CODE_WIDTH
    return sum(0.36 if sign in _NARROW else 0.8 if sign in _WIDE else 0.585 for sign in text) * size


def wrapped(text: str, width: float, size: float = SANS_SIZE, code: bool = False) -> list[str]:
    """Lines of a text that are not wider, broken between words, and within a word only if it is too long itself."""
    lines: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if width_of(longer, size, code) <= width + 0.5:
            line = longer
            continue
        if line:
            lines.append(line)
        while width_of(word, size, code) > width and len(word) > 1:
            fits = max(1, int(len(word) * width / width_of(word, size, code)))
            lines.append(word[:fits])
            word = word[fits:]
        line = word
    return [*lines, line]


def element(tag: str, content: str = "", **attributes: object) -> str:
    """An element; names of attributes have _ in place of -, and class_ is class. content: as it is, not escaped."""
    shown = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{shown}>{content}</{tag}>" if content else f"<{tag}{shown}/>"


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    return escape(str(value))


@dataclass
class Drawing:
    """Elements within a width and a height, from the left upper corner on."""

    width: float = 0.0
    height: float = 0.0
    parts: list[str] = field(default_factory=list)

    def add(self, *parts: str) -> None:
        self.parts += parts

    def text(self, x: float, y: float, content: str, kind: str = "", anchor: str | None = None) -> None:
        """A line of text; kind: its classes."""
        self.add(element("text", escape(content), x=x, y=y, class_=kind or None, text_anchor=anchor))

    def line(self, points: Iterable[tuple[float, float]], kind: str = "rail") -> None:
        moves = " L ".join(f"{_value(float(x))} {_value(float(y))}" for x, y in points)
        self.add(element("path", d=f"M {moves}", class_=kind))

    def path(self, data: str, kind: str = "rail") -> None:
        self.add(element("path", d=data, class_=kind))

    def arrow(self, x: float, y: float, towards: str = "right", kind: str = "head") -> None:
        """The head of an arrow, with its tip at a point."""
        dx = {"right": -7.0, "left": 7.0}.get(towards)
        if dx is None:
            dy = -7.0 if towards == "down" else 7.0
            points = ((x, y), (x - 4.0, y + dy), (x + 4.0, y + dy))
        else:
            points = ((x, y), (x + dx, y - 4.0), (x + dx, y + 4.0))
        shown = " ".join(f"{_value(one)},{_value(two)}" for one, two in points)
        self.add(element("polygon", points=shown, class_=kind))

    def box(self, x: float, y: float, width: float, height: float, kind: str, round_: float = 6.0) -> None:
        self.add(element("rect", x=x, y=y, width=width, height=height, rx=round_, class_=kind))

    def put(self, other: Drawing, x: float, y: float) -> None:
        """Another drawing, moved to a place."""
        self.add(element("g", "".join(other.parts), transform=f"translate({_value(x)} {_value(y)})"))

    def group(self, kind: str, title: str, begin: int) -> None:
        """Make a group of all that was added from a place on, with a title that says what it is."""
        inner = "".join(self.parts[begin:])
        del self.parts[begin:]
        self.add(element("g", element("title", escape(title)) + inner, class_=kind))
