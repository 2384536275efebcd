"""The kernel's form of bounds: what they are about, and the arrays of what they know of an intermediate match."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from episode.kernels.events import bounds as kernel
from episode.matchers import opcodes as oc
from episode.matchers.events.prepare import EventArrays
from episode.matchers.events.runs import ragged
from episode.matchers.lowering import COMPARE, is_float_lane
from episode.matchers.prepare import function_code
from episode.plan.events.bounds import Bound, Bounds, Comparison, Fixed, Term
from episode.plan.events.plan import EventPlan
from episode.plan.events.postponed import Construction
from episode.plan.expressions import Current, Load, Navigated, Running, walk

KNOWN = frozenset({oc.SUM, oc.COUNT, oc.MIN, oc.MAX, oc.AVG, oc.AVG_WHOLE})
"""Aggregates that bounds are known of."""
REACHES = {"before": kernel.ONLY_BEFORE, "current": kernel.WITH_CURRENT}


def bound_arrays(plan: EventPlan, construction: Construction, arrays: EventArrays) -> kernel.Bounds:
    """Bounds in the kernel's terms, without those about values of two words, of which nothing is known."""
    bit = {name: number for number, name in enumerate(plan.variables)}
    fixed = construction.bounds.fixed
    number_of_fixed = {part: number for number, part in enumerate(fixed)}
    bounds = [bound for bound in construction.bounds.all if _is_known(bound)]
    terms: dict[Term, int] = {}

    def number(part: Term | Fixed) -> int:
        if isinstance(part, Term):
            return terms.setdefault(part, len(terms))
        return -1 - number_of_fixed[part]

    comparisons: list[Comparison] = []
    compared: list[tuple[int, ...]] = []
    branch = 0
    for bound in bounds:
        for one in bound.branches:
            comparisons += one.comparisons
            compared += [(COMPARE[comparison.operation], branch, one.whole) for comparison in one.comparisons]
            branch += 1
    sides = [side for comparison in comparisons for side in (comparison.left, comparison.right)]
    part_from, parts = ragged([[number(part.of) for part in side.parts] for side in sides])
    tables = kernel.Tables(
        compare_from=_from([len(bound.comparisons) for bound in bounds]),
        compared=_table(compared, 3),
        part_from=part_from,
        part=parts,
        factor=np.array([part.factor for side in sides for part in side.parts], np.float64),
        sides=np.array([(side.computed, side.limit) for side in sides], np.float64).reshape(-1, 2),
        term=_table([_term(term, bit, arrays) for term in terms], 6),
    )
    need_from, need = ragged([[bit[name] for name in sorted(bound.needs)] for bound in bounds])
    whole = [[at for at, one in enumerate(bounds) if one.variable == name and not one.each] for name in plan.variables]
    by_from, by_variable = ragged(whole)
    check_from, check_bound, check_mask = _checks(construction.bounds, bounds)
    navigations = arrays.assembler.navigations
    navs = [sorted({node.at for node in walk(part.expression) if isinstance(node, Load)}, key=repr) for part in fixed]
    nav_from, nav_ids = ragged([[navigations.number(at) for at in places] for places in navs])
    return kernel.Bounds(
        tables=tables,
        bound=_table([(bit[bound.variable], bound.each, bound.back) for bound in bounds], 3),
        need_from=need_from, need=need, by_from=by_from, by_variable=by_variable,
        check_from=check_from, check_bound=check_bound, check_mask=check_mask,
        programs=_table([arrays.programs[part.expression] for part in fixed], 3),
        nav_from=nav_from, nav_ids=nav_ids,
        nav_variable=np.array([bit[_name(at)] for places in navs for at in places], np.int64),
    )  # fmt: skip


def levels_of(bounds: kernel.Bounds, longest: int, members: int) -> kernel.Levels:
    """What is known of an intermediate match, before it is. longest: candidates of one closure, at the most."""
    terms, programs, count = len(bounds.tables.term), len(bounds.programs), len(bounds.bound)
    marked = members if bounds.bound[:, kernel.EACH].any() else 0
    return kernel.Levels(
        known=kernel.Known(np.zeros((programs, 2)), np.zeros((terms, longest + 2, 5)), np.zeros((terms, 3))),
        rests=np.zeros(count, np.uint8),
        settled=np.zeros(count, np.int64),
        safe=np.zeros(marked, np.int64),
        doom=np.full(marked, kernel.NO_DOOM, np.int64),
    )


def _table(rows: Sequence[tuple[int, ...]], columns: int) -> np.ndarray:
    return np.array(rows, np.int64).reshape(-1, columns)


def _checks(planned: Bounds, bounds: list[Bound]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By check: the bounds on whole closures that hold where it does, and those on each event as bits."""
    numbers = {bound: number for number, bound in enumerate(bounds)}
    lists: list[list[int]] = []
    masks: list[int] = []
    for places in planned.by_check:
        mine = [numbers.get(planned.all[place], -1) for place in places]
        known = bool(mine) and -1 not in mine
        each = known and bounds[mine[0]].each
        lists.append(mine if known and not each else [])
        masks.append(sum(1 << number for number in set(mine)) if each and max(mine) < kernel.MOST_MARKS else 0)
    from_, flat = ragged(lists)
    return from_, flat, np.array(masks, np.int64)


def _from(lengths: list[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _is_known(bound: Bound) -> bool:
    terms = [part.of for part in bound.parts if isinstance(part.of, Term)]
    return all(not isinstance(term.of, Running) or function_code(term.of) in KNOWN for term in terms)


def _term(term: Term, bit: dict[str, int], arrays: EventArrays) -> tuple[int, int, int, int, int, int]:
    """(function, variable, column, validity, is float, aggregate)"""
    of = term.of
    if isinstance(of, Running):
        column, check, floating = arrays.argument(of)
        number = list(arrays.assembler.runnings).index(of) if of.reach == "all" else REACHES[of.reach]
        return function_code(of), bit[term.variable], column, check, floating, number
    if isinstance(of.at, Navigated):
        function = kernel.FIRST if of.at.first else kernel.LAST if of.at.offset == 0 else kernel.BEFORE
    else:
        assert of.at == Current(0)
        function = kernel.OWN
    floating = int(is_float_lane(of.type))
    return function, bit[term.variable], arrays.lanes.at[of.column], arrays.lanes.valid_at[of.column], floating, -1


def _name(at: object) -> str:
    assert isinstance(at, Navigated)
    assert at.labels is not None
    return next(iter(at.labels))
