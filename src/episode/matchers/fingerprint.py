"""What a state belongs to. A checkpoint keeps the fingerprint of its query: the values may never change for a query."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

import pyarrow as pa


def fingerprint(text: str, *details: str) -> str:
    """Of a query's text (however it is broken into lines) and of what else decides on its matches."""
    return hashlib.sha256("\n".join([one_line(text), *details]).encode()).hexdigest()[:16]


_PARTS = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|\s+", re.DOTALL)
"""Comments, texts and names in quotes, and space."""


def one_line(text: str) -> str:
    """A query in one line, single blanks between its words; what stands in quotes stays as it is."""

    def in_line(found: re.Match[str]) -> str:
        part = found.group()
        return part if part[0] in "'\"`" else " " if part.isspace() else " ".join(part.split())

    return _PARTS.sub(in_line, text).strip()


def column_types(schema: pa.Schema, columns: Iterable[str]) -> list[str]:
    """The input columns with their types, in the order of the schema."""
    read = frozenset(columns)
    return [f"{field.name} {field.type}" for field in schema if field.name in read]
