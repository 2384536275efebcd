"""What the clients of Kafka in live tasks have in common: the package, its settings, and errors in words.

Live tasks use librdkafka (the package confluent-kafka), and Spark uses Kafka's Java client. Options `kafka.…` of a
declaration are for both; `librdkafka.…` are for live tasks alone, and take the place of those that only Java knows.
"""

from __future__ import annotations

from typing import Any

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeError, install
from episode.store.declaration import Declaration

TOPIC = "topic"
PATIENCE = 60.0
"""Seconds that the broker has to answer."""
_BOTH, _OWN = "kafka.", "librdkafka."
_OF_JAVA = frozenset(
    (
        "sasl.jaas.config", "sasl.client.callback.handler.class", "sasl.login.callback.handler.class",
        "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type", "ssl.keystore.type",
    )
)  # fmt: skip


def client_library() -> Any:
    """The package confluent_kafka; where it is not there, an error says how to get it."""
    try:
        import confluent_kafka
    except ModuleNotFoundError:
        raise EpisodeError(
            "A live task reads and writes Kafka with the package confluent-kafka, which is not installed here.",
            hint=f"{install('kafka')}, in the environment of Spark's workers.",
        ) from None
    return confluent_kafka


def settings_of(declaration: Declaration) -> dict[str, Any]:
    """The settings of a client: those that the declaration names. It does not write to the standard error: what matters
    comes back as errors of calls."""
    own = {name[len(_OWN) :]: value for name, value in declaration.options.items() if name.startswith(_OWN)}
    both = {name[len(_BOTH) :]: value for name, value in declaration.options.items() if name.startswith(_BOTH)}
    if own:
        both = {name: value for name, value in both.items() if name not in _OF_JAVA}
    return {"log_level": 2, **both, **own}


def topic_of(declaration: Declaration) -> str:
    """The topic of a stream that is declared USING kafka."""
    return declaration.options[TOPIC]


def opened(kind: Any, settings: dict[str, Any], declaration: Declaration) -> Any:
    """A client of a kind (Consumer, Producer)."""
    library = client_library()
    try:
        return kind(settings)
    except library.KafkaException as error:
        raise EpisodeAnalysisError(
            f"The options of {declaration.name} are none for a live task: {error.args[0].str()}",
            hint="Live tasks use librdkafka. What only Spark's Java client knows has another name there: give it as an "
            "option librdkafka.…, for live tasks alone.",
        ) from None


def failed(what: str, error: Any) -> EpisodeDataError:
    """The error of a call, in words. error: of the library."""
    return EpisodeDataError(f"{what}: {error.str()} ({error.name()}).")
