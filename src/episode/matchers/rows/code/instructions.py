"""Emits the instructions of a pattern as blocks of code: the steps of an attempt, and backtracking.

A pattern of more than MOST_INLINED instructions is a table that one block for each kind of instruction reads, so that
the size of the code does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from episode.matchers import codes as oc
from episode.matchers.rows import arrays as layout
from episode.matchers.rows.code import waiting_ways as ways
from episode.matchers.rows.code.arrays import MOST_SIFTED, enlarge_stack
from episode.matchers.rows.code.outcomes import accept
from episode.matchers.rows.code.search import SearchFrame, leave_without_room, look_for_labels, run_sieve, take_way_up
from episode.matchers.rows.code.sieves import FAILS, UNDECIDED
from episode.native.ir import I32, I64, U64, Block, Operand, Value

MOST_INLINED = 300
FIELDS = 8


class Instructions:
    """Emits the instructions of a pattern; `enter` is the block of the first one."""

    def __init__(self, c: SearchFrame) -> None:
        self.c, self.f, self.s, self.shape = c, c.f, c.s, c.shape
        self.choices = c.choices
        self.is_table = len(c.shape.steps) > MOST_INLINED
        self._blocks: dict[tuple[int, Block], Block] = {}
        self._pending: list[tuple[int, Block]] = []
        self._alarmed: dict[int, Block] = {}
        self._check = self.f.block("check_steps")
        self.enter = self.f.block("first_instruction")

    def emit(self) -> None:
        """Emit all blocks, and backtracking."""
        f, c = self.f, self.c
        f.at(self.enter)
        self.go(0)
        if self.is_table:
            self._emit_table()
        else:
            if self.shape.kept:
                for at in range(len(self.shape.steps)):
                    self._block(at)
            self._emit_pending()
            f.at(c.dispatch)
            self._dispatch()
        f.at(self._check)
        self._check_steps()
        f.at(c.fail)
        self._fail()

    # ---- places in the pattern -------------------------------------------------------------------------------

    def _block(self, at: int, fail: Block | None = None) -> Block:
        key = at, fail or self.c.fail
        if key not in self._blocks:
            self._blocks[key] = self.f.block(f"i{at}")
            self._pending.append(key)
        return self._blocks[key]

    def go(self, to: Operand) -> None:
        """Continue with an instruction."""
        if self.is_table:
            self.c.pc.set(to)
            self.f.jump(self.c.dispatch)
        else:
            assert isinstance(to, int)
            self.f.jump(self._block(to))

    def _dispatch(self) -> None:
        steps = self.shape.steps
        known = range(len(steps)) if self.shape.kept else sorted({one.second for one in steps if one.op == oc.SPLIT})
        cases = {} if self.choices.is_certain else {at: self._block(at) for at in known}
        if cases:
            self.f.switch(self.c.pc, cases)
        else:
            self.f.jump(self.c.exhausted)
        self._emit_pending()

    def _emit_pending(self) -> None:
        while self._pending:
            at, fail = self._pending.pop()
            self.f.at(self._blocks[at, fail])
            step = self.shape.steps[at]
            self._emit_kind(step.op, step.label, at, fail)

    def _field(self, at: Operand, field: int) -> Operand:
        """A field of an instruction, known now or read from the table."""
        if not isinstance(at, int):
            return self.s.code[self.f.value(at) * FIELDS + field]
        return int(cast(int, self.shape.steps[at][field]))

    def _bits(self, at: Operand, field: int) -> Value:
        """A field that is a set of labels."""
        bits = self._field(at, field)
        return self.f.constant(bits, U64) if isinstance(bits, int) else self.f.value(bits).bits_as(U64)

    def _next(self, at: Operand) -> Operand:
        return at + 1 if isinstance(at, int) else self.f.value(at) + 1

    def _emit_table(self) -> None:
        """One block for each kind of instruction; that of MATCH has one for each label."""
        f, c = self.f, self.c
        f.at(c.dispatch)
        steps = self.shape.steps
        kinds = {op: f.block("kind") for op in sorted({step.op for step in steps})}
        f.switch(self._field(c.pc.value, layout.OP), kinds)
        labels = {label: f.block("label") for label in sorted({step.label for step in steps if step.op == oc.MATCH})}
        for op, block in kinds.items():
            f.at(block)
            if op != oc.MATCH:
                self._emit_kind(op, 0, c.pc.value, c.fail)
                continue
            f.switch(self._field(c.pc.value, layout.LABEL), labels)
            for label, its in labels.items():
                f.at(its)
                self._match(c.pc.value, label, c.fail)

    def _emit_kind(self, op: int, label: int, at: Operand, fail: Block) -> None:
        if op == oc.MATCH:
            self._match(at, label, fail)
            return
        kinds: dict[int, Callable[[Operand, Block], None]] = {
            oc.SPLIT: self._split, oc.JUMP: self._jump, oc.START: self._start, oc.END: self._end,
            oc.ENTER: self._enter, oc.CHECK: self._check_loop, oc.ACCEPT: self._accept,
        }  # fmt: skip
        kinds[op](at, fail)

    # ---- MATCH: a row is taken -------------------------------------------------------------------------------

    def _match(self, at: Operand, label: int, fail: Block) -> None:
        f, s, c, shape = self.f, self.s, self.c, self.shape
        self._need_row(at, fail)
        row = c.row.value
        again = None
        if shape.counting:
            again = (row > c.start) & s.path[f.select(row > c.start, row - 1 - c.origin, 0)].to(I64).equals(at)
        refused = f.block("refused") if shape.counting else fail
        f.jump_unless((s.bits[row] & self._bits(at, layout.BIT)).differs(0), refused)
        place = row - c.origin
        s.path[place] = f.value(at).to(I32)
        self._take(label, at, place, row, refused)
        if shape.counting:
            assert again is not None
            self._count(at, again, False)
            with_refusal = f.block("taken")
            f.jump(with_refusal)
            f.at(refused)
            self._count(at, again, True)
            f.jump(fail)
            f.at(with_refusal)
        c.row.set(row + 1)
        self._after_row(at, label)

    def _take(self, label: int, at: Operand, place: Value, row: Value, refused: Block) -> None:
        """Give the row to the label, if its condition holds."""
        f, s, c = self.f, self.s, self.c
        match, conditions = c.match, c.conditions
        last = None
        if label in match.last_row:
            last = match.last_row[label].value
            if not self.choices.is_certain:
                s.previous[place] = last
            match.first_row[label].set(f.select(last < 0, row, match.first_row[label]))
            match.last_row[label].set(row)
        if conditions.traits.aggregates:
            conditions.take(label, row.equals(c.start))
        holds = conditions.label_holds(label)
        if holds is None:
            return
        if last is None:
            f.jump_unless(holds, refused)
            return
        with f.when(~holds):
            match.last_row[label].set(last)
            f.jump(refused)

    def _need_row(self, at: Operand, fail: Block) -> None:
        """Continue only with a row that is there, in the window."""
        f, c, shape = self.f, self.c, self.shape
        with f.when(c.row >= c.available):
            if not shape.final:
                self._wait_unless_late(at)
            self._cut_off()
            f.jump(fail)
        if shape.windowed:
            with f.when(c.is_late(c.row.value)):
                self._cut_off()
                f.jump(fail)

    def _wait_unless_late(self, at: Operand) -> None:
        """Wait for rows, unless the window has ended."""
        f, c, shape = self.f, self.c, self.shape
        passed = f.variable("passed", c.window_ended())
        if shape.windowed and shape.looks_ahead:
            with f.when(c.row < c.hi):
                passed.set(c.is_late(c.row.value))
        with f.when(~passed):
            self._wait(at)

    def _wait(self, at: Operand) -> None:
        f, c = self.f, self.c
        if self.shape.mode != layout.INCREMENTAL:
            c.pc.set(at)
            f.jump(c.waits)
            return
        c.waiting.set(True)
        if self.shape.by_way:
            self.s.rare[ways.WAITS] = 1

    def _cut_off(self) -> None:
        """Remember the rows until the window ended, the first time."""
        f, s, c = self.f, self.s, self.c
        if not self.shape.timed_out:
            return
        with f.when(c.cut.equals(0)):
            c.cut.set(c.row - c.start)
            with f.loop(c.start - c.origin, c.row - c.origin) as at:
                s.best[at] = s.path[at]

    def _count(self, at: Operand, again: Value, failed: bool) -> None:
        """Count a row that came to an instruction, once."""
        f, s, c = self.f, self.s, self.c
        with f.when(c.row >= c.frontier):
            c.frontier.set(c.row)
            place = f.value(at) * 4 + again.to(I64) * 2
            s.counts[place] = s.counts[place] + 1
            if failed:
                s.counts[place + 1] = s.counts[place + 1] + 1

    def _after_row(self, at: Operand, label: int) -> None:
        c, shape = self.c, self.shape
        following = self._next(at)
        if c.follows:
            self._follow_last_match(at)
        if self._takes_loop(at, label):
            assert isinstance(at, int)
            self._take_loop(at, label)
            return
        if shape.by_way:
            self._arrive(following)
        self.go(following)

    def _takes_loop(self, at: Operand, label: int) -> bool:
        """Does a greedy loop over this label follow, that may take rows at once?"""
        if not isinstance(at, int) or self.shape.counting or self.c.conditions.traits.steady[label] is None:
            return False
        return self.shape.steps[at + 1].loops_here and at + 1 not in self.choices.certain

    def _follow_last_match(self, at: Operand) -> None:
        """Continue like the last match if it took this row by the same instruction."""
        f, s, c = self.f, self.s, self.c
        row = c.row.value
        inside = row <= c.last_end
        place = f.select(inside, c.last_path + row, 0)
        with f.when(inside & s.out_path[place].to(I64).equals(at)):
            with f.loop(row, c.last_end) as later:
                s.path[later - c.origin] = s.out_path[c.last_path + later + 1]
            c.row.set(c.last_end)
            accept(c, c.fail)

    # ---- loops over one label --------------------------------------------------------------------------------

    def _take_loop(self, at: int, label: int) -> None:
        """Take rows while they last; each is a way out of the loop."""
        f, c, shape = self.f, self.c, self.shape
        choice, slow = at + 1, f.block("slow")
        out = shape.steps[choice].second
        if c.remembers:
            f.jump_if(c.memory_on, slow)
        self._need_stack(choice)
        low, stop = c.row.value, f.variable("stop", c.available)
        if shape.seeks_labels or shape.sifts:
            with f.when(c.sieve.differs(layout.PASSED) | c.lacking):
                ahead = f.select(c.sieve.equals(layout.NOT_SOUGHT), layout.SEEK_LABELS_AFTER, c.patience)
                stop.set(f.least(c.available, low + ahead))
        done = f.block("rushed")
        with f.during(lambda: c.row < stop):
            self._take_loop_row(at, label, done)
        f.join(done)
        taken = c.row - low
        c.steps.set(c.steps + taken)
        c.loop_steps.set(c.loop_steps + taken)
        with f.when(taken > 0):
            self._push(out, c.row - 1, low)
        ended, more = f.block("loop_ended"), f.block("loop_stopped")
        f.branch(c.row < stop, ended, more)
        for block, to in ((ended, out), (more, choice)):
            f.at(block)
            if shape.by_way:
                self._arrive(to)
            self.go(to)
        f.at(slow)
        if not c.remembers:
            f.jump(done)  # never reached
            return
        if shape.by_way:
            self._arrive(choice)
        self.go(choice)

    def _take_loop_row(self, at: int, label: int, done: Block) -> None:
        f, s, c, shape = self.f, self.s, self.c, self.shape
        row = c.row.value
        f.jump_unless((s.bits[row] & self._bits(at, layout.BIT)).differs(0), done)
        if shape.windowed:
            f.jump_if(c.is_late(row), done)
        holds = c.conditions.label_holds(label)
        if holds is not None:
            f.jump_unless(holds, done)
        place = row - c.origin
        s.path[place] = f.constant(at, I32)
        if label in c.match.last_row:
            s.previous[place] = c.match.last_row[label].value
            c.match.last_row[label].set(row)
        c.row.set(row + 1)

    def _arrive(self, at: Operand) -> None:
        """Note the arrival at the last row: all ways that arrive alike continue alike."""
        f, s, c, shape = self.f, self.s, self.c, self.shape
        with f.when(c.row >= c.available):
            known = f.constant(False, (c.row < 0).type)
            if shape.memory != layout.NO_MEMORY:
                era = c.taken if shape.first_ends else c.mine
                known = s.arrived[at].equals(era)
                s.arrived[at] = era
            s.rare[ways.ARRIVAL] = f.value(at)
            s.rare[ways.KEPT_HERE] = 0
            s.rare[ways.WAITS] = 0
            for loop in range(shape.loops + 1):
                s.arrival_loops[loop] = s.loop_rows[loop]
            f.jump_if(known, c.fail)

    # ---- SPLIT: a choice -------------------------------------------------------------------------------------

    def _split(self, at: Operand, fail: Block) -> None:
        f, c, shape = self.f, self.c, self.shape
        self._step(at)
        first, second = self._field(at, layout.FIRST), self._field(at, layout.SECOND)
        is_certain = isinstance(at, int) and at in self.choices.certain
        if is_certain and shape.steps[at].loops_here and not shape.bounded:  # type: ignore[index]
            c.loop_steps.set(c.loop_steps + 1)
        if not shape.counting and not is_certain:
            self._pass_by(at, first, second)
        if is_certain and not shape.final:
            with f.when(c.row >= c.available):
                self._choose(at, fail, first, second)
        if not is_certain:
            self._choose(at, fail, first, second)
            return
        self._remember(at, fail)
        assert isinstance(second, int)
        only = self.choices.only_label(first)
        otherwise = self._block(second)
        f.jump(self._block(only, otherwise))

    def _step(self, at: Operand) -> None:
        """Count a step; check the attempt now and then."""
        f, c = self.f, self.c
        c.steps.set(c.steps + 1)
        after, alarmed = f.block("step"), f.block("alarm")
        f.branch(c.steps > c.alarm, alarmed, after)
        f.at(alarmed)
        c.pc.set(at)
        f.jump(self._check)
        f.at(after)
        if isinstance(at, int):
            # The block of the instruction may be built several times; any of them is right.
            self._alarmed.setdefault(at, after)
        else:
            self._alarmed[-1] = after

    def _pass_by(self, at: Operand, first: Operand, second: Operand) -> None:
        """Skip the choice if the row does not offer a label that one side needs."""
        f, s, c = self.f, self.s, self.c
        everything = 2**64 - 1
        sides = []
        for side, other in ((first, second), (second, first)):
            entry = self._field(side, layout.ENTRY)
            if not (isinstance(entry, int) and entry == everything):
                sides.append((self._bits(side, layout.ENTRY), other))
        if not sides:
            return
        has_row = c.row < c.available
        with f.when(has_row & ~c.memory_on if c.remembers else has_row):
            bits = s.bits[c.row]
            for entry_bits, other in sides:
                with f.when((bits & entry_bits).equals(0)):
                    self.go(other)

    def _choose(self, at: Operand, fail: Block, first: Operand, second: Operand) -> None:
        """Try the first side, and leave the second one for later."""
        self._need_stack(at)
        self._remember(at, fail)
        self._push(second, self.c.row, self.c.row)
        self.go(first)

    def _remember(self, at: Operand, fail: Block) -> None:
        """Fail if this choice was tried before at this row."""
        f, s, c, shape = self.f, self.s, self.c, self.shape
        if not c.remembers:
            return
        with f.when(c.memory_on):
            state = f.variable("state", self._field(at, layout.SLOT))
            if isinstance(at, int):
                for loop in shape.steps[at].around:
                    state.set(state + s.loop_rows[loop].equals(c.row).to(I64))
            else:
                with f.loop(s.loop_from[at], s.loop_from[f.value(at) + 1]) as place:
                    state.set(state + s.loop_rows[s.loop_ids[place].to(I64)].equals(c.row).to(I64))
            index = (c.row - c.base) * shape.slots + state
            with f.when(index >= s.memo.length):
                c.pc.set(at)
                c.be_full(layout.MEMORY_NEEDED)
            f.jump_if(s.memo[index].equals(c.stamp), fail)
            s.memo[index] = c.stamp
            c.remembered_to.set(f.greatest(c.remembered_to, c.row))

    # ---- the stack -------------------------------------------------------------------------------------------

    def _need_stack(self, at: Operand) -> None:
        f, c = self.f, self.c
        with f.when(c.sp >= c.stack_room):
            if self.shape.by_attempt:
                enlarge_stack(c)
            with f.when(c.sp >= c.stack_room):
                c.pc.set(at)
                c.be_full(layout.STACK_FULL)

    def _push(self, to: Operand, row: Operand, low: Operand) -> None:
        s, c = self.s, self.c
        place = c.bottom + c.sp
        s.stack_pc[place] = self.f.value(to).to(I32)
        s.stack_row[place] = self.f.value(row)
        s.stack_low[place] = self.f.value(low)
        c.sp.set(c.sp + 1)

    def _fail(self) -> None:
        """Return to the last untried choice."""
        f, s, c, shape = self.f, self.s, self.c, self.shape
        if shape.bounded:
            c.furthest.set(f.greatest(c.furthest, c.row))
        if shape.by_way:
            self._keep_way()
        if self.choices.is_certain:
            f.jump(c.exhausted)
            return
        pop, take, empty = f.block("pop"), f.block("take"), f.block("stack_empty")
        f.join(pop)
        f.branch(c.sp > 0, take, empty)
        f.at(empty)
        if shape.by_way:
            with f.when(s.rare[ways.RESUMED].differs(0) & ways.has_more(s, c.start, width=c.way.width)):
                take_way_up(c)
                f.jump(c.dispatch)
        f.jump(c.exhausted)
        f.at(take)
        c.sp.set(c.sp - 1)
        place = c.bottom + c.sp
        target, to, low = s.stack_row[place], s.stack_pc[place].to(I64), s.stack_low[place]
        if shape.loops:
            with f.when(to < 0):
                s.loop_rows[-1 - to] = target
                f.jump(pop)
        for last in c.match.last_row.values():
            with f.during(lambda last=last: last >= target):  # type: ignore[misc]
                last.set(s.previous[last - c.origin])
        c.pc.set(to)
        c.row.set(target)
        if any(step.loops_here for step in shape.steps) and not self.is_table:
            with f.when(low < target):
                self._leave_loop(target, low, place)
        f.jump(c.dispatch)

    def _leave_loop(self, target: Value, low: Value, place: Value) -> None:
        """Leave a loop, at its last row first: rows at which nothing can continue are passed over."""
        f, s, c, shape = self.f, self.s, self.c, self.shape
        outs: dict[int, list[int]] = {}
        for at in range(len(shape.steps) - 1):
            if shape.steps[at].op == oc.MATCH and self._takes_loop(at, shape.steps[at].label):
                outs.setdefault(shape.steps[at + 1].second, []).append(shape.steps[at].label)
        if not outs:
            return
        after = f.block("way_out")
        cases = {out: f.block(f"out_of_{out}") for out in outs}
        f.switch(c.pc, cases, after)
        for out, labels in outs.items():
            f.at(cases[out])
            self._find_way_out(out, labels, low)
            f.jump(after)
        f.at(after)
        c.steps.set(c.steps + 1)
        for label in sorted({label for labels in outs.values() for label in labels} & set(c.match.last_row)):
            last = c.match.last_row[label]
            with f.during(lambda last=last: last >= c.row):  # type: ignore[misc]
                last.set(s.previous[last - c.origin])
        with f.when(low < c.row):
            s.stack_row[place] = c.row - 1
            c.sp.set(c.sp + 1)

    def _find_way_out(self, out: int, looping: list[int], low: Value) -> None:
        """Move the row back while the instruction after the loop cannot take it."""
        f, s, c = self.f, self.s, self.c
        step = self.shape.steps[out]
        compared = c.conditions.traits.steady[step.label] if step.op == oc.MATCH else None
        tests = compared is not None and not compared & set(looping)
        with f.during(lambda: c.row > low) as found:
            with f.when((s.bits[c.row] & self._bits(out, layout.ENTRY)).differs(0)):
                holds = c.conditions.label_holds(step.label) if tests else None
                f.jump_if(f.value(True) if holds is None else holds, found)
            c.row.set(c.row - 1)

    def _keep_way(self) -> None:
        f, s, c = self.f, self.s, self.c
        waits = s.rare[ways.WAITS].differs(0) & s.rare[ways.KEEPS].differs(0) & s.rare[ways.KEPT_HERE].equals(0)
        with f.when(waits):
            c.fill_marks()
            arrival, loops = s.rare[ways.ARRIVAL], "arrival_loops"
            kept_as = ways.keep_way(s, c.start, arrival, c.row, c.steps, c.origin, shape=c.way, loops=loops)
            leave_without_room(c, kept_as, c.attempt_full)

    # ---- other instructions ----------------------------------------------------------------------------------

    def _jump(self, at: Operand, fail: Block) -> None:
        self.go(self._field(at, layout.FIRST))

    def _start(self, at: Operand, fail: Block) -> None:
        f, s, c = self.f, self.s, self.c
        f.jump_unless(c.row.equals(c.lo) & s.at_start[c.k].differs(0), fail)
        self.go(self._next(at))

    def _end(self, at: Operand, fail: Block) -> None:
        f, c, shape = self.f, self.c, self.shape
        f.jump_if(c.row < c.hi, fail)
        if shape.final:
            self.go(self._next(at))
            return
        with f.when(c.at_end < 0):
            c.at_end.set(c.start)
        self._wait(at)
        if not f.has_ended:
            f.jump(fail)

    def _enter(self, at: Operand, fail: Block) -> None:
        f, s, c = self.f, self.s, self.c
        self._need_stack(at)
        loop = f.value(self._field(at, layout.FIRST))
        self._push(-1 - loop, s.loop_rows[loop], s.loop_rows[loop])
        s.loop_rows[loop] = c.row
        self.go(self._next(at))

    def _check_loop(self, at: Operand, fail: Block) -> None:
        """End a loop whose iteration took no row."""
        f, s, c = self.f, self.s, self.c
        with f.when(s.loop_rows[f.value(self._field(at, layout.FIRST))].equals(c.row)):
            self.go(self._field(at, layout.SECOND))
        self.go(self._next(at))

    def _accept(self, at: Operand, fail: Block) -> None:
        self.c.pc.set(at)
        accept(self.c, fail)

    # ---- what long attempts are asked ------------------------------------------------------------------------

    def _check_steps(self) -> None:
        f, c, shape = self.f, self.c, self.shape
        if shape.seeks_labels:
            with f.when(c.sieve.equals(layout.NOT_SOUGHT) & (c.steps > layout.SEEK_LABELS_AFTER)):
                # Each label that every match has must be offered within the window.
                look_for_labels(c, c.exhausted)
        if shape.seeks_labels or shape.sifts:
            with f.when(c.steps > c.patience):
                self._lose_patience()
        with f.when(c.steps > layout.MEMORY_AFTER):
            if c.remembers:
                c.memory_on.set(True)
            enough = c.budget + (c.hi - c.start) * layout.STEPS_PER_ROW
            f.jump_if((c.steps > c.budget) & (c.steps > enough), c.spent)
        self._set_alarm()
        if not self._alarmed:
            f.jump(c.exhausted)
        elif self.is_table:
            f.jump(self._alarmed[-1])
        else:
            f.switch(c.pc, self._alarmed)

    def _set_alarm(self) -> None:
        """Set the least number of steps, from now on, at which something is checked."""
        f, c, shape = self.f, self.c, self.shape
        steps = c.steps.value
        alarm = f.select(steps < c.budget, c.budget, steps)
        alarm = f.select(steps <= layout.MEMORY_AFTER, layout.MEMORY_AFTER, alarm)
        if shape.seeks_labels or shape.sifts:
            alarm = f.select(steps <= c.patience, f.least(c.patience, alarm), alarm)
        if shape.seeks_labels:
            alarm = f.select(steps <= layout.SEEK_LABELS_AFTER, layout.SEEK_LABELS_AFTER, alarm)
        c.alarm.set(alarm)

    def _lose_patience(self) -> None:
        """Wait for a label that must come, or sift: the search has become long."""
        f, s, c, shape = self.f, self.s, self.c, self.shape
        may_wait = shape.mode != layout.INCREMENTAL and not shape.with_unmatched
        if may_wait and shape.seeks_labels:
            f.jump_if(c.lacking, c.waits)
        if not shape.sifts:
            return
        with f.when(c.sieve.equals(layout.UNSIFTED)):
            status = run_sieve(c)
            s.cursor[layout.SIFTINGS] = s.cursor[layout.SIFTINGS] + s.rare[ways.SIFTED_TO] - c.start
            with f.when(status.equals(FAILS)):
                if shape.final:
                    with f.when(s.cursor[layout.SIFTINGS] > s.settings[MOST_SIFTED]):
                        c.be_full(layout.SIFTING_SLOW)
                f.jump(c.exhausted)
            c.sieve.set(layout.PASSED)
            if may_wait and not shape.final:
                with f.when(status.equals(UNDECIDED)):
                    c.sieve.set(layout.STUCK)
                    f.jump(c.waits)
