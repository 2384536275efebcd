"""What a state belongs to. A checkpoint keeps the fingerprint of its query: the values may never change for a query."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import pyarrow as pa


def fingerprint(text: str, *details: str) -> str:
    """Of a query's text (however it is broken into lines) and of what else decides on its matches."""
    return hashlib.sha256("\n".join([" ".join(text.split()), *details]).encode()).hexdigest()[:16]


def column_types(schema: pa.Schema, columns: Iterable[str]) -> list[str]:
    """The input columns with their types, in the order of the schema."""
    read = frozenset(columns)
    return [f"{field.name} {field.type}" for field in schema if field.name in read]
