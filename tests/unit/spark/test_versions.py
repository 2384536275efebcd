"""What is said of Sparks that lack something."""

from __future__ import annotations

import sys

import pytest

from episode.errors import EpisodeUnsupportedError
from episode.spark import versions
from episode.spark.stores.source import EpisodeSource

PROTO = "pyspark.sql.streaming.proto"


def test_streams_without_a_fitting_protobuf(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyspark's messages refuse to be loaded by a protobuf that is older than they are."""
    versions.check_streams()
    monkeypatch.delattr(sys.modules[PROTO], "StateMessage_pb2")
    monkeypatch.setitem(sys.modules, f"{PROTO}.StateMessage_pb2", None)
    with pytest.raises(EpisodeUnsupportedError, match="protobuf, which cannot be loaded") as raised:
        versions.check_streams()
    assert "pip install --upgrade 'protobuf>=6.33.5'" in str(raised.value)


def test_a_limit_where_spark_does_not_ask_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "HAS_READ_LIMITS", False)
    source = EpisodeSource({"stream": "s", "maxEventsPerTrigger": "5"})
    with pytest.raises(EpisodeUnsupportedError, match=r"maxEventsPerTrigger needs Spark 4\.2 or newer"):
        source.schema()


def test_every_partition_has_a_key() -> None:
    """As many keys as partitions, and of each partition its own."""
    for partitions in (1, 2, 7, 64):
        assert len(set(versions.keys_of_partitions(partitions))) == partitions
