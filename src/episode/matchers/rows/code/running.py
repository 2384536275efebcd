"""The code of a row pattern at work: built once for a query and a kind of input, run over the arrays of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from episode.matchers.encoding import Lanes
from episode.matchers.expression_code import CodeConstants
from episode.matchers.prepare import Prepared
from episode.matchers.rows.arrays import (
    Attempts,
    FoundPaths,
    Frames,
    RowProgram,
    Rules,
    SearchPartitions,
    SearchRows,
    SearchWork,
)
from episode.matchers.rows.code.arrays import (
    AGGREGATE_ROWS,
    ALLOWED,
    BUDGET,
    LOOKAHEAD,
    LOOKBACK,
    MOST_SIFTED,
    PATIENCE,
    REACH,
    ROWS,
    SETTINGS,
    UNTIL,
    WITHIN,
)
from episode.matchers.rows.code.attempts import Instructions
from episode.matchers.rows.code.choices import Choices
from episode.matchers.rows.code.condition_traits import ColumnPlaces
from episode.matchers.rows.code.conditions import RowConditions
from episode.matchers.rows.code.frames import FRAME_PLACE
from episode.matchers.rows.code.outcomes import emit_outcomes
from episode.matchers.rows.code.search import SearchFrame, emit_begin, emit_partitions
from episode.matchers.rows.code.shape import RowShape
from episode.matchers.rows.code.sifting import SieveColumns
from episode.matchers.rows.code.values import RunningValues
from episode.matchers.rows.code.ways import RARE
from episode.matchers.rows.codes import BUDGETS, LEAST_SIFTED, SIFTED_PER_ROW, STEPS_PER_ROW_READ
from episode.matchers.rows.sieves import Sieve, lower_sieves
from episode.native.running import Compiled, compiled
from episode.plan.rows.plan import RowPatternPlan

MOST_PROGRAMS = 256
"""Programs whose code is found without building it again."""


@dataclass(frozen=True)
class RowCode:
    """Compiled code, the constants that it reads, and the values it keeps."""

    program: Compiled
    constants: CodeConstants
    values: RunningValues

    def run(
        self, program: RowProgram, rules: Rules, frames: Frames | None, lanes: Lanes, rows: SearchRows,
        partitions: SearchPartitions, attempts: Attempts, found: FoundPaths, work: SearchWork, until: int,
    ) -> int:  # fmt: skip
        """Run every partition from its next start row as far as the rows allow; returns the status.

        until: rows with time <= until are all here. What is found and the work arrays are the caller's and never grow
        here: if one is too small, the attempt is given up, the state is as before it, and the status says which array
        to enlarge before the call is made again (a kept attempt continues then).
        """
        arrays = _arrays(program, rows, partitions, attempts, found, work)
        arrays |= self.constants.arrays(lanes)
        arrays["settings"] = _settings(rules, frames, rows, partitions, work, until)
        arrays |= self._scratch(program, found)
        return self.program.run(arrays)

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


def _settings(
    rules: Rules, frames: Frames | None, rows: SearchRows, partitions: SearchPartitions, work: SearchWork, until: int
) -> np.ndarray:
    read = int((partitions.hi - partitions.lo).sum())
    settings = np.zeros(SETTINGS, np.int64)
    settings[[UNTIL, WITHIN, LOOKAHEAD, BUDGET]] = until, max(0, rules.within), rules.lookahead, rules.budget
    settings[PATIENCE] = rules.patience
    settings[[ROWS, AGGREGATE_ROWS]] = rows.ints.shape[1], work.agg_n.shape[1]
    settings[ALLOWED] = BUDGETS * rules.budget + (0 if rules.bounded else STEPS_PER_ROW_READ * read)
    settings[MOST_SIFTED] = SIFTED_PER_ROW * read + LEAST_SIFTED
    if frames is not None:
        settings[[REACH, LOOKBACK]] = frames.reach, frames.lookback
    return settings


def _arrays(
    program: RowProgram,
    rows: SearchRows,
    partitions: SearchPartitions,
    attempts: Attempts,
    found: FoundPaths,
    work: SearchWork,
) -> dict[str, np.ndarray]:
    named = {
        "bits": rows.bits, "time": rows.time, "key": rows.key, "ints": rows.ints, "floats": rows.floats,
        "valid": rows.valid, "code": program.code, "label_of": program.label_of, "required": program.required,
        "loop_from": program.loop_from, "loop_ids": program.loop_ids, "key_lo": partitions.lo,
        "key_hi": partitions.hi, "at_start": partitions.at_start.view(np.uint8),
        "next_start": partitions.next_start, "numbers": partitions.number, "covered": partitions.covered,
        "explored_start": partitions.explored_start, "explored_to": partitions.explored_to,
        "opened": attempts.open, "marks": attempts.marks, "sought": attempts.sought, "ways": attempts.ways,
        "way_values": attempts.way_values, "turns": attempts.turns, **work._asdict(),
    }  # fmt: skip
    named |= {f"out_{name}": array for name, array in found._asdict().items()}
    return {name: _flat(array) for name, array in named.items()}


def _flat(array: np.ndarray) -> np.ndarray:
    """The array row after row; never a copy, because what is written to it counts."""
    if not array.flags.c_contiguous:
        raise ValueError("arrays of a search are contiguous")
    return array.reshape(-1)


def _build(plan: RowPatternPlan, places: ColumnPlaces, shape: RowShape) -> RowCode:
    choices = Choices.of(shape, plan.labels.names, plan.conditions)
    c = SearchFrame(shape, choices, lambda s, match: RowConditions(s, plan, places, match))
    emit_partitions(c)
    instructions = Instructions(c)
    emit_begin(c, instructions.enter)
    instructions.emit()
    emit_outcomes(c)
    its = c.conditions
    return RowCode(compiled(c.s.program), its.constants, RunningValues.of(its.traits))


_known: dict[tuple, RowCode] = {}


def _code(plan: RowPatternPlan, places: ColumnPlaces, shape: RowShape) -> RowCode:
    """The code of a plan, of which its labels and conditions count."""
    key = plan.labels.names, tuple(plan.conditions.items()), places, shape
    if key not in _known:
        _known[key] = _build(plan, places, shape)
        while len(_known) > MOST_PROGRAMS:
            del _known[next(iter(_known))]
    return _known[key]


@dataclass
class Lowered:
    """The conditions of a query over one batch. sieves: none or one, in the columns of `sifting`."""

    plan: RowPatternPlan
    prepared: Prepared
    sieves: np.ndarray
    _codes: dict[tuple, RowCode] = field(default_factory=dict)

    @staticmethod
    def of(plan: RowPatternPlan, prepared: Prepared, sieves: tuple[Sieve, ...] = ()) -> Lowered:
        return Lowered(plan, prepared, lower_sieves(sieves, plan.labels.names, prepared))

    def code(self, program: RowProgram, rules: Rules, frames: Frames | None, kept: bool, final: bool) -> RowCode:
        """The code for these rows. kept: do attempts that wait stay where they are? final: will no more rows come?"""
        said = int(program.first_bits), rules.mode, rules.skip, rules.with_unmatched, rules.timed_out, rules.counting
        key = (*said, kept, final)
        if key not in self._codes:
            labels = self.plan.labels
            skipped = labels.members(self.plan.rules.skip_label) or ()
            mask = sum(1 << number for number, name in enumerate(labels.names) if name in skipped)
            sieve = SieveColumns.of(self.sieves[0]) if len(self.sieves) else None
            shape = RowShape.of(program, rules, mask, sieve, frames, kept, final)
            self._codes[key] = _code(self.plan, ColumnPlaces.of(self.prepared), shape)
        return self._codes[key]
