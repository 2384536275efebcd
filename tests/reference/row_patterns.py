"""The oracle for MATCH_RECOGNIZE: slow, obvious Python written straight from the semantics.

`evaluate(clause, rows, columns=[...])` answers what a clause means for small inputs (fewer than 20 rows). The steps:

1. cut the rows into partitions and put each in order;
2. from a start row, generate every path through the pattern, most preferred first (plain backtracking);
3. let the match mode choose among the paths, let AFTER MATCH SKIP choose the next start row;
4. print the chosen matches row by row, with the measures.

It shares nothing with the engine but the syntax tree. Where the semantics are short, the rule taken is stated at
the place; scalar expressions follow Spark.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlglot import exp

from episode.errors import EpisodeDataError
from episode.lang.syntax import (
    Aggregate,
    Alternation,
    Anchor,
    Atom,
    Classifier,
    ColumnRef,
    Concatenation,
    Empty,
    Exclusion,
    Label,
    MatchMode,
    MatchNumber,
    MatchRecognize,
    Mode,
    Navigation,
    Pattern,
    Permutation,
    Quantified,
    RowsPerMatch,
    Scalar,
    SkipTo,
)
from tests.reference import arrays

Row = dict[str, Any]


class Exploded(Exception):
    """More condition evaluations than the caller's budget: a test may discard the case, it says nothing else."""


def evaluate(clause: MatchRecognize, rows: list[Row], *, columns: list[str], budget: int | None = None) -> list[Row]:
    """The output rows of the clause, in order. `rows` come in order of arrival; null is None.

    `budget` bounds the number of condition evaluations (`Exploded` beyond it); None is no bound.
    """
    table = _Table(columns)
    _reject_null_times(clause, rows, table)
    steps = _Budget(budget)
    output: list[Row] = []
    for partition in _partitions(clause, rows, table):
        attempts = _Attempts(clause, _ordered(clause, partition, table), table, steps)
        for finding in attempts.findings():
            output.extend(_printed(finding, attempts))
    return output


# ---- tables, partitions, order --------------------------------------------------------------------


class _Table:
    """The input's columns, found by name whatever the case."""

    def __init__(self, columns: list[str]) -> None:
        self.columns = columns

    def name(self, written: str) -> str:
        if written in self.columns:
            return written
        return next(column for column in self.columns if column.lower() == written.lower())

    def has(self, written: str) -> bool:
        return any(column.lower() == written.lower() for column in self.columns)

    def own_column(self, reference: ColumnRef) -> str:
        """The column meant in PARTITION BY / ORDER BY, where the table's own name may stand before it."""
        first = reference.path[0]
        return self.name(first if self.has(first) else reference.path[1])

    def read(self, row: Row, path: tuple[str, ...]) -> Any:
        """The column, then its struct fields; a field of null is null."""
        value = row[self.name(path[0])]
        for part in path[1:]:
            value = None if value is None else value[part]
        return value


def _partitions(clause: MatchRecognize, rows: list[Row], table: _Table) -> list[list[Row]]:
    # Partitions come in order of first appearance; null keys are equal to each other, and so are NaN keys.
    keys = [table.own_column(reference) for reference in clause.partition_by]
    partitions: dict[tuple, list[Row]] = {}
    for row in rows:
        partitions.setdefault(tuple(_grouping(row[key]) for key in keys), []).append(row)
    return list(partitions.values())


def _ordered(clause: MatchRecognize, rows: list[Row], table: _Table) -> list[Row]:
    # Rows that ORDER BY leaves equal stay in order of arrival: every pass below is a stable sort.
    for item in reversed(clause.order_by):
        column = table.own_column(item.column)
        nulls = [row for row in rows if row[column] is None]
        others = [row for row in rows if row[column] is not None]
        others.sort(key=lambda row, column=column: _rank(row[column]), reverse=not item.ascending)
        rows = nulls + others if item.nulls_first else others + nulls
    return rows


def _reject_null_times(clause: MatchRecognize, rows: list[Row], table: _Table) -> None:
    # With WITHIN the first ORDER BY column is the event time, and an event without a time is rejected.
    if clause.within is None:
        return
    time = table.own_column(clause.order_by[0].column)
    if any(row[time] is None for row in rows):
        raise EpisodeDataError(f"event time {time} is null")


# ---- paths: all ways through the pattern, most preferred first ------------------------------------


@dataclass(frozen=True)
class Step:
    """One row of a path: the label it is mapped to, and whether it stands inside `{- -}`."""

    label: str
    excluded: bool


Path = tuple[Step, ...]  # the i-th step maps row `start + i` of the partition


class _Budget:
    def __init__(self, limit: int | None) -> None:
        self.left = limit

    def spend(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Exploded


@dataclass(frozen=True)
class _Paths:
    """Generates the paths of one attempt: one start row, one match number."""

    clause: MatchRecognize
    rows: list[Row]
    table: _Table
    start: int
    number: int | None
    budget: _Budget
    cut: list[Path] = field(default_factory=list)  # paths that the end of the window (or of the input) cut off

    def complete(self) -> Iterator[Path]:
        for path in self.after(self.clause.pattern, (), False):
            if self.fits(path):
                yield path

    def fits(self, path: Path) -> bool:
        # WITHIN w holds for a match iff its largest time minus its smallest is at most w; an empty match fits.
        within = self.clause.within
        if within is None or not path:
            return True
        time = self.table.own_column(self.clause.order_by[0].column)
        times = [row[time] for row in self.rows[self.start : self.start + len(path)]]
        spread = max(times) - min(times)
        if isinstance(spread, timedelta):
            return spread <= timedelta(microseconds=within.amount)
        return spread <= within.amount

    def after(self, pattern: Pattern, path: Path, excluded: bool) -> Iterator[Path]:
        """Paths that lead on from `path` through `pattern`, each once, in order of preference.

        What follows depends on the path alone, so the same path a second time brings nothing new.
        """
        seen: set[Path] = set()
        for longer in self._after(pattern, path, excluded):
            if longer not in seen:
                seen.add(longer)
                yield longer

    def _after(self, pattern: Pattern, path: Path, excluded: bool) -> Iterator[Path]:
        match pattern:
            case Label(name):
                # A label takes one row, the next one, if its condition holds there.
                longer = (*path, Step(name, excluded))
                if path and self.fits(path) and (self.position(path) == len(self.rows) or not self.fits(longer)):
                    self.cut.append(path)
                if self.position(path) < len(self.rows) and self.holds(name, longer):
                    yield longer
            case Empty():
                # () takes no row.
                yield path
            case Anchor(at_start):
                # ^ holds before the partition's first row, $ after its last; neither takes a row.
                if self.position(path) == (0 if at_start else len(self.rows)):
                    yield path
            case Concatenation(parts):
                # Parts one after the other; the choice made in an earlier part weighs more.
                yield from self.sequence(parts, path, excluded)
            case Alternation(parts):
                # All of an earlier alternative comes before anything of a later one.
                for part in parts:
                    yield from self.after(part, path, excluded)
            case Permutation(parts):
                # PERMUTE is the alternation of all orders, lexicographic by place in the list.
                for order in itertools.permutations(parts):
                    yield from self.sequence(order, path, excluded)
            case Exclusion(part):
                # {- -} marks the rows taken inside; it changes nothing in the matching.
                yield from self.after(part, path, True)
            case Quantified():
                yield from self.repeated(pattern, 0, path, excluded, set())

    def sequence(self, parts: tuple[Pattern, ...], path: Path, excluded: bool) -> Iterator[Path]:
        if not parts:
            yield path
            return
        for longer in self.after(parts[0], path, excluded):
            yield from self.sequence(parts[1:], longer, excluded)

    def repeated(
        self, loop: Quantified, done: int, path: Path, excluded: bool, seen: set[tuple[int, Path]]
    ) -> Iterator[Path]:
        """Paths after `done` iterations. Coming again to the same path and count brings nothing new (`seen`)."""
        if loop.maximum is None:
            done = min(done, loop.minimum)  # beyond the minimum an unbounded loop need not count
        if (done, path) in seen:
            return
        seen.add((done, path))
        may_stop = done >= loop.minimum
        may_go_on = loop.maximum is None or done < loop.maximum
        # Reluctant prefers to stop.
        if may_stop and not loop.greedy:
            yield path
        if may_go_on:
            for longer in self.after(loop.part, path, excluded):
                if len(longer) == len(path):
                    # An iteration that takes no row satisfies the minimum count and ends the loop.
                    yield path
                else:
                    yield from self.repeated(loop, done + 1, longer, excluded, seen)
        # Greedy prefers one more iteration.
        if may_stop and loop.greedy:
            yield path

    def position(self, path: Path) -> int:
        return self.start + len(path)

    def holds(self, label: str, path: Path) -> bool:
        # A label without DEFINE takes any row; a condition that is null does not hold.
        # The condition sees the path so far, its last row already under the label being tried.
        for definition in self.clause.definitions:
            if definition.label == label:
                self.budget.spend()
                return self.view(path).value(definition.condition) is True
        return True

    def view(self, path: Path) -> _View:
        # In DEFINE a division by zero or an overflow of int64 gives null.
        return _View(self.clause, self.rows, self.table, self.start, path, len(path), self.number, lambda why: None)


# ---- attempts: which paths are reported, and where matching resumes --------------------------------


@dataclass(frozen=True)
class Found:
    """A match: row `start` and as many as the path has steps; none is the empty match at `start`."""

    start: int
    path: Path
    number: int


@dataclass(frozen=True)
class Unmatched:
    """A row that starts no match and lies in none."""

    row: int


NO_NUMBER = 0  # of what timed out: it is no match and uses no number


@dataclass(frozen=True)
class TimedOut:
    """Rows from `start` on that could have become a match, had the window not ended."""

    start: int
    path: Path


Finding = Found | Unmatched | TimedOut


@dataclass(frozen=True)
class _Attempts:
    """The attempts over one ordered partition, first row to last; no attempt starts behind the last row."""

    clause: MatchRecognize
    rows: list[Row]
    table: _Table
    budget: _Budget

    def findings(self) -> list[Finding]:
        """Matches and unmatched rows in order of output."""
        if self.clause.match_mode is MatchMode.INCREMENTAL:
            return self.by_end()
        return self.by_start()

    def by_start(self) -> list[Finding]:
        findings: list[Finding] = []
        covered: set[int] = set()
        number = 0  # matches are numbered from 1 in each partition; failed attempts use no number
        start = 0
        while start < len(self.rows):
            paths = self.chosen(start, number + 1)
            for path in paths:
                number += 1
                findings.append(Found(start, path, number))
                covered.update(range(start, start + len(path)))
            # A row that starts no match is unmatched unless an earlier match covers it (a later one cannot).
            if not paths and start not in covered:
                findings.append(Unmatched(start))
            if not paths and self.clause.timed_out is not None:
                # EMIT TIMED OUT MATCHES: of the ways that the window cut off, the most preferred one.
                findings += [TimedOut(start, path) for path in self.cut_off(start, number + 1)[:1]]
            start = self.resume(start, paths)
        return findings

    def by_end(self) -> list[Finding]:
        # INCREMENTAL: for each end row the match from the smallest start tried, numbered in order of end row.
        # (The number is not known while matching: MATCH_NUMBER() in DEFINE has no meaning here.)
        first: dict[int, tuple[int, Path]] = {}
        start = 0
        while start < len(self.rows):
            paths = [path for path in self.chosen(start, None) if path]  # empty matches are never reported
            for path in paths:
                first.setdefault(start + len(path) - 1, (start, path))
            start = self.resume(start, paths)
        covered = {row for end, (begin, _) in first.items() for row in range(begin, end + 1)}
        findings: list[Finding] = []
        numbers = itertools.count(1)
        for row in range(len(self.rows)):
            if row in first:
                findings.append(Found(*first[row], next(numbers)))
            elif row not in covered:
                # An unmatched row stands among the matches as if it ended on itself.
                findings.append(Unmatched(row))
        return findings

    def chosen(self, start: int, number: int | None) -> list[Path]:
        """What is found from this start row, shortest first; nothing if no path leads through the pattern."""
        paths = _Paths(self.clause, self.rows, self.table, start, number, self.budget).complete()
        if self.clause.match_mode is MatchMode.PREFERRED:
            # The standard: the most preferred match, whatever its length.
            return list(itertools.islice(paths, 1))
        # With a mode: of the paths that end on the same row the most preferred one.
        ends: dict[int, Path] = {}
        for path in paths:
            ends.setdefault(len(path), path)
        by_end = [ends[length] for length in sorted(ends)]
        # MAXIMAL: the longest of all paths.
        if self.clause.match_mode is MatchMode.MAXIMAL:
            return by_end[-1:]
        # ALL and INCREMENTAL: one for each end row; the empty match counts only where there is no other.
        return [path for path in by_end if path] or by_end

    def cut_off(self, start: int, number: int) -> list[Path]:
        paths = _Paths(self.clause, self.rows, self.table, start, number, self.budget)
        assert not list(paths.complete())
        return paths.cut

    def resume(self, start: int, paths: list[Path]) -> int:
        """The next start row, after the longest match found here."""
        # After a failure or an empty match: the next row, whatever AFTER MATCH SKIP says.
        if not paths or not paths[-1]:
            return start + 1
        longest = paths[-1]
        match self.clause.skip_to:
            case SkipTo.PAST_LAST_ROW:
                return start + len(longest)
            case SkipTo.NEXT_ROW:
                return start + 1
        # To the first or last row of a label (or union): matching resumes on that row.
        label = self.clause.skip_label
        assert label is not None
        members = _members(self.clause, label)
        rows = [start + i for i, step in enumerate(longest) if step.label in members]
        if not rows:
            raise EpisodeDataError(f"AFTER MATCH SKIP: no row of the match is mapped to {label}")
        target = rows[0] if self.clause.skip_to is SkipTo.FIRST_LABEL else rows[-1]
        if target == start:
            raise EpisodeDataError(f"AFTER MATCH SKIP to {label} leads to the first row of the match")
        return target


def _members(clause: MatchRecognize, label: str) -> frozenset[str]:
    """The labels a name stands for: a union variable of SUBSET, or itself."""
    for subset in clause.subsets:
        if subset.name == label:
            return frozenset(subset.labels)
    return frozenset([label])


# ---- output ---------------------------------------------------------------------------------------


def _printed(finding: Finding, attempts: _Attempts) -> list[Row]:
    clause, rows, table = attempts.clause, attempts.rows, attempts.table
    form = clause.rows_per_match
    all_rows = form is not RowsPerMatch.ONE_ROW

    if isinstance(finding, Unmatched):
        # WITH UNMATCHED ROWS prints them with every measure null.
        nulls = {measure.name: None for measure in clause.measures}
        wanted = form is RowsPerMatch.ALL_WITH_UNMATCHED
        return [_row(clause, table, rows[finding.row], nulls, all_rows)] if wanted else []

    def measured(row: int, running: int) -> Row:
        number = NO_NUMBER if isinstance(finding, TimedOut) else finding.number
        view = _View(clause, rows, table, finding.start, finding.path, running, number, _fail)
        measures = {measure.name: view.value(measure.expression) for measure in clause.measures}
        flag = {} if clause.timed_out is None else {"timed_out": isinstance(finding, TimedOut)}
        return {**_row(clause, table, rows[row], measures, all_rows), **flag}

    if not finding.path:
        # An empty match prints one row, with the input columns of its start row, except under OMIT EMPTY MATCHES.
        return [] if form is RowsPerMatch.ALL_OMIT_EMPTY else [measured(finding.start, 0)]
    if not all_rows:
        # ONE ROW PER MATCH is measured at the last row of the match.
        return [measured(finding.start, len(finding.path))]
    # ALL ROWS PER MATCH is measured at each row in turn; excluded rows are left out of the output only.
    return [measured(finding.start + i, i + 1) for i, step in enumerate(finding.path) if not step.excluded]


def _row(clause: MatchRecognize, table: _Table, row: Row, measures: Row, all_rows: bool) -> Row:
    # ONE ROW: partition columns, measures. ALL ROWS: partition columns, ordering columns, measures, the rest.
    partition = [table.own_column(reference) for reference in clause.partition_by]
    if not all_rows:
        return {**{column: row[column] for column in partition}, **measures}
    order = [table.own_column(item.column) for item in clause.order_by]
    leading = {column: row[column] for column in [*partition, *order]}
    rest = {column: row[column] for column in table.columns if column not in leading}
    return {**leading, **measures, **rest}


# ---- what an expression sees of a match -----------------------------------------------------------

OnFailure = Callable[[str], None]  # what a division by zero or an overflow does: give null, or raise


def _fail(why: str) -> None:
    """In MEASURES Spark computes the scalar expression, and raises (ANSI)."""
    raise ArithmeticError(why)


@dataclass(frozen=True)
class _View:
    """A match, or in DEFINE the path so far, seen from a running position.

    path: every label known; running: how many of its rows the running position has reached.
    """

    clause: MatchRecognize
    rows: list[Row]
    table: _Table
    start: int
    path: Path
    running: int
    number: int | None
    on_failure: OnFailure

    def value(self, scalar: Scalar) -> Any:
        atoms = dict(scalar.atoms)
        return _scalar(scalar.tree, lambda name: self.atom(atoms[name]), self.on_failure)

    def value_at(self, scalar: Scalar, row: int) -> Any:
        """The inside of a navigation or an aggregate: every atom is read at the one row."""
        atoms = dict(scalar.atoms)
        return _scalar(scalar.tree, lambda name: self.atom_at(atoms[name], row), self.on_failure)

    def atom(self, atom: Atom) -> Any:
        match atom:
            case ColumnRef(label) | Classifier(label):
                # A.x and CLASSIFIER(A) are those of the last A row up to the running position; null without one.
                rows = self.mapped(label, Mode.RUNNING)
                return self.atom_at(atom, rows[-1]) if rows else None
            case MatchNumber():
                return self.match_number()
            case Navigation():
                return self.navigated(atom)
            case Aggregate():
                return self.aggregated(atom)

    def atom_at(self, atom: Atom, row: int) -> Any:
        match atom:
            case ColumnRef(_, path):
                return self.table.read(self.rows[row], path)
            case Classifier():
                # The label of a row outside the match is null; in DEFINE, of every row after the current one.
                step = row - self.start
                return self.path[step].label if 0 <= step < len(self.path) else None
            case MatchNumber():
                return self.match_number()
        raise ValueError("navigation and aggregates may not contain each other")

    def match_number(self) -> int | None:
        if self.number == NO_NUMBER:
            return None
        if self.number is None:
            raise NotImplementedError("MATCH_NUMBER() in DEFINE under INCREMENTAL MATCH")
        return self.number

    def mapped(self, label: str | None, mode: Mode | None) -> list[int]:
        """Rows mapped to the label (None: to any). RUNNING, the default: up to the running position; FINAL: all."""
        known = self.path if mode is Mode.FINAL else self.path[: self.running]
        members = None if label is None else _members(self.clause, label)
        return [self.start + i for i, step in enumerate(known) if members is None or step.label in members]

    def navigated(self, navigation: Navigation) -> Any:
        # First the logical step: the n-th row of the label from the first or the last; null if there is none.
        rows = self.mapped(_label_of((navigation.argument,)), navigation.mode)
        if navigation.logical_offset >= len(rows):
            return None
        if navigation.logical == "LAST":
            rows.reverse()
        # Then the physical step, from there, whatever the match's bounds; null outside the partition.
        target = rows[navigation.logical_offset] + navigation.physical_offset
        if not 0 <= target < len(self.rows):
            return None
        return self.value_at(navigation.argument, target)

    def aggregated(self, aggregate: Aggregate) -> Any:
        label = aggregate.star_label if aggregate.star else _label_of(aggregate.arguments)
        rows = self.mapped(label, aggregate.mode)
        if aggregate.star:
            # count(*) counts the rows of the match, count(A.*) those of A.
            return len(rows)
        inputs = [tuple(self.value_at(argument, row) for argument in aggregate.arguments) for row in rows]
        return _aggregate(aggregate.function, inputs, self.on_failure)


def _label_of(arguments: tuple[Scalar, ...]) -> str | None:
    """The one label that all columns in a navigation or aggregate carry; None is the universal one."""
    atoms = [atom for argument in arguments for _, atom in argument.atoms]
    labels = {atom.label for atom in atoms if isinstance(atom, ColumnRef | Classifier)}
    if len(labels) > 1:
        raise ValueError("columns of one navigation or aggregate carry different labels")
    return labels.pop() if labels else None


# ---- aggregates -----------------------------------------------------------------------------------


def _aggregate(function: str, inputs: list[tuple], on_failure: OnFailure) -> Any:
    """A Spark aggregate over the argument tuples, in row order. Over no values: count 0, list empty, others null."""
    if function == "count":
        # count(x, y) counts the rows where no argument is null.
        return sum(all(value is not None for value in row) for row in inputs)
    if function in ("max_by", "min_by"):
        return _extreme_by(inputs, largest=function == "max_by")
    values = [value for (value,) in inputs if value is not None]  # all others ignore nulls
    if function in ("array_agg", "collect_list"):
        return values
    if function == "collect_set":
        return arrays.call("array_distinct", [values], _order)
    if function == "count_if":
        return sum(values)
    if not values:
        return None
    match function:
        case "sum":
            return _bounded(sum(values[1:], start=values[0]), on_failure)
        case "avg" | "mean":
            # avg of integers is a double.
            if isinstance(values[0], Decimal):
                return sum(values) / len(values)
            return sum(map(float, values)) / len(values)
        case "min":
            return min(values, key=_rank)
        case "max":
            return max(values, key=_rank)
        case "stddev" | "stddev_samp" | "std":
            # The sample's deviation of one value is null.
            return math.sqrt(_squares(values) / (len(values) - 1)) if len(values) > 1 else None
        case "variance" | "var_samp":
            return _squares(values) / (len(values) - 1) if len(values) > 1 else None
        case "stddev_pop":
            return math.sqrt(_squares(values) / len(values))
        case "var_pop":
            return _squares(values) / len(values)
        case "bool_and" | "every":
            return all(values)
        case "bool_or" | "some" | "any":
            return any(values)
    raise NotImplementedError(f"aggregate {function}")


def _extreme_by(inputs: list[tuple], *, largest: bool) -> Any:
    """max_by(x, y): the x of the largest y. Rows whose y is null do not count; of equal y Spark takes the later."""
    best: tuple | None = None
    for value, order in inputs:
        if order is None:
            continue
        if best is not None:
            beaten = _rank(best[1]) > _rank(order) if largest else _rank(best[1]) < _rank(order)
            if beaten:
                continue
        best = (value, order)
    return None if best is None else best[0]


def _squares(values: list) -> float:
    """Sum of squared distances from the mean, in doubles."""
    doubles = [float(value) for value in values]
    mean = sum(doubles) / len(doubles)
    return sum((value - mean) * (value - mean) for value in doubles)


# ---- scalar expressions, as Spark computes them ---------------------------------------------------


def _scalar(
    tree: exp.Expression, atom: Callable[[str], Any], on_failure: OnFailure, variables: dict[str, Any] | None = None
) -> Any:
    """The value of a sqlglot tree whose columns are placeholders of atoms. Null is None.

    `variables` are those of the lambdas around it.
    """
    known = variables or {}

    def value(node: exp.Expression) -> Any:
        return _scalar(node, atom, on_failure, known)

    def function(node: exp.Lambda) -> Callable[..., Any]:
        names = [name.name.lower() for name in node.expressions]
        return lambda *values: _scalar(node.this, atom, on_failure, {**known, **dict(zip(names, values))})

    match tree:
        case exp.Column():
            return atom(tree.name)
        case exp.Paren():
            return value(tree.this)
        case exp.Identifier():
            return known[tree.name.lower()]
        case exp.Lambda():
            return function(tree)
        case exp.Anonymous():
            return arrays.call(tree.name.lower(), [value(each) for each in tree.expressions], _order)
        case exp.Transform():
            return arrays.call("transform", [value(tree.this), value(tree.expression)], _order)
        case exp.Bracket():
            return arrays.call("[]", [value(tree.this), value(tree.expressions[0])], _order)
        case exp.Literal():
            return _literal(tree)
        case exp.Boolean():
            return bool(tree.this)
        case exp.Null():
            return None
        case exp.Not():
            operand = value(tree.this)
            return None if operand is None else not operand
        case exp.And():
            # False beats null; null beats true.
            left = value(tree.left)
            return False if left is False else _and(left, value(tree.right))
        case exp.Or():
            # True beats null; null beats false.
            left = value(tree.left)
            return True if left is True else _or(left, value(tree.right))
        case exp.Is():
            operand, wanted = value(tree.this), value(tree.expression)
            return operand is wanted  # IS NULL, IS TRUE, IS FALSE: never null themselves
        case exp.NullSafeEQ():
            left, right = value(tree.left), value(tree.right)
            return left is right if left is None or right is None else _order(left, right) == 0
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _compared(type(tree), value(tree.left), value(tree.right))
        case exp.Between():
            operand = value(tree.this)
            low = _compared(exp.GTE, operand, value(tree.args["low"]))
            return _and(low, _compared(exp.LTE, operand, value(tree.args["high"])))
        case exp.In() if tree.expressions:
            operand = value(tree.this)
            result: bool | None = False
            for candidate in tree.expressions:
                result = _or(result, _compared(exp.EQ, operand, value(candidate)))
            return result
        case exp.Case():
            # CASE x WHEN y compares by =; the first condition that is true decides.
            for branch in tree.args["ifs"]:
                when = value(branch.this)
                if tree.this is not None:
                    when = _compared(exp.EQ, value(tree.this), when)
                if when is True:
                    return value(branch.args["true"])
            return value(tree.args["default"]) if tree.args.get("default") else None
        case exp.If():
            chosen = tree.args["true"] if value(tree.this) is True else tree.args.get("false")
            return None if chosen is None else value(chosen)
        case exp.Coalesce():
            for candidate in [tree.this, *tree.expressions]:
                operand = value(candidate)
                if operand is not None:
                    return operand
            return None
        case exp.Least() | exp.Greatest():
            # Nulls are skipped; NaN is the greatest.
            operands = [value(candidate) for candidate in [tree.this, *tree.expressions]]
            return _extreme([operand for operand in operands if operand is not None], isinstance(tree, exp.Greatest))
        case exp.Neg():
            operand = value(tree.this)
            return None if operand is None else _bounded(-operand, on_failure)
        case exp.Abs():
            operand = value(tree.this)
            return None if operand is None else _bounded(abs(operand), on_failure)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
            left, right = value(tree.left), value(tree.right)
            return None if left is None or right is None else _arithmetic(type(tree), left, right, on_failure)
        case exp.DPipe():
            left, right = value(tree.left), value(tree.right)
            if isinstance(left, list):
                return arrays.call("||", [left, right], _order)
            if not isinstance(left, str | None) or not isinstance(right, str | None):
                raise NotImplementedError("|| of something else than strings")
            return None if left is None or right is None else left + right
        case exp.Cast():  # TRY_CAST too, which is how sqlglot reads Spark's CAST
            return _cast(value(tree.this), tree.to, on_failure)
    raise NotImplementedError(f"scalar expression {tree.sql('spark')}")


def _literal(tree: exp.Literal) -> Any:
    text = tree.this
    if tree.is_string:
        return text
    if "e" in text.lower():
        return float(text)
    return Decimal(text) if "." in text else int(text)


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: bool | None, right: bool | None) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _compared(operator: type, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    order = _order(left, right)
    results = {
        exp.EQ: order == 0,
        exp.NEQ: order != 0,
        exp.LT: order < 0,
        exp.LTE: order <= 0,
        exp.GT: order > 0,
        exp.GTE: order >= 0,
    }
    return results[operator]


def _arithmetic(operator: type, left: Any, right: Any, on_failure: OnFailure) -> Any:
    if isinstance(left, date | timedelta) or isinstance(right, date | timedelta):
        # Times: only their sums and differences.
        if operator is exp.Add:
            return left + right
        if operator is exp.Sub:
            return left - right
        raise NotImplementedError(f"{operator.__name__} of times")
    left, right = _aligned(left, right)
    if not isinstance(left, int | float | Decimal) or isinstance(left, bool):
        raise NotImplementedError(f"{operator.__name__} of {type(left).__name__}")
    if operator is exp.Add:
        return _bounded(left + right, on_failure)
    if operator is exp.Sub:
        return _bounded(left - right, on_failure)
    if operator is exp.Mul:
        return _bounded(left * right, on_failure)
    # Division by zero fails for doubles too.
    if right == 0:
        return on_failure("division by zero")
    if operator is exp.Mod:
        return _remainder(left, right)
    # `/` of integers gives a double.
    if isinstance(left, Decimal):
        raise NotImplementedError("division of decimals")
    return float(left) / float(right)


def _remainder(left: Any, right: Any) -> Any:
    """`%` takes the sign of the dividend."""
    if isinstance(left, float):
        return math.nan if math.isinf(left) else math.fmod(left, right)
    size = abs(left) % abs(right)
    return -size if left < 0 else size


def _bounded(value: Any, on_failure: OnFailure) -> Any:
    """Integers must fit int64."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return on_failure("int64 overflow")
    return value


def _cast(value: Any, to: exp.DataType, on_failure: OnFailure) -> Any:
    if value is None:
        return None
    if isinstance(value, int | float | Decimal):
        if to.is_type("double"):
            return float(value)
        if to.is_type("bigint"):
            return _bounded(int(value), on_failure) if math.isfinite(value) else on_failure("not an integer")
    raise NotImplementedError(f"CAST of {type(value).__name__} to {to.sql('spark')}")


# ---- Spark's order of values ----------------------------------------------------------------------


def _grouping(value: Any) -> Any:
    """Equal for values of one group: nulls together, NaNs together, -0.0 with 0.0 (equal in Python already)."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _rank(value: Any) -> tuple:
    """Sort key of a non-null value: NaN is greater than everything, -0.0 equals 0.0."""
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)


def _order(left: Any, right: Any) -> int:
    """-1, 0 or 1. NaN equals NaN and is greater than everything else."""
    if isinstance(left, list):
        return arrays.compare(left, right, _order)
    left, right = (_rank(value) for value in _aligned(left, right))
    return (left > right) - (left < right)


def _aligned(left: Any, right: Any) -> tuple[Any, Any]:
    """Both in their common type: a double makes the other number a double, a timestamp the date a timestamp."""
    if type(left) is type(right):
        return left, right
    numbers = all(isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in (left, right))
    if numbers and (isinstance(left, float) or isinstance(right, float)):
        return float(left), float(right)
    if numbers:
        return Decimal(left), Decimal(right)
    if isinstance(left, date) and isinstance(right, date):
        return _midnight(left), _midnight(right)
    raise NotImplementedError(f"{type(left).__name__} beside {type(right).__name__}")


def _midnight(value: date) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def _extreme(values: list, greatest: bool) -> Any:
    best = None
    for value in values:
        if best is None or _order(value, best) == (1 if greatest else -1):
            best = value
    return best
