"""The Spark session that episode works in: an existing one, as it is, or else a new one, local or of given settings.

See decision 145.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread

from pyspark import SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.sql import SparkSession

from episode.errors import EpisodeError

LOGGER = logging.getLogger("episode.spark")
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The setting of Spark's state store, and the one that streams need."""

PARTITIONS = "spark.sql.shuffle.partitions"
_PYTHON = "PYSPARK_PYTHON"
_WORKER_PYTHON = "spark.sql.execution.pyspark.python"
_PYTHON_SETTINGS = ("spark.pyspark.python", _WORKER_PYTHON)
_ELSEWHERE = ("SPARK_REMOTE", "PYSPARK_GATEWAY_PORT")
"""Environment variables that locate Spark: a server, or the process that runs this program."""

_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.daemon.module": "episode.spark.daemon",
    "spark.python.authenticate.socketTimeout": "60s",  # on a busy machine a worker takes longer than 15 s to begin
    "spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true",  # for stream stores, before 4.2
}
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
"""Comes before the options that a user sets (`spark.driver.extraJavaOptions`), and leaves them unchanged."""

_ANYWHERE = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR", STATE_STORE: ROCKSDB}
_SETTINGS_ELSEWHERE = ("SPARK_HOME", "SPARK_CONF_DIR", *_ELSEWHERE)
"""If one is set, Spark may not be the one of pyspark, or its settings are unknown."""

REMEDY = (
    "Install Java 17 or 21 (for example the package openjdk-17-jre-headless, or temurin from conda-forge), "
    "and set JAVA_HOME if it is not on the path."
)
_JAVA_ELSEWHERE = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT")
"""If one is set, Spark's installation may locate Java, or it runs already."""

_GATEWAY = "JAVA_GATEWAY_EXITED"

_SILENCE = Path(__file__).with_name("log4j2.properties")
_GIBIBYTE = 2**30
_PARTITIONS_PER_CORE = 2
"""Spark's default of 200 partitions is for clusters: on one machine every micro-batch of a stream waits for them."""


def session(spark: SparkSession | None = None) -> SparkSession:
    """The given session, else the active one, else a new local one with sensible settings."""
    found = spark or existing_session() or local_session("episode", own_settings())
    use_this_python(found)
    return found


def own_settings() -> dict[str, str]:
    """Settings of a session that episode starts itself."""
    return {
        "spark.driver.memory": _driver_memory(),
        "spark.sql.adaptive.enabled": "true",
        PARTITIONS: str(_PARTITIONS_PER_CORE * (os.cpu_count() or 1)),
        STATE_STORE: ROCKSDB,
    }


def existing_session() -> SparkSession | None:
    """The active session of this thread, else the process's; if neither exists, but Spark runs or the environment
    locates it, a session of that Spark. Their settings are not changed."""
    with suppress(PySparkRuntimeError):
        found = SparkSession.active()
        context = getattr(found, "_sc", None)  # None: Connect. A classic session does not know of a stopped context.
        if context is None or context._jsc is not None:
            return found
    # A builder with a setting would change it in a session of the JVM's.
    is_elsewhere = SparkContext._active_spark_context is not None or any(name in os.environ for name in _ELSEWHERE)
    return SparkSession.builder.getOrCreate() if is_elsewhere else None


def use_this_python(spark: SparkSession) -> None:
    """On one machine, let Spark's workers be this interpreter, which has episode, unless someone chose another one.

    Spark takes `python3` as the path has it, which in an environment that is not activated is another Python. A classic
    session takes the interpreter from its context when a function is handed over, and no setting is needed; a local
    Connect server is in another process, and has the setting alone.
    """
    if _PYTHON in os.environ or not sys.executable:
        return
    context = getattr(spark, "_sc", None)
    try:
        if context is None:
            if "SPARK_LOCAL_REMOTE" in os.environ and _chosen_provider(spark) is None:
                spark.conf.set(_WORKER_PYTHON, sys.executable)
        elif context.master.startswith("local") and _chosen_provider(spark) is None:
            context.pythonExec = sys.executable
    except PySparkException:
        return  # the session has no such setting, or it cannot be changed


def _chosen_provider(spark: SparkSession) -> str | None:
    """The interpreter of workers that settings name."""
    return next((found for name in _PYTHON_SETTINGS if (found := spark.conf.get(name, None))), None)


def local_session(name: str, settings: Mapping[str, str], cores: int | None = None) -> SparkSession:
    """A session of this machine alone, for as long as this process lives; its time zone is the system's."""
    check_java()
    LOGGER.info("starting a local Spark session")
    os.environ.setdefault(_PYTHON, sys.executable)  # workers must find what this interpreter finds
    builder = SparkSession.builder.master(f"local[{cores or '*'}]").appName(name)
    builder = builder.config(map={**_LOCAL, **java_settings(), **settings})
    loading = Thread(target=_load_matchers, daemon=True, name="episode-loading")
    loading.start()
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        ours = not_started(error)
        if ours is None:
            raise
        raise ours from error
    finally:
        loading.join()


def java_settings() -> dict[str, str]:
    """Settings that keep the Java process of a session that episode starts from logging."""
    if " " in str(_SILENCE) or any(name in os.environ for name in _SETTINGS_ELSEWHERE):
        return {"spark.log.level": "OFF"}
    return {JAVA_OPTIONS: f"-Dlog4j2.configurationFile={_SILENCE.as_uri()}"}


def check_java() -> None:
    """Is there a Java that Spark's launcher would find?"""
    if any(name in os.environ for name in _JAVA_ELSEWHERE):
        return
    home = os.environ.get("JAVA_HOME")
    if home and shutil.which(os.path.join(home, "bin", "java")) is None:
        raise EpisodeError(f"JAVA_HOME is {home}, which has no bin/java: Spark cannot start.", hint=REMEDY)
    if not home and shutil.which("java") is None:
        raise EpisodeError("There is no Java on this machine, and Spark needs one.", hint=REMEDY)


def not_started(error: Exception) -> EpisodeError | None:
    """The error of a Java process that ended before Spark was there, if that is what pyspark complains of."""
    if _GATEWAY not in str(error):
        return None
    return EpisodeError(
        "Spark could not start: its Java process ended at once.",
        hint=f"See Java's own message. If it is missing or too old: {REMEDY}",
    )


def start_session(settings: Mapping[str, str], master: str | None) -> SparkSession:
    """A session with these settings over episode's own. master: None: this machine."""
    if SparkSession.getActiveSession() is not None:
        raise EpisodeError("Spark runs already: its settings cannot be given any more.")
    if master is None or master.startswith("local"):
        chosen = {} if master is None else {"spark.master": master}
        return local_session("episode", {**own_settings(), **settings, **chosen})
    if master.startswith("sc://"):
        return SparkSession.builder.remote(master).config(map=dict(settings)).getOrCreate()
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("episode")
    return builder.config(map={**_ANYWHERE, **settings}).getOrCreate()


def _load_matchers() -> None:
    """Load the modules for planning while Java starts. Nothing of pyspark: the thread that starts Java loads that at
    the same time, and two threads in a cycle of modules would see half of one."""
    with suppress(ImportError):  # raised again by the query
        from episode.matchers import running  # noqa: F401
        from episode.matchers.engines import load_matchers

        load_matchers()


def _driver_memory() -> str:
    """A quarter of the machine's memory, from 1 to 8 GiB: Python workers need the rest."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        total = 8 * _GIBIBYTE
    return f"{min(max(total // 4, _GIBIBYTE), 8 * _GIBIBYTE) // 2**20}m"
