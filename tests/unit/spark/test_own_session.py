"""What episode says of a session that is not fit, before or after Spark tries: Java, workers, state partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from episode.errors import EpisodeError
from episode.spark.errors import missing_on_workers, translate
from episode.spark.startup.session import JAVA_OPTIONS, check_java, java_settings, not_started
from episode.spark.stream.runtime import many_partitions


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment without Java."""
    for name in ("JAVA_HOME", "SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_no_java_is_one_sentence(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EpisodeError, match="There is no Java on this machine") as raised:
        check_java()
    assert raised.value.hint is not None
    assert "Install Java 17 or 21" in raised.value.hint
    monkeypatch.setenv("JAVA_HOME", str(bare))
    with pytest.raises(EpisodeError, match=r"JAVA_HOME is .*, which has no bin/java"):
        check_java()
    java = bare / "bin" / "java"
    java.parent.mkdir()
    java.touch(0o755)
    check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(java.parent))
    check_java()


def test_java_may_be_named_by_settings_of_spark(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(bare))
    check_java()


@pytest.mark.parametrize("name", ["SPARK_HOME", "SPARK_CONF_DIR"])
def test_a_spark_with_settings_of_its_own_is_left_alone(bare: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    assert JAVA_OPTIONS in java_settings()
    monkeypatch.setenv(name, "/opt/spark")
    assert JAVA_OPTIONS not in java_settings()


def test_a_java_that_ends_at_once() -> None:
    found = not_started(
        RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")
    )
    assert found is not None
    assert "Java process ended at once" in found.message
    assert not_started(RuntimeError("something else")) is None


def test_workers_without_episode() -> None:
    text = (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        "  File \"worker.py\", line 1\nModuleNotFoundError: No module named 'episode.spark'\n\n\tat org.apache.spark"
    )
    found = translate(RuntimeError(text))
    assert found is not None
    assert found.message == "Spark's Python workers cannot import episode: they run a Python that does not have it."
    assert found.hint is not None
    assert "PYSPARK_PYTHON" in found.hint
    assert missing_on_workers("ModuleNotFoundError: No module named 'episodes'") is None
    assert missing_on_workers("ModuleNotFoundError: No module named 'mine'") is None


@pytest.mark.parametrize(
    ("partitions", "shards", "slots", "wanted"),
    [
        (200, 32, 2, "2"), (200, 32, None, "32"), (200, 1, 8, "1"), (65, 32, 4, "4"),
        (64, 32, 4, None), (200, 32, 100, None), (32, 1, 1, None), (200, 200, 2, None),
    ],
)  # fmt: skip
def test_many_state_partitions(partitions: int, shards: int, slots: int | None, wanted: str | None) -> None:
    found = many_partitions(partitions, shards, slots)
    assert (found is None) == (wanted is None)
    assert found is None or f'spark.conf.set("spark.sql.shuffle.partitions", "{wanted}")' in found
