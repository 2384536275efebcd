"""The compiled code of a row pattern: built once for a query and a kind of input, run over the arrays of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from episode.matchers.code.expressions import CodeConstants
from episode.matchers.encoding import Lanes
from episode.matchers.prepare import Prepared
from episode.matchers.rows import arrays as layout
from episode.matchers.rows.arrays import Attempts, FoundPaths, Frames, RowProgram, SearchPartitions, SearchRows
from episode.matchers.rows.code import arrays
from episode.matchers.rows.code.array_code import RunningValues
from episode.matchers.rows.code.arrays import TYPES, RunningMatch
from episode.matchers.rows.code.choices import Choices
from episode.matchers.rows.code.conditions import RowConditions
from episode.matchers.rows.code.frames import FRAME_PLACE
from episode.matchers.rows.code.instructions import Instructions
from episode.matchers.rows.code.outcomes import emit_outcomes
from episode.matchers.rows.code.search import SearchFrame, emit_begin, emit_partitions
from episode.matchers.rows.code.shape import ColumnPlaces, ConditionTraits, RowShape
from episode.matchers.rows.code.sieves import SieveColumns
from episode.matchers.rows.code.waiting_ways import RARE
from episode.matchers.rows.program import Sieve, lower_sieves
from episode.native.builder import ArrayTypes, Program, entry_scope
from episode.native.ir import F64, I64, I128, Block
from episode.native.running import Compiled, compile_program
from episode.plan.rows.plan import RowPatternPlan

MOST_PROGRAMS = 256
"""Programs whose code is found without building it again."""


@dataclass(frozen=True)
class RowCode:
    """Compiled code, its constants, and the values it keeps."""

    program: Compiled
    constants: CodeConstants
    values: RunningValues

    def run(
        self, program: RowProgram, settings: layout.SearchSettings, frames: Frames | None, lanes: Lanes,
        rows: SearchRows, partitions: SearchPartitions, attempts: Attempts, found: FoundPaths, work: layout.SearchWork,
        until: int,
    ) -> int:  # fmt: skip
        """Run every partition from its next start row as far as the rows allow; return the status.

        until: all rows with time <= until are here. The output and the work arrays belong to the caller and never grow
        here: if one is too small, the attempt is given up, the state is as before it, and the status names the array to
        enlarge before the call is repeated (a kept attempt continues then).
        """
        given = _arrays(program, rows, partitions, attempts, found, work)
        given |= self.constants.arrays(lanes)
        given["settings"] = _settings_array(settings, frames, rows, partitions, work, until)
        given |= self._scratch(program, found)
        return self.program.run(given)

    def _scratch(self, program: RowProgram, found: FoundPaths) -> dict[str, np.ndarray]:
        """Arrays of one call."""
        labels, loops = program.labels, program.loops + 1
        sorts = any(name == "ordered" for name, _, _ in self.program.arrays)
        return {
            "last_row": np.full(labels, -1, np.int64), "first_row": np.full(labels, -1, np.int64),
            "loop_rows": np.full(loops, -1, np.int64), "arrival_loops": np.zeros(loops, np.int64),
            "rare": np.zeros(RARE, np.int64), "seek": np.zeros(len(program.required), np.int64),
            "frame_place": np.zeros(FRAME_PLACE, np.int64), "arrived": np.zeros(len(program.code), np.int64),
            "ordered": np.empty(2 * len(found.kind) if sorts else 0, np.int64),
            "copied": np.empty(len(found.path) if sorts else 0, np.int32),
        }  # fmt: skip


def _settings_array(
    settings: layout.SearchSettings, frames: Frames | None, rows: SearchRows, partitions: SearchPartitions,
    work: layout.SearchWork, until: int,
) -> np.ndarray:  # fmt: skip
    read = int((partitions.hi - partitions.lo).sum())
    per_row = 0 if settings.bounded else layout.STEPS_PER_ROW_READ
    places = {
        arrays.UNTIL: until, arrays.WITHIN: max(0, settings.within), arrays.LOOKAHEAD: settings.lookahead,
        arrays.BUDGET: settings.budget, arrays.PATIENCE: settings.patience, arrays.ROWS: rows.ints.shape[1],
        arrays.AGGREGATE_ROWS: work.agg_n.shape[1], arrays.ALLOWED: layout.BUDGETS * settings.budget + per_row * read,
        arrays.MOST_SIFTED: layout.SIFTED_PER_ROW * read + layout.LEAST_SIFTED,
        arrays.REACH: 0 if frames is None else frames.reach, arrays.LOOKBACK: 0 if frames is None else frames.lookback,
    }  # fmt: skip
    return np.array([places[place] for place in range(arrays.SETTINGS)], np.int64)


def _arrays(
    program: RowProgram, rows: SearchRows, partitions: SearchPartitions, attempts: Attempts, found: FoundPaths,
    work: layout.SearchWork,
) -> dict[str, np.ndarray]:  # fmt: skip
    named = {
        **rows._asdict(), **work._asdict(), "code": program.code, "label_of": program.label_of,
        "required": program.required, "loop_from": program.loop_from, "loop_ids": program.loop_ids,
        "key_lo": partitions.lo, "key_hi": partitions.hi, "at_start": partitions.at_start.view(np.uint8),
        "next_start": partitions.next_start, "numbers": partitions.number, "covered": partitions.covered,
        "explored_start": partitions.explored_start, "explored_to": partitions.explored_to, "opened": attempts.open,
        "marks": attempts.marks, "sought": attempts.sought, "ways": attempts.ways, "way_values": attempts.way_values,
        "turns": attempts.turns,
    }  # fmt: skip
    named |= {f"out_{name}": array for name, array in found._asdict().items()}
    return {name: _flat(array) for name, array in named.items()}


def _flat(array: np.ndarray) -> np.ndarray:
    """The array row after row; never a copy, because the search writes to it."""
    if not array.flags.c_contiguous:
        raise ValueError("arrays of a search are contiguous")
    return array.reshape(-1)


_known: dict[tuple, RowCode] = {}
_keeping = Lock()  # several threads may look for code at once


def _find_code(plan: RowPatternPlan, places: ColumnPlaces, shape: RowShape) -> RowCode:
    """The code of a plan, found again by its labels and conditions."""
    key = plan.labels.names, tuple(plan.conditions.items()), places, shape
    code = _known.get(key)
    if code is None:
        code = _build_code(plan, places, shape)
        with _keeping:
            _known[key] = code
            while len(_known) > MOST_PROGRAMS:
                del _known[next(iter(_known))]
    return code


def _build_code(plan: RowPatternPlan, places: ColumnPlaces, shape: RowShape) -> RowCode:
    choices = Choices.of(shape, plan.labels.names, plan.conditions)
    c = SearchFrame(shape, choices, lambda s, match: RowConditions(s, plan, places, match))
    emit_partitions(c)
    instructions = Instructions(c)
    emit_begin(c, instructions.enter)
    instructions.emit()
    emit_outcomes(c)
    its = c.conditions
    return RowCode(compile_program(c.s.program), its.constants, RunningValues.of(its.traits))


@dataclass
class Lowered:
    """The conditions of a query over one batch. sieves: none or one, in the columns of `sieves`."""

    plan: RowPatternPlan
    prepared: Prepared
    sieves: np.ndarray
    _codes: dict[tuple, RowCode] = field(default_factory=dict)

    @staticmethod
    def of(plan: RowPatternPlan, prepared: Prepared, sieves: tuple[Sieve, ...] = ()) -> Lowered:
        return Lowered(plan, prepared, lower_sieves(sieves, plan.labels.names, prepared))

    def code(
        self, program: RowProgram, settings: layout.SearchSettings, frames: Frames | None, kept: bool, final: bool
    ) -> RowCode:
        """The code for these rows. kept: do attempts that wait stay in place? final: will no more rows come?"""
        own = settings.mode, settings.skip, settings.with_unmatched, settings.timed_out, settings.counting
        key = (int(program.first_bits), *own, kept, final)
        if key not in self._codes:
            labels = self.plan.labels
            skipped = labels.members(self.plan.settings.skip_label) or ()
            mask = sum(1 << number for number, name in enumerate(labels.names) if name in skipped)
            sieve = SieveColumns.of(self.sieves[0]) if len(self.sieves) else None
            shape = RowShape.of(program, settings, mask, sieve, frames, kept, final)
            self._codes[key] = _find_code(self.plan, ColumnPlaces.of(self.prepared), shape)
        return self._codes[key]


# One step of an attempt as a program: take a row into the aggregates, test a label's condition, or evaluate an
# expression. Its function takes the number of a step, the first and the last row of the match so far and the number of
# the last match before; `path` and the first and last rows of labels are in arrays. The rows are those of one
# partition.


TAKE, TEST, EVALUATE = range(3)
"""Actions of a step; its number is 3 times its label plus the action."""
NULL, WHOLE, HIGH = range(3)
"""Places of `value_i`: the value of an evaluated expression, if it is not a float."""

STEP_TYPES: ArrayTypes = {**TYPES, "value_i": (I64, True), "value_f": (F64, True)}


@dataclass(frozen=True)
class StepCode:
    """A program, and the constants that it reads."""

    program: Program
    traits: ConditionTraits
    constants: CodeConstants


def step_code(plan: RowPatternPlan, labels: int, places: ColumnPlaces) -> StepCode:
    """Steps that take rows of the first `labels` labels and test their conditions; those of others are evaluated."""
    s = entry_scope("trial", STEP_TYPES)
    f = s.f
    step, start, row, number = (f.scalar(name) for name in ("step", "start", "row", "number"))
    match = RunningMatch(start, row, start, f.value(0), s.key.length, number, start)
    conditions = RowConditions(s, plan, places, match)
    for label in conditions.traits.tracked:
        match.last_row[label] = f.variable("last_row", s.last_row[label])
        match.first_row[label] = f.variable("first_row", s.first_row[label])
    cases: dict[int, Block] = {}
    begin, nothing = f.current, f.block("nothing")
    for label in range(len(plan.labels.names)):
        for what in (TAKE, TEST) if label < labels else (EVALUATE,):
            f.at(f.block("step"))
            cases[3 * label + what] = f.current
            _emit_step(conditions, what, label)
            f.jump(nothing)
    f.at(begin)
    f.switch(step, cases, nothing)
    f.at(nothing)
    f.give(0)
    return StepCode(s.program, conditions.traits, conditions.constants)


def _emit_step(conditions: RowConditions, what: int, label: int) -> None:
    s, match = conditions.s, conditions.match
    if what == TAKE:
        conditions.take(label, match.row.equals(match.start))
        return
    if what == TEST:
        holds = conditions.label_holds(label)
        s.value_i[WHOLE] = 1 if holds is None else holds.to(I64)
        return
    value, null = conditions.value(label)
    s.value_i[NULL] = 0 if null is None else null.to(I64)
    if value.type is F64:
        s.value_f[0] = value
    elif value.type is I128:
        s.value_i[WHOLE] = value.to(I64)
        s.value_i[HIGH] = (value >> 64).to(I64)
    else:
        s.value_i[WHOLE] = value
