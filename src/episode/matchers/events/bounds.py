"""Bounds of a construction as they are compiled in, for one batch."""

from __future__ import annotations

import numpy as np

from episode.kernels import opcodes as oc
from episode.matchers.events.code.bound_terms import BEFORE, FIRST, LAST, OWN, TermShape
from episode.matchers.events.code.bounds import MOST_MARKS, BoundShape, BoundsShape, SideShape
from episode.matchers.events.code.checks import Taking
from episode.matchers.events.prepare import EventArrays
from episode.matchers.lowering import is_float_lane
from episode.matchers.prepare import function_code
from episode.plan.events.bounds import Bound, Side, Term
from episode.plan.events.plan import EventPlan
from episode.plan.events.postponed import Construction
from episode.plan.expressions import Current, Navigated, Running

KNOWN = frozenset({oc.SUM, oc.COUNT, oc.MIN, oc.MAX, oc.AVG, oc.AVG_WHOLE})
"""Aggregates that bounds are known of."""


def bounds_shape(
    plan: EventPlan, construction: Construction, arrays: EventArrays, taking: Taking
) -> tuple[BoundsShape, np.ndarray]:
    """The bounds, without those about values of two words, of which nothing is known; factors of their parts."""
    bit = {name: number for number, name in enumerate(plan.variables)}
    bounds = [bound for bound in construction.bounds.all if _is_known(bound)]
    fixed = {part: number for number, part in enumerate(construction.bounds.fixed)}
    terms: dict[Term, int] = {}
    factors: list[float] = []

    def side_of(side: Side) -> SideShape:
        first = len(factors)
        factors.extend(part.factor for part in side.parts)
        parts = tuple(
            terms.setdefault(part.of, len(terms)) if isinstance(part.of, Term) else -1 - fixed[part.of]
            for part in side.parts
        )
        return SideShape(parts, first, side.computed, side.limit)

    shapes = tuple(
        BoundShape(
            bit[bound.variable],
            bound.each,
            bound.back,
            tuple(sorted(bit[name] for name in bound.needs)),
            tuple(
                (one.whole, tuple((two.operation, side_of(two.left), side_of(two.right)) for two in one.comparisons))
                for one in bound.branches
            ),
        )
        for bound in bounds
    )
    places = tuple(tuple((bit[name], needed) for name, needed in one) for one in construction.places)
    shape = BoundsShape(
        tuple(_term(term, bit, arrays, taking) for term in terms),
        shapes,
        tuple(part.expression for part in construction.bounds.fixed),
        _by_check(construction, bounds),
        places,
        len(plan.variables),
    )
    return shape, np.array(factors, np.float64)


def _is_known(bound: Bound) -> bool:
    terms = [part.of for part in bound.parts if isinstance(part.of, Term)]
    return all(not isinstance(term.of, Running) or function_code(term.of) in KNOWN for term in terms)


def _by_check(construction: Construction, bounds: list[Bound]) -> tuple[tuple[tuple[int, ...], int], ...]:
    """By check: the bounds on whole closures that hold where it does, and those on each event as bits."""
    numbers = {bound: number for number, bound in enumerate(bounds)}
    out = []
    for places in construction.bounds.by_check:
        mine = [numbers.get(construction.bounds.all[place], -1) for place in places]
        known = bool(mine) and -1 not in mine
        each = known and bounds[mine[0]].each
        mask = sum(1 << number for number in set(mine)) if each and max(mine) < MOST_MARKS else 0
        out.append((tuple(mine) if known and not each else (), mask))
    return tuple(out)


def _term(term: Term, bit: dict[str, int], arrays: EventArrays, taking: Taking) -> TermShape:
    of = term.of
    if isinstance(of, Running):
        row, check, is_float = arrays.argument(of)
        number = taking.runnings.index(of) if of.reach == "all" else -1
        reach = "" if of.reach == "all" else of.reach
        return TermShape(function_code(of), bit[term.variable], (bool(is_float), row, check), number, reach)
    if isinstance(of.at, Navigated):
        function = FIRST if of.at.first else LAST if of.at.offset == 0 else BEFORE
    else:
        assert of.at == Current(0)
        function = OWN
    column = (is_float_lane(of.type), arrays.lanes.at[of.column], arrays.lanes.valid_at[of.column])
    return TermShape(function, bit[term.variable], column)
