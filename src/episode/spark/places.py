"""Places in the text that Spark runs, as places in the text that the user wrote.

A statement is handed to Spark with references to DataFrames in place of its patterns; what stands around them is copied
as it is. A complaint of Spark about a copied part is about the same part of the statement.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from string import Formatter

from pyspark.errors import PySparkException

Range = tuple[int, int]
"""Begin and end in a text."""

VIEW = re.compile(r"_pyspark_(?:connect_temp_view_)?[0-9a-f]{32}")
"""The names that PySpark gives to DataFrames in a statement."""
_LENGTHS = (len("_pyspark_") + 32, len("_pyspark_connect_temp_view_") + 32)
_LINE = re.compile(r"\(line (\d+), pos (\d+)\)")
_NEAR = re.compile(r"at or near '([^']+)'")


@dataclass(frozen=True)
class Copies:
    """A statement of the user, and which parts of it are copied into the texts that Spark is given."""

    source: str
    ranges: Collection[Range]

    def place(self, text: str, named: Iterable[str], error: PySparkException) -> Range | None:
        """Where in the statement an error is. text: what was to be run, with the names of DataFrames in braces."""
        names = set(named)
        for length in _LENGTHS if names else _LENGTHS[:1]:
            run = _as_run(text, names, length)
            for begin, end in _complaints(run, error):
                found = self._source_of(run, begin, end)
                if found is not None:
                    return found
        return None

    def place_of(self, text: str, named: Iterable[str], begin: int, end: int) -> Range | None:
        """Where in the statement a place is of the text that was to be run in a classic session."""
        return self._source_of(_as_run(text, set(named), _LENGTHS[0]), begin, end)

    def _source_of(self, run: str, begin: int, end: int) -> Range | None:
        """The place whose copy covers a place of the text that is run; of several copies, the longest."""
        for start, stop in sorted(self.ranges, key=lambda one: one[0] - one[1]):
            copied = self.source[start:stop]
            at = run.find(copied) if copied.strip() else -1
            while at >= 0:
                if at <= begin < at + len(copied):
                    place = start + begin - at
                    return place, min(place + max(1, end - begin), stop)
                at = run.find(copied, at + 1)
        return None


def _as_run(text: str, names: set[str], length: int) -> str:
    """The text as Spark sees it; the names of DataFrames are as long as they are there."""
    if not names:
        return text.replace("{{", "{").replace("}}", "}")
    pieces = []
    for literal, name, _, _ in Formatter().parse(text):
        pieces += [literal, "" if name is None else "_" * length]
    return "".join(pieces)


def _complaints(run: str, error: PySparkException) -> Iterator[Range]:
    """The places of which an error speaks: those of its query contexts; else the line and column in its message."""
    for context in error.getQueryContext():
        try:
            begin, end, fragment = context.startIndex(), context.stopIndex() + 1, context.fragment()
        except Exception:  # noqa: BLE001 - contexts of DataFrames have no such place
            continue
        if fragment and run[begin:end] == fragment:
            yield begin, end
    written = _LINE.search(str(error))
    if written is not None:
        line, column = int(written.group(1)), int(written.group(2))
        begin = sum(len(one) + 1 for one in run.split("\n")[: line - 1]) + column
        near = _NEAR.search(str(error))
        word = "" if near is None else near.group(1)
        if run[begin : begin + len(word)].lower() == word.lower():
            yield begin, begin + max(1, len(word))
