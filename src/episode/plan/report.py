"""Reports of matchers: what they did, as data. Workers write them as JSON; the driver reads them by the types of their
fields and puts them into words."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import repeat
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

R = TypeVar("R", bound="CarriedReport")


class CarriedReport:
    """A dataclass that goes from a worker to the driver of the same version. Its fields are dataclasses, tuples,
    dictionaries, members of enumerations, texts and numbers, or any of these where they are optional."""

    def to_json(self) -> str:
        return json.dumps(_plain(self))

    @classmethod
    def from_json(cls: type[R], text: str) -> R:
        return _typed(cls, json.loads(text))


def _plain(value: Any) -> Any:
    """Lists, texts and numbers: of a dataclass its name and its fields, of a dictionary its pairs."""
    if _has_fields(value):
        return [type(value).__name__, *(_plain(getattr(value, one.name)) for one in fields(value))]
    if isinstance(value, dict):
        return [[_plain(key), _plain(one)] for key, one in value.items()]
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    return value.value if isinstance(value, Enum) else value


def _typed(kind: Any, value: Any) -> Any:
    """The value of this type that `_plain` has written."""
    of = get_args(kind)
    if _has_fields(kind):
        return kind(*map(_typed, _types(kind), value[1:]))
    if get_origin(kind) is dict:
        return {_typed(of[0], key): _typed(of[1], one) for key, one in value}
    if get_origin(kind) is tuple:
        return tuple(map(_typed, repeat(of[0]) if of[-1] is Ellipsis else of, value))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    classes = {one.__name__: one for one in of if _has_fields(one)}
    if isinstance(value, list):  # of a union
        return _typed(classes[value[0]], value) if classes else tuple(_typed(kind, one) for one in value)
    return value


def _has_fields(value: object) -> bool:
    """Is it a dataclass, or an object of one?"""
    return is_dataclass(value)


@cache
def _types(kind: Any) -> tuple[Any, ...]:
    hints = get_type_hints(kind)
    return tuple(hints[one.name] for one in fields(kind))
