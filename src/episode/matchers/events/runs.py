"""The automaton's arrays for one batch."""

from __future__ import annotations

import numpy as np

from episode.kernels.events import checks as kernel
from episode.matchers.events.comparisons import comparison_of
from episode.matchers.events.prepare import EventArrays
from episode.matchers.prepare import function_code
from episode.plan.events.automaton import FIRST, LAST, MIDDLE, AutomatonPlan
from episode.plan.events.plan import EventPlan
from episode.plan.expressions import Exists, Load, Navigated, walk

PLACES = {MIDDLE: kernel.MIDDLE, FIRST: kernel.FIRST, LAST: kernel.LAST}
REACHES = {"all": kernel.ALL, "before": kernel.BEFORE, "current": kernel.CURRENT}
START = -1
"""Stands for the variable of the event that a match starts with."""


def automaton_arrays(plan: EventPlan, automaton: AutomatonPlan, arrays: EventArrays) -> kernel.Automaton:
    """automaton: the plan's own, or that of its construction."""
    assert arrays.code is not None
    bit = {name: number for number, name in enumerate(plan.variables)}
    navigations = arrays.assembler.navigations
    tests: list[tuple[int, ...]] = []
    programs: list[tuple[int, int, int]] = []
    nav_lists: list[list[int]] = []
    test_of, program_of = [], []
    for check in automaton.checks:
        comparison = comparison_of(check.expression)
        if comparison is None:
            test_of.append(-1)
            program_of.append(len(programs))
            programs.append(arrays.programs[check.expression])
            places = {node.at for node in walk(check.expression) if isinstance(node, (Load, Exists))}
            nav_lists.append([navigations.number(at) for at in places if isinstance(at, Navigated)])
            continue
        sides = []
        for side in (comparison.left, comparison.right):
            sides += [*arrays.operand(side.expression), -1 if side.at is None else navigations.number(side.at)]
        test_of.append(len(tests))
        program_of.append(-1)
        tests.append((comparison.compare, int(comparison.floating), *sides))
    program_columns = np.array(programs, np.int64).reshape(-1, 3).T.copy()
    nav_from, nav_ids = ragged(nav_lists)
    navs = [nav for nav in navigations.numbers if isinstance(nav, Navigated)]
    assert len(navs) == len(navigations.numbers)
    runnings = list(arrays.assembler.runnings)
    arguments = [arrays.argument(running) for running in runnings]
    code, ints, floats = arrays.code
    return kernel.Automaton(
        **_states(automaton, bit),
        kind=np.array([kernel.EACH if check.each else kernel.ONCE for check in automaton.checks], np.int64),
        loop_variable=np.array([-1 if check.loop is None else bit[check.loop] for check in automaton.checks], np.int64),
        back=np.array([check.back for check in automaton.checks], np.int64),
        test=np.array(test_of, np.int64),
        program=np.array(program_of, np.int64),
        tests=np.array(tests, np.int64).reshape(-1, 8),
        program_from=program_columns[0], program_to=program_columns[1], program_result=program_columns[2],
        nav_from=nav_from, nav_ids=nav_ids,
        navs=np.array([(_variable(nav, bit), nav.first, nav.offset) for nav in navs], np.int64).reshape(-1, 3),
        code=code, registers=arrays.assembler.registers, const_i=ints, const_f=floats,
        agg_function=np.array([function_code(running) for running in runnings], np.int64),
        agg_variable=np.array([_only(running.labels, bit) for running in runnings], np.int64),
        agg_column=np.array([argument[0] for argument in arguments], np.int64),
        agg_valid=np.array([argument[1] for argument in arguments], np.int64),
        agg_float=np.array([argument[2] for argument in arguments], np.int64),
        agg_high=np.array([arrays.assembler.highs.get(running, -1) for running in runnings], np.int64),
        agg_reach=np.array([REACHES[running.reach] for running in runnings], np.int64),
        variables=len(plan.variables),
        repeats=automaton.repeats,
    )  # fmt: skip


def _states(automaton: AutomatonPlan, bit: dict[str, int]) -> dict[str, np.ndarray]:
    transitions = automaton.transitions
    from_ = np.searchsorted([t.source for t in transitions], np.arange(automaton.states + 1))
    masks = np.zeros(automaton.states, np.uint64)
    for transition in transitions:
        masks[transition.source] |= np.uint64(1 << bit[transition.variable])
    take_from, take_check = ragged([list(t.checks) for t in transitions])
    cross_from, crossed = ragged([[n if now else -1 - n for n, now in t.crosses] for t in transitions])
    end_from, end_check = ragged([list(checks) for checks in automaton.end_checks])
    late_from, late = ragged([list(negations) for negations in automaton.late])
    negation_from, negation_check = ragged([list(negation.checks) for negation in automaton.negations])
    return {
        "start_states": np.array(automaton.starts, np.int64),
        "from_": from_.astype(np.int64),
        "variable": np.array([bit[t.variable] for t in transitions], np.int64),
        "target": np.array([t.target for t in transitions], np.int64),
        "mask": masks,
        "accepting": np.array(automaton.accepting, np.bool_),
        "in_last_place": np.array(automaton.in_last_place, np.bool_),
        "take_from": take_from, "take_check": take_check, "end_from": end_from, "end_check": end_check,
        "cross_from": cross_from, "cross_negation": crossed, "late_from": late_from, "late_negation": late,
        "negation_bit": np.array([bit[negation.variables[0]] for negation in automaton.negations], np.int64),
        "negation_root": np.array([-1 if one.start is None else one.start for one in automaton.negations], np.int64),
        "negation_from": negation_from, "negation_check": negation_check,
        "negation_place": np.array([PLACES[negation.place] for negation in automaton.negations], np.int64),
    }  # fmt: skip


def ragged(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and values of lists."""
    offsets = np.concatenate([[0], np.cumsum([len(values) for values in lists])]).astype(np.int64)
    return offsets, np.array([value for values in lists for value in values], np.int64)


def _variable(nav: Navigated, bit: dict[str, int]) -> int:
    return START if nav.labels is None else _only(nav.labels, bit)


def _only(labels: frozenset[str] | None, bit: dict[str, int]) -> int:
    assert labels is not None
    (name,) = labels
    return bit[name]
