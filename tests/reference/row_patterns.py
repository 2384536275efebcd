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
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from episode.errors import EpisodeDataError
from episode.lang.rows.syntax import (
    Alternation,
    Anchor,
    Classifier,
    Concatenation,
    Empty,
    Exclusion,
    Label,
    MatchMode,
    MatchNumber,
    MatchRecognize,
    Navigation,
    Pattern,
    Permutation,
    Quantified,
    RowsPerMatch,
    SkipTo,
)
from episode.lang.syntax import (
    Aggregate,
    Atom,
    ColumnRef,
    Mode,
    RowKey,
    Scalar,
)
from tests.reference.scalars import OnFailure, aggregate_value, fail, give_null, grouping, rank, scalar_value

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

    def value(self, row: Row, key: RowKey) -> Any:
        """What PARTITION BY or ORDER BY say of a row: a scalar over its columns."""
        atoms = dict(key.expression.atoms)
        return scalar_value(key.expression.tree, lambda name: self.read(row, atoms[name].path), give_null)

    def shown(self, key: RowKey) -> str:
        """The name of a key's output column: its alias, the column's own, or what Spark makes of `x + 1`: `(x + 1)`."""
        if key.name is not None:
            return key.name
        if key.column is None:
            return f"({key.expression.original})"
        return self.name(key.column.path[-1])

    def read(self, row: Row, path: tuple[str, ...]) -> Any:
        """The column, then its struct fields; a field of null is null. The table's own name may stand before it."""
        if len(path) > 1 and not self.has(path[0]):
            path = path[1:]
        value = row[self.name(path[0])]
        for part in path[1:]:
            value = None if value is None else value[part]
        return value


def _partitions(clause: MatchRecognize, rows: list[Row], table: _Table) -> list[list[Row]]:
    # Partitions come in order of first appearance; null keys are equal to each other, and so are NaN keys.
    partitions: dict[tuple, list[Row]] = {}
    for row in rows:
        values = tuple(grouping(table.value(row, key)) for key in clause.partition_by)
        partitions.setdefault(values, []).append(row)
    return list(partitions.values())


def _ordered(clause: MatchRecognize, rows: list[Row], table: _Table) -> list[Row]:
    # Rows that ORDER BY leaves equal stay in order of arrival: every pass below is a stable sort.
    for item in reversed(clause.order_by):
        nulls = [row for row in rows if table.value(row, item.key) is None]
        others = [row for row in rows if table.value(row, item.key) is not None]
        others.sort(key=lambda row, item=item: rank(table.value(row, item.key)), reverse=not item.ascending)
        rows = nulls + others if item.nulls_first else others + nulls
    return rows


def _reject_null_times(clause: MatchRecognize, rows: list[Row], table: _Table) -> None:
    # With WITHIN the first ORDER BY column is the event time, and an event without a time is rejected.
    if clause.within is None:
        return
    if any(table.value(row, clause.order_by[0].key) is None for row in rows):
        raise EpisodeDataError("an event time is null")


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
        time = self.clause.order_by[0].key
        times = [self.table.value(row, time) for row in self.rows[self.start : self.start + len(path)]]
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
        return _View(self.clause, self.rows, self.table, self.start, path, len(path), self.number, give_null)


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
    """The attempts over one ordered partition, first row to last; no attempt starts after the last row."""

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
        view = _View(clause, rows, table, finding.start, finding.path, running, number, fail)
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
    # The name of an earlier column hides later ones of that name; a column that comes out under an alias does not come
    # out again.
    keys = [*clause.partition_by, *(item.key for item in clause.order_by if all_rows)]
    leading: Row = {}
    for key in keys:
        leading.setdefault(table.shown(key), table.value(row, key))
    if not all_rows:
        return {**leading, **measures}
    out = {table.name(key.column.path[-1]) for key in keys if key.column is not None}
    rest = {column: row[column] for column in table.columns if column not in leading and column not in out}
    return {**leading, **measures, **rest}


# ---- what an expression sees of a match -----------------------------------------------------------


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
        return scalar_value(scalar.tree, lambda name: self.atom(atoms[name]), self.on_failure)

    def value_at(self, scalar: Scalar, row: int) -> Any:
        """The inside of a navigation or an aggregate: every atom is read at the one row."""
        atoms = dict(scalar.atoms)
        return scalar_value(scalar.tree, lambda name: self.atom_at(atoms[name], row), self.on_failure)

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
        return aggregate_value(aggregate.function, inputs, self.on_failure)


def _label_of(arguments: tuple[Scalar, ...]) -> str | None:
    """The one label that all columns in a navigation or aggregate carry; None is the universal one."""
    atoms = [atom for argument in arguments for _, atom in argument.atoms]
    labels = {atom.label for atom in atoms if isinstance(atom, ColumnRef | Classifier)}
    if len(labels) > 1:
        raise ValueError("columns of one navigation or aggregate carry different labels")
    return labels.pop() if labels else None
