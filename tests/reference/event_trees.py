"""Event patterns built by hand: short names for the nodes, and the text of a query in the concrete syntax.

query(sequence(one("A", "a"), some("B", "b"), one("C", "c")), where("{} >= {}", each("b", "x"), column("a", "x")))
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sqlglot

from episode.lang.events.syntax import (
    Closure,
    Conjunction,
    Disjunction,
    EventAggregate,
    EventAtom,
    EventClass,
    EventColumn,
    EventPattern,
    EventQuery,
    Index,
    Negation,
    Reach,
    SameAttribute,
    Sequence,
    Strategy,
    WholeEvent,
    children,
)
from episode.lang.syntax import Duration, ReturnItem, Scalar

# ---- patterns -------------------------------------------------------------------------------------


def one(name: str, variable: str | None = None) -> EventClass:
    return EventClass(name, variable or name)


def sequence(*parts: EventPattern) -> Sequence:
    return Sequence(parts)


def both(*parts: EventPattern) -> Conjunction:
    return Conjunction(parts)


def either(*parts: EventPattern) -> Disjunction:
    return Disjunction(parts)


def no(part: EventPattern) -> Negation:
    return Negation(part)


def closure(part: EventPattern, symbol: str, *, groups: bool) -> Closure:
    """The symbol is `*`, `+` or `^n`."""
    if symbol in ("*", "+"):
        return Closure(part, minimum=0 if symbol == "*" else 1, count=None, groups=groups)
    count = int(symbol.removeprefix("^"))
    return Closure(part, minimum=count, count=count, groups=groups)


def group(name: str, symbol: str, variable: str | None = None) -> Closure:
    """ZStream's closure of a class."""
    return closure(one(name, variable), symbol, groups=True)


def some(name: str, variable: str | None = None, symbol: str = "+") -> Closure:
    """SASE's closure of a class."""
    return closure(one(name, variable), symbol, groups=False)


# ---- scalars --------------------------------------------------------------------------------------


def column(variable: str, path: str) -> EventColumn:
    return EventColumn(variable, Index.PLAIN, 0, (path,))


def each(variable: str, path: str, back: int = 0) -> EventColumn:
    """b[i].x, b[i-k].x"""
    return EventColumn(variable, Index.BACK if back else Index.EACH, back, (path,))


def at(variable: str, number: int, path: str) -> EventColumn:
    return EventColumn(variable, Index.AT, number, (path,))


def last(variable: str, path: str) -> EventColumn:
    return EventColumn(variable, Index.LAST, 0, (path,))


def every(variable: str, path: str) -> EventColumn:
    """b[].x"""
    return EventColumn(variable, Index.ALL, 0, (path,))


def whole(variable: str, index: Index = Index.PLAIN, number: int = 0) -> WholeEvent:
    return WholeEvent(variable, index, number)


def aggregate(function: str, variable: str, path: str | None = None, reach: Reach = Reach.ALL) -> EventAggregate:
    """sum(b[].x), max(b[..i-1].x), max(b[..i].x); without a path count(b[])."""
    arguments = () if path is None else (where("{}", column(variable, path)),)
    return EventAggregate(function, variable, reach, arguments)


def where(template: str, *atoms: EventAtom) -> Scalar:
    """A scalar: the text with {} for each atom, in order of appearance."""
    names = [f"__episode_{n}" for n in range(len(atoms))]
    text = template.format(*names)
    return Scalar(text, _tree(text), tuple(zip(names, atoms)), template.format(*(atom_text(atom) for atom in atoms)))


@cache
def _tree(text: str) -> Any:
    return sqlglot.parse_one(text, dialect="spark")


def query(
    pattern: EventPattern,
    *conditions: Scalar,
    same: tuple[str, ...] = (),
    strategy: Strategy | None = None,
    within: int | None = None,
    returns: tuple[Scalar, ...] | None = None,
) -> EventQuery:
    return EventQuery(
        pattern,
        conditions,
        tuple(SameAttribute((name,)) for name in same),
        strategy,
        None if within is None else Duration(within, None),
        None if returns is None else tuple(ReturnItem(item, f"r{n}") for n, item in enumerate(returns)),
    )


# ---- text -----------------------------------------------------------------------------------------


def render(query: EventQuery, *, sase: bool = False) -> str:
    """The query in the concrete syntax. sase: SEQ(…), ~ and U wherever they can say it, ZStream's signs otherwise."""
    conditions = [] if query.strategy is None else [query.strategy.value]
    conditions += [f"[{'.'.join(same.path)}]" for same in query.same]
    conditions += [condition.original for condition in query.conditions]
    clauses = [
        f"PATTERN {_pattern(query.pattern, SEQUENCE, sase=sase, inside=False)}",
        f"WHERE {' AND '.join(conditions)}" if conditions else "",
        f"WITHIN {query.within.amount}" if query.within else "",
    ]
    if query.returns is not None:
        clauses.append(f"RETURN {', '.join(f'{item.expression.original} AS {item.name}' for item in query.returns)}")
    return " ".join(clause for clause in clauses if clause)


SEQUENCE, EITHER, BOTH, UNARY, PRIMARY = range(5)  # how tightly a text binds


def _pattern(pattern: EventPattern, binds: int, *, sase: bool, inside: bool) -> str:
    """The pattern where something that binds at least so tightly must stand; inside: somewhere in a SEQ."""

    def text(part: EventPattern, binds: int, inside: bool = inside) -> str:
        return _pattern(part, binds, sase=sase, inside=inside)

    match pattern:
        case EventClass(name, variable):
            written, bound = (name, PRIMARY) if variable == name else (f"{name} {variable}", UNARY)
        case Sequence(parts) if _wants_seq(pattern, sase, inside):
            written, bound = f"SEQ({', '.join(text(part, EITHER, True) for part in parts)})", PRIMARY
        case Sequence(parts):
            written, bound = "; ".join(text(part, EITHER) for part in parts), SEQUENCE
        case Disjunction(parts):
            written, bound = text(parts[0], BOTH), EITHER
            for part in parts[1:]:
                following = text(part, BOTH)
                written += f" U {following}" if sase and following.startswith(("SEQ(", "(")) else f" | {following}"
        case Conjunction(parts):
            written, bound = " & ".join(text(part, UNARY) for part in parts), BOTH
        case Negation(part):
            written, bound = f"{'~' if sase else '!'}{text(part, UNARY)}", UNARY
        case Closure(EventClass(name, variable)):
            bracket = "[]" if sase else ""
            written, bound = name + _sign(pattern) + ("" if variable == name else f" {variable}{bracket}"), UNARY
        case Closure(part):
            written, bound = text(part, PRIMARY) + _sign(pattern), UNARY
    return written if bound >= binds else f"({written})"


def _wants_seq(pattern: Sequence, sase: bool, inside: bool) -> bool:
    """Closures in SASE's meaning must stand in a SEQ, closures in ZStream's meaning must not."""
    meanings = {part.groups for part in _descendants(pattern) if isinstance(part, Closure)}
    return True not in meanings and (sase or (False in meanings and not inside))


def _descendants(pattern: EventPattern) -> list[EventPattern]:
    return [pattern, *(inner for part in children(pattern) for inner in _descendants(part))]


def _sign(closure: Closure) -> str:
    return f"^{closure.count}" if closure.count is not None else "+" if closure.minimum else "*"


def atom_text(atom: EventAtom) -> str:
    match atom:
        case EventColumn(variable, index, number, path):
            return f"{variable}{_bracket(index, number)}.{'.'.join(path)}"
        case WholeEvent(variable, index, number):
            return f"{variable}{_bracket(index, number)}"
        case EventAggregate(function, variable, reach, arguments):
            bracket = {Reach.ALL: "[]", Reach.BEFORE: "[..i-1]", Reach.CURRENT: "[..i]"}[reach]
            written = []
            for argument in arguments:
                text = argument.text
                for name, inner in argument.atoms:
                    assert isinstance(inner, EventColumn)
                    text = text.replace(name, f"{variable}{bracket}.{'.'.join(inner.path)}")
                written.append(text)
            return f"{function}({', '.join(written) or variable + bracket})"


def _bracket(index: Index, number: int) -> str:
    signs = {Index.PLAIN: "", Index.EACH: "[i]", Index.LAST: "[last]", Index.ALL: "[]"}
    if index is Index.BACK:
        return f"[i-{number}]"
    return f"[{number}]" if index is Index.AT else signs[index]
