"""Rules that change under live tasks: the time of effect is agreed before any task is past it.

1. The driver asks (`RuleLog.propose`). A task that sees it stops between two steps, and answers up to which time it has
   matched all events.
2. When all tasks have answered, the greatest of these times is the agreed one. It is written durably (`Effect`).
3. Each task resumes: up to the agreed time with the old rules, after it with the changed ones.

So the matches up to a position of the input depend on the position and the agreed times alone: a restarted task reads
from its snapshot, and changes its rules at the same times.

See decision 169.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from episode.matchers.rules.matcher import RuleSetMatcher
from episode.matchers.rules.one_rule import Effect, RuleChange
from episode.matchers.stream_shard import Counters, Envelope, StreamShard
from episode.matchers.times import NEVER
from episode.store.rule_log import RuleLog

ENDED = 99_999_999
"""Answer of a task whose input has ended, in place of a change's number."""


class TaskRules:
    """The rules of one task, and their pending changes."""

    def __init__(self, log: str, query: str, task: int) -> None:
        self.log, self.query, self.task = RuleLog(log), query, task
        self._pending: list[tuple[int, RuleChange]] = []
        self._known = 0
        """The number of the last change whose effect is known."""
        self._answered = 0

    def poll(self, shard: StreamShard) -> bool:
        """Read what was asked and agreed; returns whether the task may continue."""
        asked = self.log.proposal()
        if asked > self._known or not self._known:
            self.learn()
        self.settle(shard)
        if asked <= self._known:
            return True
        if self._answered < asked:
            self.log.answer(asked, self.task, int(shard.watermark))
            self._answered = asked
        return False

    def end(self, shard: StreamShard) -> None:
        """Answer that the input has ended: no further change has an effect here."""
        self.log.answer(ENDED, self.task, int(shard.watermark))

    def learn(self) -> None:
        """Read the changes whose effects are agreed."""
        agreed = {one.number: one.after for one in self.log.effects() if one.query == self.query}
        new = [change for change in self.log.changes() if change.number in agreed and change.number > self._known]
        for change in new:
            after = agreed[change.number]
            self._pending.append((NEVER if after is None else after, change))
            self._known = change.number

    def settle(self, shard: StreamShard) -> None:
        """Apply the changes that the shard has reached."""
        matcher = shard.matcher
        assert isinstance(matcher, RuleSetMatcher)
        matcher.done = shard.watermark
        while self._pending and self._pending[0][0] <= shard.watermark:
            after, change = self._pending.pop(0)
            matcher.change([change], after)

    def advance(self, shard: StreamShard, envelopes: Sequence[Envelope], watermark: int) -> Iterator[pa.Table]:
        """Advance the shard, up to each agreed time in turn."""
        total, late, given_up = Counters(), None, shard.matcher.given_up
        while True:
            self.settle(shard)
            stop = min([watermark, *(after for after, _ in self._pending[:1])])
            yield from shard.advance(envelopes, stop)
            total, late = total.then(shard.counters), shard.late if late is None else late
            if stop >= watermark:
                break
            envelopes = []
        self.settle(shard)
        matcher = shard.matcher
        assert isinstance(matcher, RuleSetMatcher)
        total.given_up, total.skipped_keys = matcher.given_up - given_up, matcher.quarantined_keys
        shard.counters, shard.late = total, late
        for failure in matcher.failures():
            self.log.write_failure(self.query, self.task, failure)


def agree(log: RuleLog, query: str, tasks: int) -> bool:
    """Ask the tasks about new changes and write what they agree on; returns whether nothing is open. For the driver."""
    known = {one.number for one in log.effects() if one.query == query}
    open_ = [change for change in log.changes() if change.number not in known]
    if not open_:
        return True
    if not known:  # no task has begun: these are the rules from the start
        for change in open_:
            log.write_effect(Effect(change.number, None, query))
        return True
    asked = log.proposal()
    if asked not in {change.number for change in open_}:
        asked = open_[-1].number
        log.propose(asked)
    answers = {**log.answers(ENDED), **log.answers(asked)}
    if len(answers) < tasks:
        return False
    reached = max(answers.values())
    for change in open_:
        if change.number <= asked:
            log.write_effect(Effect(change.number, None if reached == NEVER else reached, query))
    return False
