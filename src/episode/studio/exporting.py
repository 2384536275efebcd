"""A run as a file to take along: a notebook that runs it again, or a report."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_TICKS = re.compile(r'"""')


def notebook(text: str, tables: Mapping[str, str | None]) -> str:
    """A notebook that runs the query. tables: those that it names, with their paths; None: the reader has to say."""
    opened = [f"{name} = {place!r}" if place else f"{name} = …  # where is it?" for name, place in tables.items()]
    given = "".join(f", {name}={name}" for name in tables)
    cells = [
        _markdown("# A query of episode studio"),
        _code("import episode\n" + ("\n" + "\n".join(opened) if opened else "")),
        _code(f"query = {_literal(text)}\n\nmatches = episode.sql(query{given})\nmatches.limit(1000).toPandas()"),
        _markdown("How it is evaluated:"),
        _code(f"print(episode.explain(query{given}))"),
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _literal(text: str) -> str:
    """The text as a literal of Python over several lines, where that can be; else in one."""
    plain = text.strip("\n")
    readable = "\\" not in plain and not _TICKS.search(plain) and not plain.endswith('"') and plain.isprintable
    return f'"""\n{plain}\n"""' if readable else repr(text)


def _markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def _code(text: str) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": text}
