"""How events are packed, as JSON: the options of a data source hold values, never a program, whoever writes them."""

from __future__ import annotations

import base64
import json
from dataclasses import fields, is_dataclass
from functools import lru_cache
from numbers import Integral
from types import ModuleType
from typing import Any

from episode.errors import EpisodeAnalysisError
from episode.matchers.envelope import Packing
from episode.matchers.protocol import InputOrder, OrderKey
from episode.matchers.screen import Screen
from episode.matchers.sliced_keys import SlicedKey, SlicedKeys
from episode.matchers.slicing import Overlap
from episode.plan import arrays, expressions

KIND, REAL, BYTES, SET = "kind", "real", "bytes", "set"


def write_packing(packing: Packing) -> str:
    """The JSON of a packing."""
    return json.dumps(_written(packing))


def read_packing(text: str) -> Packing:
    """The packing that a JSON text describes; any other text is an error."""
    try:
        found = _read(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        found = None
    if not isinstance(found, Packing):
        raise EpisodeAnalysisError(
            "The option envelopes is set by episode itself, and this is not a value that it sets.",
            hint="Leave the option out: rows are read as they are.",
        )
    return found


@lru_cache(maxsize=1)
def _kinds() -> dict[str, type]:
    """Return the only classes that a text can name: plain values."""
    own = (Packing, InputOrder, OrderKey, Screen, SlicedKeys, SlicedKey, Overlap)
    return {kind.__name__: kind for kind in (*own, *_classes(expressions), *_classes(arrays))}


def _classes(module: ModuleType) -> list[type]:
    found = [one for one in vars(module).values() if isinstance(one, type) and is_dataclass(one)]
    return [one for one in found if one.__module__ == module.__name__]


def _written(value: Any) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, float):
        return {REAL: value.hex()}
    if isinstance(value, bytes):
        return {BYTES: base64.b64encode(value).decode()}
    if isinstance(value, tuple):
        return [_written(one) for one in value]
    if isinstance(value, frozenset):
        return {SET: sorted(_written(one) for one in value)}
    name = type(value).__name__
    if _kinds().get(name) is not type(value):
        raise TypeError(f"{name} cannot be sent to readers of a stream")
    return {KIND: name, **{field.name: _written(getattr(value, field.name)) for field in fields(_kinds()[name])}}


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_read(one) for one in value)
    if not isinstance(value, dict):
        return value
    if REAL in value:
        return float.fromhex(value[REAL])
    if BYTES in value:
        return base64.b64decode(value[BYTES], validate=True)
    if SET in value:
        return frozenset(_read(one) for one in value[SET])
    kind = _kinds()[value[KIND]]
    return kind(**{name: _read(one) for name, one in value.items() if name != KIND})
