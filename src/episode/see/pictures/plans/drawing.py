"""Elements of SVG, the room that text takes, drawings made of both, and their colours and fonts.

The font of a reader is not known: widths are estimated, a little too wide.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from string import Template

SANS_SIZE, CODE_SIZE, SMALL_SIZE = 13.0, 12.5, 11.0
LINE = 16.0
"""From one line of text to the next."""
_CODE_WIDTH = 0.61
_NARROW, _WIDE = frozenset("iljtf.,:;|!'()[]{} I-1"), frozenset("mwMWCDGHNOQRU%@→←≈")


def width_of(text: str, size: float = SANS_SIZE, code: bool = False) -> float:
    if code:
        return len(text) * size * _CODE_WIDTH
    return sum(0.36 if sign in _NARROW else 0.8 if sign in _WIDE else 0.585 for sign in text) * size


def wrap(text: str, width: float, size: float = SANS_SIZE, code: bool = False) -> list[str]:
    """Break a text into lines that fit, between words, and within a word only if it is too long itself."""
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
    """Write an element; names of attributes have _ in place of -, and class_ is class. content: not escaped."""
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
    """Elements within a width and a height; the upper left corner is (0, 0)."""

    width: float = 0.0
    height: float = 0.0
    parts: list[str] = field(default_factory=list)

    def add(self, *parts: str) -> None:
        self.parts += parts

    def text(self, x: float, y: float, content: str, kind: str = "", anchor: str | None = None) -> None:
        """Add a line of text; kind: its classes."""
        self.add(element("text", escape(content), x=x, y=y, class_=kind or None, text_anchor=anchor))

    def line(self, points: Iterable[tuple[float, float]], kind: str = "rail") -> None:
        moves = " L ".join(f"{_value(float(x))} {_value(float(y))}" for x, y in points)
        self.add(element("path", d=f"M {moves}", class_=kind))

    def path(self, data: str, kind: str = "rail") -> None:
        self.add(element("path", d=data, class_=kind))

    def arrow(self, x: float, y: float, towards: str = "right", kind: str = "head") -> None:
        """Add the head of an arrow, with its tip at a point."""
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
        self.add(element("g", "".join(other.parts), transform=f"translate({_value(x)} {_value(y)})"))

    def group(self, kind: str, title: str, begin: int) -> None:
        """Group all parts from a number on, under a title that names them."""
        inner = "".join(self.parts[begin:])
        del self.parts[begin:]
        self.add(element("g", element("title", escape(title)) + inner, class_=kind))


# Colours and fonts, on a light and on a dark background. Every fact is also written: none is shown by colour alone.
#
# Rules begin with the class of our pictures, so that they leave the rest of a page alone. Colours are plain: programs
# other than browsers that draw SVG know neither variables nor media queries.


PICTURE, PAGE = "episode-plan", "episode-plan-page"
"""The class of an SVG, and of the HTML around it."""

_SANS = "font-family: system-ui, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"
_CODE = "font-family: ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"

_LIGHT = {
    "paper": "#ffffff", "ink": "#1b1f24", "soft": "#57606a", "line": "#8c959f", "faint": "#d0d7de", "fill": "#f6f8fa",
    "local": "#ddf4ff", "local_line": "#0969da", "residual": "#fff8c5", "residual_line": "#9a6700",
    "strong": "#1a7f37", "strong_fill": "#dafbe1", "bar": "#8c959f", "no": "#cf222e",
}  # fmt: skip
_DARK = {
    "paper": "#0d1117", "ink": "#e6edf3", "soft": "#a6b0bb", "line": "#7d8590", "faint": "#30363d", "fill": "#161b22",
    "local": "#0c2d6b", "local_line": "#79c0ff", "residual": "#4b2900", "residual_line": "#e3b341",
    "strong": "#56d364", "strong_fill": "#0f5323", "bar": "#6e7681", "no": "#ff7b72",
}  # fmt: skip


def _rules(sheet: str, root: str) -> str:
    rules = Template((files("episode.see.pictures.plans") / sheet).read_text(encoding="utf-8").strip())
    light, dark = (rules.substitute(root=root, sans=_SANS, code=_CODE, **colours) for colours in (_LIGHT, _DARK))
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


SVG_RULES, PAGE_RULES = _rules("picture.css", PICTURE), _rules("page.css", PAGE)
