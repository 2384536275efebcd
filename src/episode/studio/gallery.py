"""Examples of every language over the sample data, to be run and changed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

ROWS, EVENTS, SITUATIONS, CORRELATION, WINDOWS = (
    "row pattern",
    "event pattern",
    "situations",
    "correlation",
    "window pattern",
)


@dataclass(frozen=True)
class Example:
    """folder: the package folder that its text is in. about: what it finds, in a sentence."""

    name: str
    title: str
    language: str
    table: str
    about: str
    folder: str = "studio/examples"

    @property
    def text(self) -> str:
        folder = files("episode").joinpath(*self.folder.split("/"))
        return (folder / f"{self.name}.sql").read_text(encoding="utf-8").rstrip() + "\n"


_DEMO = "demo_queries"
EXAMPLES = (
    Example("v_shape", "V-shapes", ROWS, "ticks", "At least eight falls in a row, then at least eight rises.", _DEMO),
    Example("w_shape", "W-shapes", ROWS, "ticks", "Two V-shapes in a row, with the peak between them.", _DEMO),
    Example("tick_shape", "Tick shapes", ROWS, "ticks", "A fall, then a rise above where it began.", _DEMO),
    Example("price_fall", "Price falls", ROWS, "ticks", "Every falling tick with the fall that ends in it.", _DEMO),
    Example("sessions", "Sessions", ROWS, "clicks", "Clicks with no pause of more than half an hour.", _DEMO),
    Example("funnel", "Funnel", ROWS, "clicks", "View, cart, checkout and purchase within half an hour.", _DEMO),
    Example("longest_fall", "Falls beside each tick", WINDOWS, "ticks", "The rows of a table, each with its match."),
    Example("abandoned", "Left without buying", EVENTS, "clicks", "A checkout with no purchase before the home page."),
    Example(
        "searches", "Searches before a cart", EVENTS, "clicks", "A look, then searches, then something in the cart."
    ),
    Example("aired", "Opened while hot", SITUATIONS, "readings", "A hot machine whose door stays open as it cools."),
    Example(
        "checked", "Checked while hot", SITUATIONS, "readings", "A door opened and closed while the machine is hot."
    ),
    Example(
        "recency", "Falls after a rise", CORRELATION, "ticks", "Long falls, and rises in the half hour before.", _DEMO
    ),
)


def listed(samples: Collection[str]) -> list[dict[str, Any]]:
    """The examples whose tables are the samples, as JSON."""
    return [
        {
            "name": one.name,
            "title": one.title,
            "language": one.language,
            "table": one.table,
            "about": one.about,
            "text": one.text,
        }
        for one in EXAMPLES
        if one.table in samples
    ]
