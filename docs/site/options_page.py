"""Writes docs/options.md: every field of `episode.Options`, from its docstring, its defaults and the languages.

Run it: python docs/site/options_page.py [directory]. A test compares the page with what this writes.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import fields
from pathlib import Path

from episode.queries.languages import LANGUAGES
from episode.queries.options import OF_STREAMS, Options

HERE = Path(__file__).parents[1]
ITEM = re.compile(r"^(\w+): (.*)$")
HEAD = """\
# Options

`episode.Options` holds what a query does not say itself: limits, choices of the result's form, and how streams are
handled. All functions that find patterns take it as `options=`:

```
episode.sql(query, options=episode.Options(shards=64, match_times=True), ticks=df)
episode.match(df, pattern, time="ts", options=episode.Options(watermark="10 seconds"))
```

Values are checked when the object is made, and an option that no pattern of the query has a use for is refused: none is
accepted and ignored. On the command line, `episode run --help` lists the options that have flags.

This page is made from the docstring of the class by `python docs/site/options_page.py`; a test keeps it complete.
"""
SECTIONS = {
    "every": "For every query",
    "language": "For patterns of one kind",
    "stream": "For streams",
}


def explained() -> dict[str, str]:
    """Of each field what the docstring says of it."""
    found: dict[str, str] = {}
    name = None
    for line in inspect.cleandoc(Options.__doc__ or "").splitlines():
        item = ITEM.match(line)
        if item:
            name = item.group(1)
            found[name] = item.group(2)
        elif name is not None and line.startswith(" "):
            found[name] += f" {line.strip()}"
        else:
            name = None
    return found


def kinds_of(name: str) -> list[str]:
    """The kinds of patterns that an option is for; none: all."""
    return sorted(language.name for language in LANGUAGES.values() if name in language.options)


def section_of(name: str) -> str:
    if name in OF_STREAMS:
        return "stream"
    return "language" if kinds_of(name) else "every"


def page() -> str:
    texts = explained()
    missing = [one.name for one in fields(Options) if one.name not in texts]
    if missing:
        raise SystemExit(f"The docstring of Options says nothing of: {', '.join(missing)}")
    lines = [HEAD]
    for section, title in SECTIONS.items():
        chosen = [one for one in fields(Options) if section_of(one.name) == section]
        lines += [f"## {title}", ""]
        for one in chosen:
            kinds = kinds_of(one.name)
            words = f"Type `{one.type}`, default `{one.default!r}`."
            if kinds:
                words += f" For {' and '.join(f'{kind}s' for kind in kinds)}."
            lines += [f"### {one.name}", "", texts[one.name][:1].upper() + texts[one.name][1:], "", words, ""]
    return "\n".join(lines).rstrip() + "\n"


def main(directory: Path) -> None:
    (directory / "options.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
