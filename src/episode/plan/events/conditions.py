"""WHERE of an event pattern: each conjunct compiled, with the variables that it relates, and what it makes equal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.events.syntax import EventAggregate, EventAtom, EventColumn, Index, Reach, Strategy, WholeEvent
from episode.lang.syntax import ColumnRef, Scalar
from episode.lang.trees import exp
from episode.plan.compilable import Mistake, NativeCompiler, NotCompilable
from episode.plan.events.alternatives import always
from episode.plan.events.classes import EventClasses
from episode.plan.expressions import (
    Apply,
    Constant,
    Current,
    Exists,
    Expression,
    Load,
    Navigated,
    RowRef,
    Running,
    conjuncts,
    walk,
    with_operands,
)
from episode.plan.measures import running_aggregate
from episode.plan.places import is_placeholder, place_of, placeholders_in
from episode.plan.scalars import ACROSS_ROWS, RowLocalScalars
from episode.plan.types import lane_of

if TYPE_CHECKING:
    from episode.plan.events.binding import BoundEventQuery


# Columns that are equal in all events of a match, by [attribute] or by conditions.


def same_attributes(bound: BoundEventQuery, conjuncts: list[Conjunct], local: dict[str, list[Expression]]) -> list[str]:
    """Columns equal in all events: partition keys, or what strict contiguity has to test event by event."""
    columns = _bracket_columns(bound)
    equal = _equal_everywhere(bound, conjuncts) if bound.strategy in (Strategy.ANY, Strategy.NEXT) else []
    columns += equal
    certain = always(bound.query.pattern)
    if bound.strategy is Strategy.PARTITION and not columns and not bound.keys:
        message = "partition-contiguity needs to know the partition."
        hint = "Add [attribute] to WHERE, or give key=."
        raise bound.query.source.error(EpisodeAnalysisError, message, bound.query.strategy_span, hint)
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


def _bracket_columns(bound: BoundEventQuery) -> list[str]:
    """The columns of [attribute]."""
    columns = []
    for attribute in bound.query.same:
        if attribute.path[0] in bound.variables and bound.schema.find(attribute.path[0]) is None:
            message = f"[{'.'.join(attribute.path)}] names an event; brackets take an attribute of all events."
            hint = f"Write [{'.'.join(attribute.path[1:]) or 'attribute'}]."
            raise bound.query.source.error(EpisodeAnalysisError, message, attribute.span, hint)
        names = {
            bound.plain_column(bound.classes.column(name, attribute.path, attribute.span)) for name in bound.variables
        }
        if len(names) > 1:
            message = f"[{'.'.join(attribute.path)}] is of different types in the tables."
            hint = "Cast it to one type in the tables."
            raise bound.query.source.error(EpisodeUnsupportedError, message, attribute.span, hint)
        column = names.pop()
        if lane_of(bound.type_of(column)) is None:
            message = f"{'.'.join(attribute.path)} is of type {bound.type_of(column)}: not compared across events."
            hint = "Use an attribute of an atomic type."
            raise bound.query.source.error(EpisodeUnsupportedError, message, attribute.span, hint)
        columns.append(column)
    return columns


def _equal_everywhere(bound: BoundEventQuery, conjuncts: list[Conjunct]) -> list[str]:
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
        if _are_connected(bound, [(one, other) for _, one, other in links]):
            found.append(column)
            for conjunct, _, _ in links:
                conjuncts.remove(conjunct)
            bound.notes.append(f"{column} is equal in all events: a partition key")
    return found


def _are_connected(bound: BoundEventQuery, links: list[tuple[str, str]]) -> bool:
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


ITERATED = (Index.EACH, Index.BACK)


@dataclass(frozen=True)
class Conjunct:
    """One conjunct of WHERE.

    variables: all that it mentions. iterated: the closure variable whose events it is demanded of, one by one; nothing
    is demanded of the first `back` of them. whole: closure variables of which it needs other events than that one.
    numbered: those of them that it reads by number alone, b[1] or b[k], with the greatest number: such a condition is
    known as soon as the closure has that many events, the others when it has all.
    """

    scalar: Scalar
    variables: frozenset[str]
    iterated: str | None
    back: int
    whole: frozenset[str]
    numbered: tuple[tuple[str, int], ...] = ()

    @property
    def text(self) -> str:
        return self.scalar.original


def conjunct_of(scalar: Scalar, closures: frozenset[str]) -> Conjunct:
    """Analyse a conjunct: the variables and events that it relates. closures: variables of closures."""
    variables: set[str] = set()
    complete: set[str] = set()
    numbered: dict[str, int] = {}
    iterated: str | None = None
    back = 0
    for atom in all_atoms(scalar):
        variables.add(atom.variable)
        if isinstance(atom, EventAggregate):
            if atom.reach is Reach.ALL:
                if atom.variable in closures:
                    complete.add(atom.variable)
            else:
                iterated = atom.variable
                if atom.reach is Reach.BEFORE:
                    back = max(back, 1)
        elif isinstance(atom, EventColumn):
            if atom.index in ITERATED or (atom.index is Index.PLAIN and atom.variable in closures):
                iterated = atom.variable
                if atom.index is Index.BACK:
                    back = max(back, atom.number)
            elif atom.variable in closures and atom.index is Index.AT:
                numbered[atom.variable] = max(atom.number, numbered.get(atom.variable, 0))
            elif atom.variable in closures:
                complete.add(atom.variable)
    by_number = tuple((name, number) for name, number in numbered.items() if name not in complete)
    return Conjunct(scalar, frozenset(variables), iterated, back, frozenset(complete | numbered.keys()), by_number)


def is_per_event(conjunct: Conjunct) -> bool:
    """Is it about each event of a closure by itself, without the ones before it?"""
    return conjunct.back == 0 and all(getattr(atom, "reach", None) is None for _, atom in conjunct.scalar.atoms)


@dataclass(frozen=True)
class JoinTest:
    """A condition on events of several variables."""

    expression: Expression
    variables: frozenset[str]
    text: str


def split_tests(expression: Expression, text: str) -> list[JoinTest]:
    """The parts of a condition, if each is about the same events as the whole: absent events lift all of it."""
    variables = event_variables(expression)
    parts = conjuncts(expression)
    if any(event_variables(part) != variables for part in parts):
        parts = [expression]
    return [JoinTest(part, variables, text) for part in parts]


def event_variables(expression: Expression) -> frozenset[str]:
    found: set[str] = set()
    for node in walk(expression):
        if isinstance(node, Load) and isinstance(node.at, Navigated) and node.at.labels is not None:
            found |= node.at.labels
    return frozenset(found)


def all_atoms(scalar: Scalar) -> list[EventAtom]:
    return [atom for _, atom in scalar.atoms]  # type: ignore[misc]


@dataclass
class EventScalars:
    """Compiles scalars of an event query for the machine."""

    classes: EventClasses
    rows: RowLocalScalars
    closures: frozenset[str]

    def compile(self, scalar: Scalar, current: str | None) -> Expression | None:
        """A condition; events of the variable `current` are the current row. None where only Spark can evaluate it."""
        atoms = dict(scalar.atoms)

        def place(atom: EventColumn) -> RowRef:
            if atom.variable == current and (atom.index in (Index.PLAIN, Index.EACH)):
                return Current(0)
            if atom.index is Index.BACK:
                return Navigated(frozenset((atom.variable,)), False, atom.number, 0)
            if atom.index is Index.AT:
                return Navigated(frozenset((atom.variable,)), True, atom.number - 1, 0)
            return Navigated(frozenset((atom.variable,)), False, 0, 0)

        def resolve(name: str) -> Expression:
            atom = atoms[name]
            if isinstance(atom, EventColumn):
                return self.rows.load(self.column(atom), place(atom))
            if isinstance(atom, EventAggregate):
                return self._aggregate(atom, current)
            assert isinstance(atom, WholeEvent)
            message = f"The whole event {atom.variable} cannot be compared."
            hint = f"Compare its attributes: {atom.variable}.x."
            raise self.rows.source.error(EpisodeUnsupportedError, message, atom.span, hint)

        def fallback(node: exp.Expression) -> Expression | None:
            names = placeholders_in(node)
            if is_placeholder(node) or any(not isinstance(atoms[name], EventColumn) for name in names):
                return None
            places = {place(atoms[name]) for name in names}  # type: ignore[arg-type]
            if len(places) > 1:
                return None
            references = {name: self.column(atoms[name]) for name in names}  # type: ignore[arg-type]
            return self.rows.spark_load(node, references, places.pop() if places else Current(0), scalar)

        compiler = NativeCompiler(resolve, fallback, self.rows.schema.utc, arguments=self.rows.schema.arguments)
        try:
            expression = self.rows.not_too_deep(compiler.compile(scalar.tree), scalar)
        except Mistake as error:
            raise self.rows.mistaken(error, scalar) from None
        except NotCompilable:
            return None
        expression = self.rows.as_condition(expression, scalar.span, hint="Compare it with something: a.x > 0.")
        if any(not isinstance(node, (Load, Constant, Apply, Running, Exists)) for node in walk(expression)):
            return None
        return _without_stand_ins(expression)

    def not_evaluated(self, scalar: Scalar) -> EpisodeUnsupportedError:
        """A conjunct that only Spark could evaluate, where matching depends on it."""
        span = place_of(scalar.tree, scalar, self.rows.source)
        message = "This condition relates several events in a way that is not evaluated while matching."
        return self.rows.source.error(EpisodeUnsupportedError, message, span, ACROSS_ROWS)

    def column(self, atom: EventColumn) -> ColumnRef:
        """The column of the input after an attribute of a variable."""
        return self.classes.column(atom.variable, atom.path, atom.span)

    def argument(self, scalar: Scalar) -> Expression:
        """An aggregate's argument: a value of one event."""
        return self._at(scalar, Current(0))

    def _at(self, scalar: Scalar, at: RowRef) -> Expression:
        atoms = tuple((name, self.column(atom)) for name, atom in scalar.atoms if isinstance(atom, EventColumn))
        return self.rows.compile(replace(scalar, atoms=atoms), at)

    def _aggregate(self, atom: EventAggregate, current: str | None) -> Expression:
        members = frozenset((atom.variable,))
        if not atom.arguments:
            return _reaching(Running("count", members, None, "bigint"), atom.reach)
        if atom.function in ("first_value", "last_value"):
            first = atom.function == "first_value"
            offset = 1 if not first and atom.reach is Reach.BEFORE else 0
            at: RowRef = Navigated(members, first, offset, 0)
            if not first and atom.reach is Reach.CURRENT and atom.variable == current:
                at = Current(0)  # last(b[..i].x) is b[i].x
            return self._at(atom.arguments[0], at)
        if atom.function in ("collect_list", "collect_set", "max_by", "min_by"):
            raise NotCompilable(exp.Null(), f"{atom.function} is evaluated on finished matches only")
        value = running_aggregate(self.rows.source, atom.function, members, self.argument(atom.arguments[0]), atom.span)
        return _reaching(value, atom.reach)


def _reaching(expression: Expression, reach: Reach) -> Expression:
    """The expression with its aggregates over part of the closure."""
    if isinstance(expression, Running):
        return replace(expression, reach=reach.value)
    return with_operands(expression, lambda operand: _reaching(operand, reach))


def _without_stand_ins(expression: Expression) -> Expression:
    """Remove the values that replace those of absent events: conditions on absent events do not apply."""
    if isinstance(expression, Load):
        single = isinstance(expression.at, Navigated) and not expression.at.first and expression.at.offset == 0
        return replace(expression, missing=None) if single else expression
    return with_operands(expression, _without_stand_ins)


def same_column(conjunct: Conjunct) -> tuple[EventColumn, EventColumn] | None:
    """`a.x = b.x`: two variables, one column."""
    tree = conjunct.scalar.tree
    if not isinstance(tree, exp.EQ) or len(conjunct.scalar.atoms) != 2:
        return None
    if not (is_placeholder(tree.this) and is_placeholder(tree.expression)):
        return None
    left, right = all_atoms(conjunct.scalar)
    if not (isinstance(left, EventColumn) and isinstance(right, EventColumn)) or left.variable == right.variable:
        return None
    plain = (Index.PLAIN, Index.EACH)
    if left.index not in plain or right.index not in plain or len(left.path) != 1 or len(right.path) != 1:
        return None
    return (left, right) if left.path[0].lower() == right.path[0].lower() else None
