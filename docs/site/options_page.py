"""Writes docs/options.md: every field of `episode.Options` and its groups, from docstrings, defaults and the languages.

Run it: python docs/site/options_page.py [directory]. A test compares the page with what this writes.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import Field, fields
from pathlib import Path

from episode.plan.options import OptionGroup, Options, StreamOptions, Tuning

HERE = Path(__file__).parents[1]
ITEM = re.compile(r"^(\w+): (.*)$")
HEAD = """\
# Options

`episode.Options` holds what the text of a query does not have: limits, choices of the result's form, and how streams
are handled. All functions that find patterns take it as `options=`. The options that most users need are its own; the
others are in two groups, `Tuning` and `StreamOptions`:

```
episode.sql(query, options=episode.Options(match_times=True), ticks=df)
episode.match(df, pattern, time="ts", options=episode.Options(watermark="10 seconds"))
episode.sql(query, options=episode.Options(tuning=episode.Tuning(shards=64)), ticks=df)
episode.sql(query, options=episode.Options(watermark=0, stream=episode.StreamOptions(late_path="late/")), ticks=df)
```

Values are checked when the object is made, and an option that no pattern of the query has a use for is refused: none is
accepted and ignored. On the command line, `episode run --help` lists the options that have flags.

This page is made from the docstrings of the classes by `python docs/site/options_page.py`; a test keeps it complete.
"""
GROUPS: tuple[tuple[type[OptionGroup], str], ...] = (
    (Options, "Options"),
    (Tuning, "Tuning: how a query is evaluated"),
    (StreamOptions, "StreamOptions: how streams are read"),
)


def explained(group: type[OptionGroup]) -> dict[str, str]:
    """The text of each field in the docstring."""
    found: dict[str, str] = {}
    name = None
    for line in inspect.cleandoc(group.__doc__ or "").splitlines():
        item = ITEM.match(line)
        if item:
            name = item.group(1)
            found[name] = item.group(2)
        elif name is not None and line.startswith(" "):
            found[name] += f" {line.strip()}"
        else:
            name = None
    return found


def section(one: Field[object], text: str) -> list[str]:
    """The lines of one option."""
    title = next((title for group, title in GROUPS if group.__name__ == one.type), None)
    words = f"Type `{one.type}`, default `{one.default!r}`."
    if title is not None:
        words = f"See [{one.type}](#{title.lower().replace(':', '').replace(' ', '-')})."
    return [f"### {one.name}", "", text[:1].upper() + text[1:], "", words, ""]


def page() -> str:
    lines = [HEAD]
    for group, title in GROUPS:
        texts, own = explained(group), fields(group)  # type: ignore[arg-type]
        missing = [one.name for one in own if one.name not in texts]
        if missing:
            raise SystemExit(f"The docstring of {group.__name__} does not explain: {', '.join(missing)}")
        lines += [f"## {title}", "", *(line for one in own for line in section(one, texts[one.name]))]
    return "\n".join(lines).rstrip() + "\n"


def main(directory: Path) -> None:
    (directory / "options.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
