"""Aggregates that users have registered: what a query may call beside the aggregates of SQL."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True)
class UserAggregate:
    """An aggregate over the rows of a label or the events of a variable, in functions of its user.

    functions: how it begins, the step and the finish, traced (see `matchers.user_aggregates`). takes: the type of the
    values that the step is given, double or bigint. gives: the type of the result.
    """

    name: str
    functions: Hashable
    takes: str
    gives: str


REGISTERED: dict[str, UserAggregate] = {}
"""By name in upper case."""


def user_aggregate(name: str) -> UserAggregate | None:
    """The aggregate that users call by a name, in any case."""
    return REGISTERED.get(name.upper())
