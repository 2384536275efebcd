"""What is said where Kafka's client is missing, or does not know an option; and which options it gets."""

from __future__ import annotations

import sys

import pytest

from episode.errors import EpisodeDataError, EpisodeError
from episode.live.kafka import client_library, settings_of
from episode.live.kafka_sink import MOST_METADATA, pack_position, unpack_position
from episode.store.declaration import declare


def settings(**options: str) -> dict[str, object]:
    named = {name.replace("__", "."): value for name, value in options.items()}
    given = {"topic": "t", "kafka.bootstrap.servers": "h:1", **named}
    return settings_of(declare("T", "ts BIGINT", time="ts", using="kafka", options=given))


def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(EpisodeError, match="confluent-kafka, which is not installed") as error:
        client_library()
    assert (
        error.value.hint == "Install confluent-kafka (episode's extra 'kafka'), in the environment of Spark's workers."
    )


def test_options_of_both_clients() -> None:
    found = settings(kafka__bootstrap__servers="h:1", startingOffsets="latest", maxOffsetsPerTrigger="5")
    assert found == {"log_level": 2, "bootstrap.servers": "h:1"}


def test_options_of_one_client() -> None:
    found = settings(kafka__sasl__jaas__config="x", librdkafka__sasl__username="u", librdkafka__log_level="6")
    assert found == {"log_level": "6", "bootstrap.servers": "h:1", "sasl.username": "u"}


@pytest.mark.parametrize("parts", [0, 1, 200])
def test_positions_as_metadata(parts: int) -> None:
    position = {f"topic/{number}#greatest": 1_800_000_000_000_000 + number for number in range(parts)}
    assert unpack_position(pack_position(position)) == position
    assert len(pack_position(position)) <= MOST_METADATA


def test_too_many_partitions() -> None:
    position = {f"topic/{number}": hash((number, "x")) for number in range(2_000)}
    with pytest.raises(EpisodeDataError, match="too many partitions"):
        pack_position(position)
