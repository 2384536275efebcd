"""Names of the columns of RETURN that have none after AS."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from episode.lang.events.syntax import EventAtom, EventColumn, Index, WholeEvent, event_atoms
from episode.lang.syntax import ReturnItem, Scalar


@dataclass(frozen=True)
class Named:
    """An item of RETURN. given: does its name stand after AS?"""

    item: ReturnItem
    given: bool


def own_name(expression: Scalar) -> str:
    """The attribute or variable, where the expression is nothing else; else its text."""
    atom = _only_atom(expression)
    if isinstance(atom, EventColumn):
        return atom.path[-1]
    if isinstance(atom, WholeEvent):
        return atom.variable
    return " ".join(expression.original.split())


def with_different_names(items: list[Named]) -> list[ReturnItem]:
    """`a.ts, c.ts` → a_ts, c_ts: of items with one name, those that do not have it after AS get a longer one."""
    counts = Counter(one.item.name.lower() for one in items)
    return [
        replace(one.item, name=_longer_name(one.item))
        if counts[one.item.name.lower()] > 1 and not one.given
        else one.item
        for one in items
    ]


def _longer_name(item: ReturnItem) -> str:
    """a.x: a_x; b[1].x: b_1_x; b[last].x: b_last_x; b[2]: b_2. Other expressions keep their text."""
    atom = _only_atom(item.expression)
    if not isinstance(atom, (EventColumn, WholeEvent)):
        return item.name
    index = {Index.AT: (str(atom.number),), Index.LAST: ("last",)}.get(atom.index, ())
    path = atom.path if isinstance(atom, EventColumn) else ()
    return "_".join((atom.variable, *index, *path))


def _only_atom(expression: Scalar) -> EventAtom | None:
    """The atom that is all of an expression."""
    atoms = event_atoms(expression)
    return atoms[0] if len(atoms) == 1 and expression.text.strip() == expression.atoms[0][0] else None
