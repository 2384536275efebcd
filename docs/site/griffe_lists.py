"""Lists in docstrings, for the site: lines that explain an argument become the items of a list.

In the source a docstring says `name: what it is`, one argument a line, with further lines indented.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

ITEM = re.compile(r"^(\w+(?:, \w+)*): (.*)$")


class Lists(Extension):
    """Rewrites the docstrings of functions and classes."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value)


def listed(text: str) -> str:
    """The text with its explanations as items."""
    lines, in_list = [], False
    for line in text.splitlines():
        item = ITEM.match(line)
        if item:
            if not in_list:
                lines.append("")
            names = ", ".join(f"`{name}`" for name in item.group(1).split(", "))
            lines.append(f"* {names}: {item.group(2)}")
            in_list = True
        elif in_list and line.startswith("    "):
            lines.append("  " + line.strip())
        else:
            if in_list and line.strip():
                lines.append("")
            in_list = in_list and not line.strip()
            lines.append(line)
    return "\n".join(lines)
