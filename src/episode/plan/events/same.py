"""Columns that are equal in all events of a match: [attribute], and what conditions make so."""

from __future__ import annotations

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.events.syntax import Strategy
from episode.plan.events.binding import BoundQuery
from episode.plan.events.conditions import Conjunct, same_column
from episode.plan.events.presence import always
from episode.plan.expressions import Apply, Current, Expression, Load
from episode.plan.types import lane_of


def same_attributes(bound: BoundQuery, conjuncts: list[Conjunct], local: dict[str, list[Expression]]) -> list[str]:
    """Columns equal in all events: partition keys, or what strict contiguity has to test event by event."""
    columns = _bracketed(bound)
    equal = _equal_everywhere(bound, conjuncts) if bound.strategy in (Strategy.ANY, Strategy.NEXT) else []
    columns += equal
    certain = always(bound.query.pattern)
    if bound.strategy is Strategy.PARTITION and not columns and not bound.keys:
        raise bound.query.source.error(
            EpisodeAnalysisError,
            "partition-contiguity needs to know the partition.",
            bound.query.strategy_span,
            "Add [attribute] to WHERE, or give key=.",
        )
    rest = []
    for column in dict.fromkeys(columns):
        type_ = bound.type_of(column)
        if lane_of(type_) is None:
            continue
        known = Apply("not", (Apply("is_null", (Load(column, Current(0), type_),), "boolean"),), "boolean")
        for name in bound.variables:
            # Of the only event that is always there nothing is demanded where the others are not.
            if column not in equal or certain != [name]:
                local[name].append(known)
        if bound.strategy is Strategy.STRICT:
            rest.append(column)
        elif column not in bound.keys:
            bound.keys.append(column)
    return rest


def _bracketed(bound: BoundQuery) -> list[str]:
    """The columns of [attribute]."""
    columns = []
    for attribute in bound.query.same:
        if attribute.path[0] in bound.variables and bound.schema.find(attribute.path[0]) is None:
            raise bound.query.source.error(
                EpisodeAnalysisError,
                f"[{'.'.join(attribute.path)}] names an event; brackets take an attribute of all events.",
                attribute.span,
                f"Write [{'.'.join(attribute.path[1:]) or 'attribute'}].",
            )
        names = {
            bound.plain_column(bound.classes.column(name, attribute.path, attribute.span)) for name in bound.variables
        }
        if len(names) > 1:
            raise bound.query.source.error(
                EpisodeUnsupportedError,
                f"[{'.'.join(attribute.path)}] is of different types in the tables.",
                attribute.span,
                "Cast it to one type in the tables.",
            )
        column = names.pop()
        if lane_of(bound.type_of(column)) is None:
            raise bound.query.source.error(
                EpisodeUnsupportedError,
                f"{'.'.join(attribute.path)} is of type {bound.type_of(column)}: not compared across events.",
                attribute.span,
                "Use an attribute of an atomic type.",
            )
        columns.append(column)
    return columns


def _equal_everywhere(bound: BoundQuery, conjuncts: list[Conjunct]) -> list[str]:
    """Columns that conditions `a.x = b.x` make equal in all events; those conditions are done with."""
    edges: dict[str, list[tuple[Conjunct, str, str]]] = {}
    for conjunct in conjuncts:
        pair = same_column(conjunct)
        if pair is not None:
            left, right = (bound.scalars.column(side) for side in pair)
            if left.path == right.path and lane_of(bound.type_of(bound.plain_column(left))) is not None:
                edges.setdefault(bound.plain_column(left), []).append((conjunct, pair[0].variable, pair[1].variable))
    found = []
    for column, links in edges.items():
        if _connected(bound, [(one, other) for _, one, other in links]):
            found.append(column)
            for conjunct, _, _ in links:
                conjuncts.remove(conjunct)
            bound.notes.append(f"{column} is equal in all events: a partition key")
    return found


def _connected(bound: BoundQuery, links: list[tuple[str, str]]) -> bool:
    """Do the links reach every variable, along variables that every match has? (A negated or optional one may
    hang on them, but nothing may hang on it alone.)"""
    sure = set(always(bound.query.pattern))
    reached = {next(iter(sure))} if sure else set()
    changed = True
    while changed:
        changed = False
        for one, other in links:
            for here, there in ((one, other), (other, one)):
                if here in reached and here in sure and there not in reached:
                    reached.add(there)
                    changed = True
    return reached >= set(bound.variables)
