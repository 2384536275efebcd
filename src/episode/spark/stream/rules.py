"""Rules over a stream that change while it runs.

A change must be the same for every shard, and in every run of a micro-batch. So changes come to the shards as events
do: the files of the rule log are a stream of Spark's, each change is an envelope for every shard, and Spark's log of
offsets assigns it to a micro-batch. A shard first matches all events up to the watermark of the micro-batch, which is
the same for all shards; then it changes its rules. So a change applies to exactly the events after that watermark.

See decision 164.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from episode.errors import EpisodeUnsupportedError
from episode.matchers.envelope import SCHEMA, is_order, order_envelopes
from episode.matchers.rules.matcher import RuleSetMatcher
from episode.matchers.rules.one_rule import RESULT, Effect, RuleChange
from episode.matchers.rules.spec import RULE, ChangingSpec
from episode.matchers.spark_types import held_as, spark_name
from episode.matchers.state import fingerprint
from episode.matchers.stream_shard import NO_WATERMARK, StreamShard
from episode.plan.event_time import EventTime
from episode.plan.options import RunOptions
from episode.plan.schema import quote
from episode.spark import types as carry
from episode.spark.batch.rules import has_variant
from episode.spark.stream.runtime import Stream, plan_stream
from episode.spark.stream.shards import ROLL_CALL, ShardChunks, ShardProcessor, StreamSettings, _Head, query_id
from episode.store.rule_log import RuleLog

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import TimerValues

_EVER = "36500d"
"""The greatest age of a change that Spark reads."""


@dataclass(frozen=True)
class RuleStream(Stream):
    """A planned stream of rules. log: where the rule log is."""

    log: str = ""

    @property
    def reasons(self) -> list[str]:
        return [*super().reasons, f"rules: those of the rule log {self.log}, from one micro-batch to the next"]

    def _processor(self) -> ShardProcessor:
        assert isinstance(self.spec, ChangingSpec)
        return RuleProcessor(self.spec, self.settings, RuleLog(self.log))

    def _envelopes(self) -> DataFrame:
        reader = self.spark.readStream.schema("value string").options(wholetext=True, maxFileAge=_EVER)
        changes = reader.option("pathGlobFilter", "*.json").text(RuleLog(self.log).changes_path)
        return super()._envelopes().unionByName(changes.mapInArrow(_orders(self.settings.shards), SCHEMA))


def plan_rule_stream(
    spark: SparkSession, frame: DataFrame, spec: ChangingSpec, time: EventTime, run: RunOptions, log: str
) -> RuleStream:
    """Plan rules over a streaming DataFrame. Its columns are those that the rules may read."""
    stream = plan_stream(spark, frame, spec.input_columns, (), lambda _: spec, time, {}, run)
    return RuleStream(**vars(stream), log=str(RuleLog(log).place))


def readable_columns(frame: DataFrame) -> tuple[DataFrame, pa.Schema]:
    """The columns of a stream that rules may read, and their types in the matchers.

    Left out are those of types that do not travel as they are: a rule that reads one is refused.
    """
    fields = []
    for one in frame.schema.fields:
        try:
            kind = carry.arrow_schema(StructType([one])).field(0)
            if spark_name(held_as(kind.type)) == one.dataType.simpleString():
                fields.append(kind)
        except EpisodeUnsupportedError:
            continue
    return frame.select(*(quote(one.name) for one in fields)), pa.schema(fields)


def with_variants(matches: DataFrame) -> DataFrame:
    """Matches of rules with their results as VARIANT, if Spark has it."""
    return matches.withColumn(RESULT, F.parse_json(RESULT)) if has_variant(matches) else matches


def of_rule(matches: DataFrame, rule: str, schema: pa.Schema) -> DataFrame:
    """The matches of one rule as columns. schema: of its result."""
    fields = ", ".join(f"{quote(one.name)} {spark_name(held_as(one.type))}" for one in schema)
    own = matches.where(F.col(RULE) == rule)
    return own.select(F.from_json(RESULT, fields).alias(RESULT)).select(f"{RESULT}.*")


def _orders(shards: int) -> Any:
    """Runs in the workers: changes as envelopes for every shard, and for the bookkeeping shard (ROLL_CALL)."""

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                yield order_envelopes([ROLL_CALL, *range(shards)], RuleChange.from_json(text).number, text.encode())

    return stage


class RuleProcessor(ShardProcessor):
    """Steps of the shards of one task, and changes of their rules between steps."""

    def __init__(self, spec: ChangingSpec, settings: StreamSettings, log: RuleLog) -> None:
        super().__init__(spec, settings)
        self.log, self.log_id = log, log.id
        self.changes: list[RuleChange] = []

    @property
    def fingerprint(self) -> str:
        """Refuse another log, whose changes would have the numbers of changes that were made already."""
        return fingerprint(super().fingerprint, self.log_id)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: TimerValues
    ) -> Iterator[pd.DataFrame]:
        frames = [(frame, is_order(frame["origin"].to_numpy())) for frame in rows]
        texts = [bytes(blob) for frame, orders in frames for blob in frame["blob"][orders]]
        changes = [RuleChange.from_json(text.decode()) for text in texts]
        if key[0] == ROLL_CALL:  # for `rules()`: when changes took effect
            watermark = self._watermark(timerValues)
            for change in changes:
                after = None if watermark == NO_WATERMARK else watermark
                self.log.write_effect(Effect(change.number, after, query_id()))
        else:
            self.changes = changes
        yield from super().handleInputRows(key, (frame[~orders] for frame, orders in frames), timerValues)

    def _shard(self, number: int, head: _Head) -> tuple[StreamShard, ShardChunks]:
        shard, chunks = super()._shard(number, head)
        assert isinstance(shard.matcher, RuleSetMatcher)
        shard.matcher.done = shard.watermark
        return shard, chunks

    def _after_step(self, number: int, shard: StreamShard) -> None:
        """Change the rules, after all events of the step were fed."""
        matcher = shard.matcher
        assert isinstance(matcher, RuleSetMatcher)
        before = matcher.given_up
        changes, self.changes = self.changes, []
        matcher.change(changes, shard.watermark)
        shard.counters.given_up += matcher.given_up - before
        shard.counters.skipped_keys = matcher.quarantined_keys
        shard.counters.state_rows = matcher.state_rows
        for failure in matcher.failures():
            self.log.write_failure(query_id(), number, failure)
