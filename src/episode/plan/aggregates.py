"""Aggregates that the machine keeps while it matches, with the types that they take and give."""

from __future__ import annotations

import re

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.source import Source
from episode.lang.syntax import Scalar, Span
from episode.lang.user_aggregates import UserAggregate, user_aggregate
from episode.plan.compilable import to_float
from episode.plan.expressions import Expression, Running
from episode.plan.types import WIDEST_DECIMAL, decimal_of, is_float, is_integer, is_numeric, lane_of
from episode.plan.wide import in_words, is_ranked

COLLECTING = ("collect_list", "collect_set")
BOOLEAN_AGGREGATES = {"bool_and": "min", "bool_or": "max"}
NUMBERS = "It takes numbers: cast the argument, for example to double."
COMPARABLE = "It takes values that can be compared across rows: numbers, strings, times, booleans."
CONDITIONS = "It takes a condition: compare the argument, for example x > 0."
TAKES = {
    **dict.fromkeys(("count_if", "bool_and", "bool_or"), CONDITIONS),
    **dict.fromkeys(("min", "max", "min_by", "max_by"), COMPARABLE),
}
DOUBLE_AGGREGATES = ("avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop")


def require(source: Source, holds: bool, function: str, type_: str, span: Span) -> None:
    """An aggregate that does not take values of a type says what it takes."""
    if not holds:
        written = re.match(r"(?:(?:RUNNING|FINAL)\s+)?(\w+)", source.written(span), re.IGNORECASE)
        name = written.group(1) if written else function
        message = f"{name} cannot be applied to {type_}."
        raise source.error(EpisodeAnalysisError, message, span, TAKES.get(function, NUMBERS))


def require_column(source: Source, scalar: Scalar, span: Span, call: str) -> None:
    """A navigation needs a column to say whose rows it walks."""
    if not scalar.atoms:
        message = f"A{'n' if call[0] == 'a' else ''} {call} needs a column inside."
        raise source.error(EpisodeAnalysisError, message, span, "Write LAST(A.x).")


def user_argument(source: Source, user: UserAggregate, argument: Expression, span: Span) -> Expression:
    """The argument of an aggregate of a user, as its step takes it."""
    if user.takes == "bigint":
        require(source, is_integer(argument.type), user.name, argument.type, span)
        return argument
    values = in_words(argument) if is_ranked(argument) else argument
    require(source, is_numeric(argument.type) and values is not None, user.name, argument.type, span)
    return to_float(values or argument)


def running_aggregate(
    source: Source, function: str, members: frozenset[str] | None, argument: Expression, span: Span
) -> Expression:
    """A typed aggregate for the machine, or an error for types that it does not add up."""
    type_ = argument.type
    user = user_aggregate(function)
    if user is not None:
        return Running(function, members, user_argument(source, user, argument, span), user.gives, user=user)
    if function == "count":
        return Running("count", members, argument, "bigint")
    if function == "count_if":
        require(source, type_ == "boolean", function, type_, span)
        return Running("count_if", members, argument, "bigint")
    if function in BOOLEAN_AGGREGATES:
        require(source, type_ == "boolean", function, type_, span)
        return Running(BOOLEAN_AGGREGATES[function], members, argument, "boolean")
    if function in ("min", "max"):
        require(source, lane_of(type_) is not None, function, type_, span)
        return Running(function, members, argument, type_)
    decimal = decimal_of(type_)
    if function == "sum":
        if is_integer(type_):
            return Running("sum", members, argument, "bigint")
        if is_float(type_):
            return Running("sum", members, argument, "double")
        if type_.startswith("interval") and lane_of(type_) == "int":
            return Running("sum", members, argument, type_)
    require(source, is_numeric(type_), function, type_, span)
    values = in_words(argument) if is_ranked(argument) else argument
    if decimal is not None and values is not None and function in ("sum", "avg"):
        precision, scale = decimal
        if function == "sum":
            return Running("sum", members, values, f"decimal({min(precision + 10, WIDEST_DECIMAL)},{scale})")
        more = (min(precision + 4, WIDEST_DECIMAL), min(scale + 4, WIDEST_DECIMAL))
        return Running("avg", members, values, f"decimal({more[0]},{more[1]})")
    if function in DOUBLE_AGGREGATES and values is not None:
        return Running(function, members, values, "double")
    message = f"{function} of {type_} is not evaluated in DEFINE."
    raise source.error(EpisodeUnsupportedError, message, span, "Cast it to double.")
