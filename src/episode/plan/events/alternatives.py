"""Alternatives inside closures: one variable for several classes, and groups whose events are of one of several."""

from __future__ import annotations

from dataclasses import replace

from episode.lang.events.syntax import (
    Closure,
    Disjunction,
    EventClass,
    EventPattern,
    Negation,
    Strategy,
)
from episode.plan.events.classes import EventClasses
from episode.plan.events.names import is_of_classes
from episode.plan.expressions import Apply, Constant, Expression


def with_united_classes(pattern: EventPattern, classes: EventClasses, strategy: Strategy) -> EventPattern:
    """`(B e | C e)+` → `e+` of B and C: inside a closure, alternatives with one variable are one class.

    Where an event can be of both, every choice of it would count twice: these are left as they are, but for groups,
    which take an event once. A closure of a closure is one, `(B+)*` → `B*`, unless rounds are counted.
    """

    def united(part: EventPattern, inside: bool, once: bool) -> EventPattern:
        if isinstance(part, EventClass):
            return part
        if isinstance(part, Closure):
            once = part.groups and strategy is Strategy.ANY and is_of_classes(part.part)
            inner = united(part.part, True, once)
            if isinstance(inner, Closure) and inner.groups == part.groups and inner.count is None is part.count:
                return replace(inner, minimum=part.minimum, span=part.span)
            return replace(part, part=inner)
        if isinstance(part, Negation):
            return replace(part, part=united(part.part, False, False))
        parts = tuple(united(one, inside, once) for one in part.parts)
        if inside and isinstance(part, Disjunction):
            parts = _joined(parts, classes, once)
            if len(parts) == 1:
                return parts[0]
        return replace(part, parts=parts)

    return united(pattern, False, False)


def _joined(parts: tuple[EventPattern, ...], classes: EventClasses, once: bool) -> tuple[EventPattern, ...]:
    flat = [one for part in parts for one in (part.parts if isinstance(part, Disjunction) else (part,))]
    out: dict[object, EventPattern] = {}
    for number, part in enumerate(flat):
        key: object = part.variable if isinstance(part, EventClass) else number
        before = out.get(key)
        if not isinstance(before, EventClass) or not isinstance(part, EventClass):
            out[key] = part
        elif once or (classes.exclude_each_other and not set(before.names) & set(part.names)):
            others = dict.fromkeys((*before.others, *part.names))
            out[key] = replace(before, others=tuple(name for name in others if name != before.name))
        else:
            out[number] = part
    return tuple(out.values())


def take_first_alternatives(
    places: list[tuple[str, ...]], local: dict[str, list[Expression]], classes: EventClasses
) -> None:
    """An event that qualifies for several of a place's alternatives is one of the first of them."""
    for names in places:
        earlier: list[Expression] = []
        for number, name in enumerate(names):
            mine = _all_hold(local[name])
            if any(not classes.exclusive(name, before) for before in names[:number]):
                local[name] = [*local[name], *earlier]
            earlier.append(Apply("not", (Apply("coalesce", (mine, Constant(0, "boolean")), "boolean"),), "boolean"))


def _all_hold(conditions: list[Expression]) -> Expression:
    if not conditions:
        return Constant(1, "boolean")
    return conditions[0] if len(conditions) == 1 else Apply("and", tuple(conditions), "boolean")
