"""Predicate classes of Kleene closures (SASE++, section 5.2).

A condition on a closure compares an event, or single events, with the events S that the closure has selected. What is
known from S about all subsets of S decides when it can be tested:

* true-value consistent: if it holds for S, it holds for every non-empty subset of S,
* false-value consistent: if it does not hold for S, it holds for no subset,
* both: it does not depend on S,
* inconsistent: neither.

The class follows from the trends of the two sides of a comparison (`trends`). Any condition that is not known is taken
for inconsistent, which is always right. The empty set of `b[..i-1]` is an exception: the first events need not satisfy
the condition (`exempt`).

Null does not hold: `b[i].x > max(b[..i-1].x)` may hold for 3 and null, and does not for null alone. NaN is greater than
all numbers, and so is `a.x - NaN`. If only such values are in the way, `known` and `finite` list the values that must
not be null, or must be finite, for the class to be right; local conditions may prove that a value is never null.
See decision 96.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from episode.lang.events.syntax import EventColumn, Index, Reach
from episode.plan.events.conditions import Conjunct, all_atoms
from episode.plan.events.trends import CONSTANT, ColumnFacts, Trend, facts_of, together, trend_of, without_casts
from episode.plan.expressions import (
    COMPARISONS,
    FLIPPED,
    NEGATED,
    Apply,
    Constant,
    Current,
    Expression,
    Load,
    Navigated,
    Running,
    is_operation,
    render,
)

CLASS_NAMES = {
    (True, True): "true- and false-value consistent",
    (True, False): "true-value consistent",
    (False, True): "false-value consistent",
    (False, False): "inconsistent",
}
"""Names of classes, by (true-, false-value consistent)."""


@dataclass(frozen=True)
class Consistency:
    """The class of a condition, right for events whose `known` are not null and whose `finite` are neither null, NaN
    nor infinite (expressions of one row); otherwise take it for inconsistent. exempt: the number of first events of the
    closure that need not satisfy it."""

    true: bool
    false: bool
    known: frozenset[Expression] = frozenset()
    finite: frozenset[Expression] = frozenset()
    exempt: int = 0

    @property
    def name(self) -> str:
        return CLASS_NAMES[self.true, self.false]


@dataclass(frozen=True)
class ClosurePredicate:
    """A conjunct of WHERE that concerns closures, and its class. expression: None where Spark evaluates it.
    iterated, whole: as in Conjunct."""

    text: str
    variables: frozenset[str]
    iterated: str | None
    whole: frozenset[str]
    expression: Expression | None
    consistency: Consistency

    def consequence(self, bounded: bool) -> str:
        """The consequence of the class if every choice of events is a match. Candidates: all events that a closure may
        choose from; a condition on b[i] is tested against those before it. bounded: bounds decide it (see `bounds`);
        without them the class alone saves no test."""
        one = self.consistency
        of_each = self.iterated is not None
        if one.true and one.false:
            return "decides each event at once: SAFE or discarded" if of_each else "decided once for every choice"
        otherwise = "else tested for each choice"
        if not bounded:
            return "postponed: tested for each choice"
        if one.true:
            return f"SAFE where it holds for all candidates, {otherwise}"
        if one.false and of_each and one.exempt:
            first = "first" if one.exempt == 1 else f"one of the first {one.exempt}"
            return f"an event for which it fails with all candidates can only be the {first} of a choice, {otherwise}"
        if one.false:
            return f"discards at once where it fails for all candidates, {otherwise}"
        return f"postponed: decided by the bounds of the candidates, {otherwise}"


def closure_predicate(
    conjunct: Conjunct,
    expression: Expression | None,
    closures: frozenset[str],
    local: Mapping[str, Iterable[Expression]],
) -> ClosurePredicate:
    """A conjunct with its class. expression: compiled with the iterated event as the current row; None: by Spark.

    local: what every event of a variable satisfies."""
    if expression is None:
        alone = all(  # no other event of a closure is in it
            atom.variable not in closures or (isinstance(atom, EventColumn) and atom.index in (Index.PLAIN, Index.EACH))
            for atom in all_atoms(conjunct.scalar)
        )
        consistency = Consistency(alone, alone)
    else:
        facts = {name: facts_of(local.get(name, ())) for name in closures}
        consistency = classify(expression, closures, facts)
    if conjunct.iterated is not None:
        consistency = replace(consistency, exempt=conjunct.back)
    return ClosurePredicate(
        conjunct.text, conjunct.variables, conjunct.iterated, conjunct.whole & closures, expression, consistency
    )


# ---- classes ----------------------------------------------------------------------------------------------------


def classify(
    expression: Expression, closures: frozenset[str], facts: Mapping[str, ColumnFacts], negated: bool = False
) -> Consistency:
    """The class of a condition, or of its negation, whose current row, if any, is the current event."""
    if isinstance(expression, Apply):
        operation, operands = expression.operation, expression.operands
        if operation == "not":
            return classify(operands[0], closures, facts, not negated)
        if operation in ("and", "or"):  # NOT turns one into the other, and its parts; what each is does not change
            parts = [classify(operand, closures, facts, negated) for operand in operands]
            true, false = all(part.true for part in parts), all(part.false for part in parts)
            if not (true or false):
                return Consistency(False, False)
            known = frozenset[Expression]().union(*(part.known for part in parts)) if true else frozenset()
            return Consistency(true, false, known, frozenset[Expression]().union(*(part.finite for part in parts)))
        if operation in COMPARISONS:
            operation = NEGATED[operation] if negated else operation
            apart = _class_of_count(operation, operands, closures) or _class_of_own_extreme(operation, operands)
            if apart is not None:
                return apart
            left, right = (trend_of(operand, closures, facts) for operand in operands)
            return _class_of_comparison(operation, left, right)
        if operation == "is_null":
            trend = trend_of(operands[0], closures, facts)
            if negated:
                return _consistency(trend.stays_known, trend.stays_null, trend)
            return _consistency(
                trend.stays_null, trend.stays_known and not trend.known, replace(trend, known=frozenset())
            )
    trend = trend_of(expression, closures, facts)
    return _class_of_comparison("lt" if negated else "ge", trend, CONSTANT)


def _class_of_comparison(operation: str, left: Trend, right: Trend) -> Consistency:
    """Return the class by the trends of the two sides: whether a subset of the events can only make the comparison
    true, or only false."""
    if operation in ("eq", "ne"):
        constant = left == right == CONSTANT
        return Consistency(constant, constant)
    if operation in ("lt", "le"):  # the right side makes it true by being greater
        left, right = right, left
    pair = together(left, right)
    return _consistency(
        left.falls and right.grows and pair.stays_known, left.grows and right.falls and pair.stays_null, pair
    )


def _consistency(true: bool, false: bool, trend: Trend) -> Consistency:
    none = frozenset[Expression]()
    return Consistency(true, false, trend.known if true else none, trend.finite if true or false else none)


def _class_of_count(operation: str, operands: tuple[Expression, ...], closures: frozenset[str]) -> Consistency | None:
    """`count(b[]) op n`: there is at least one event, so that some comparisons are always or never true."""
    compared = compared_count(operation, operands)
    if compared is None:
        return None
    operation, labels, number = compared
    if labels is None or not labels <= closures or len(labels) != 1:
        return None
    always = {"gt": number < 1, "ge": number <= 1, "ne": number < 1}.get(operation, False)
    never = {"lt": number <= 1, "le": number < 1, "eq": number < 1}.get(operation, False)
    if always or never:
        return Consistency(True, True)
    if number == 1 and operation in ("eq", "ne"):
        return Consistency(operation == "eq", operation == "ne")
    return Consistency(operation in ("lt", "le"), operation in ("gt", "ge"))


def compared_count(operation: str, operands: tuple[Expression, ...]) -> tuple[str, frozenset[str] | None, int] | None:
    """Read a comparison as `count(b[]) op n`: the operation, the labels that are counted, the number."""
    left, right = (without_casts(operand) for operand in operands)
    if isinstance(left, Constant):
        left, right, operation = right, left, FLIPPED[operation]
    if not (isinstance(left, Running) and left.function == "count" and left.argument is None):
        return None
    if not (isinstance(right, Constant) and isinstance(right.value, int) and not isinstance(right.value, bool)):
        return None
    return operation, left.labels, right.value


OWN_EXTREME = {
    "max": {"le": (True, True), "gt": (True, True), "ge": (True, False), "eq": (True, False), "lt": (False, True),
            "ne": (False, True)},
    "min": {"ge": (True, True), "lt": (True, True), "le": (True, False), "eq": (True, False), "gt": (False, True),
            "ne": (False, True)},
}  # fmt: skip
"""`b[i].x op max(b[..i].x)`: (true-, false-value consistent). The event is itself one of those compared with."""


def _class_of_own_extreme(operation: str, operands: tuple[Expression, ...]) -> Consistency | None:
    left, right = (without_casts(operand) for operand in operands)
    if isinstance(left, Running):
        left, right, operation = right, left, FLIPPED[operation]
    if not (isinstance(left, Load) and left.at == Current(0) and isinstance(right, Running)):
        return None
    if right.function not in OWN_EXTREME or right.reach != Reach.CURRENT.value or right.argument is None:
        return None
    if without_casts(right.argument) != left:
        return None
    return Consistency(*OWN_EXTREME[right.function][operation])


# ---- forms that help -------------------------------------------------------------------------------------------

RECORDS = {("gt", "max"), ("ge", "max"), ("lt", "min"), ("le", "min")}


def adjacent_form(expression: Expression) -> Expression | None:
    """Rewrite `b[i].x > max(b[..i-1].x)` as `b[i].x > b[i-1].x`, which is equivalent for a whole closure by induction;
    also with >=, and min with < and <=. None for other conditions. The current row is the event b[i]."""
    if not is_operation(expression, *COMPARISONS):
        return None
    left, right, operation = *expression.operands, expression.operation
    if isinstance(left, Running):
        left, right, operation = right, left, FLIPPED[operation]
    if not isinstance(right, Running) or (operation, right.function) not in RECORDS:
        return None
    if right.reach != "before" or right.labels is None or len(right.labels) != 1 or left != right.argument:
        return None
    before = _at_row(left, Navigated(right.labels, False, 1, 0))
    return None if before is None else Apply(operation, (left, before), "boolean")


def _at_row(expression: Expression, to: Navigated) -> Expression | None:
    """An expression of the current row, of another row; None where the current row is not all that it reads."""
    if isinstance(expression, Constant):
        return expression
    if isinstance(expression, Load):
        return replace(expression, at=to) if expression.at == Current(0) and expression.missing is None else None
    if isinstance(expression, Apply):
        moved = [_at_row(operand, to) for operand in expression.operands]
        found = [part for part in moved if part is not None]
        return replace(expression, operands=tuple(found)) if len(found) == len(moved) else None
    return None


def predicate_text(predicate: ClosurePredicate, bounded: bool | None) -> str:
    """Return a predicate, its class and the consequence, in one line of `explain`. bounded: by bounds that decide it;
    None: without the consequence."""
    one = predicate.consistency
    known = ", ".join(sorted(render(value) for value in one.known - one.finite))
    finite = ", ".join(sorted(render(value) for value in one.finite))
    limits = [*([f"{known} is null"] if known else []), *([f"{finite} is null or not finite"] if finite else [])]
    where = f" unless {' or '.join(limits)}" if limits else ""
    return f"{predicate.text}: {one.name}{where}" + ("" if bounded is None else f"; {predicate.consequence(bounded)}")
