"""The code of a row pattern at work: built once for a query and a kind of input, run over the arrays of a batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from episode.kernels.rows.arrays import Attempts, Found, Frames, Partitions, Program, Rows, Rules, Work
from episode.kernels.rows.matching import BUDGETS, LEAST_SIFTED, SIFTED_PER_ROW, STEPS_PER_ROW_READ
from episode.matchers.encoding import Lanes
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
    TYPES,
    UNTIL,
    WITHIN,
)
from episode.matchers.rows.code.attempts import Instructions
from episode.matchers.rows.code.choices import Choices
from episode.matchers.rows.code.conditions import Places, RowConditions
from episode.matchers.rows.code.frames import FRAME_PLACE
from episode.matchers.rows.code.outcomes import emit_outcomes
from episode.matchers.rows.code.search import Frame, emit_begin, emit_partitions
from episode.matchers.rows.code.shape import Shape
from episode.matchers.rows.code.ways import RARE
from episode.native.builder import Program as NativeProgram
from episode.native.running import Compiled, compiled
from episode.plan.rows.plan import RowPatternPlan


@dataclass(frozen=True)
class RowCode:
    """Compiled code, the arrays that it takes in their order, and the constants that it reads."""

    shape: Shape
    source: NativeProgram
    program: Compiled
    names: tuple[str, ...]
    ints: tuple[int | tuple[str, object], ...]
    floats: tuple[float, ...]

    @staticmethod
    def of(plan: RowPatternPlan, shape: Shape, places: Places) -> RowCode:
        choices = Choices.of(shape, plan.labels.names, plan.conditions)
        c = Frame(shape, choices, lambda s, match: RowConditions(s, plan, places, match))
        emit_partitions(c)
        instructions = Instructions(c)
        emit_begin(c, instructions.enter)
        instructions.emit()
        emit_outcomes(c)
        conditions = c.conditions
        return RowCode(
            shape, c.program, compiled(c.program), tuple(c.s.names), tuple(conditions.ints), tuple(conditions.floats)
        )

    def run(
        self, program: Program, rules: Rules, frames: Frames | None, lanes: Lanes | None, rows: Rows,
        partitions: Partitions, attempts: Attempts, found: Found, work: Work, until: int,
    ) -> int:  # fmt: skip
        """Run every partition from its next start row as far as the rows allow; returns the status.

        until: rows with time <= until are all here. What is found and the work arrays are the caller's and never grow
        here: if one is too small, the attempt is given up, the state is as before it, and the status says which array
        to enlarge before the call is made again (a kept attempt continues then).
        """
        arrays = _arrays(program, rows, partitions, attempts, found, work)
        numbers = [one if isinstance(one, int) else _rank(lanes, one) for one in self.ints]
        arrays |= {"const_i": np.array(numbers, np.int64), "const_f": np.array(self.floats, np.float64)}
        arrays["settings"] = _settings(rules, frames, rows, partitions, work, until)
        arrays |= self._scratch(program, found)
        return self.program([arrays[name] for name in self.names])

    def _scratch(self, program: Program, found: Found) -> dict[str, np.ndarray]:
        """Arrays of one call."""
        labels, loops = program.labels, program.loops + 1
        sorts = "ordered" in self.names
        return {
            "last_row": np.full(labels, -1, np.int64), "first_row": np.full(labels, -1, np.int64),
            "loop_rows": np.full(loops, -1, np.int64), "arrival_loops": np.zeros(loops, np.int64),
            "rare": np.zeros(RARE, np.int64), "seek": np.zeros(len(program.required), np.int64),
            "frame_place": np.zeros(FRAME_PLACE, np.int64), "arrived": np.zeros(len(program.code), np.int64),
            "ordered": np.empty(2 * len(found.kind) if sorts else 0, np.int64),
            "copied": np.empty(len(found.path) if sorts else 0, np.int32),
        }  # fmt: skip


def _rank(lanes: Lanes | None, constant: tuple[str, object]) -> int:
    assert lanes is not None, "strings are compared with ranks of a batch only"
    return lanes.ranks[constant]


def _settings(
    rules: Rules, frames: Frames | None, rows: Rows, partitions: Partitions, work: Work, until: int
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
    program: Program, rows: Rows, partitions: Partitions, attempts: Attempts, found: Found, work: Work
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


__all__ = ["TYPES", "RowCode"]
