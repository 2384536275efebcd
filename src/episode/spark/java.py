"""The Java that Spark runs on: looked for before Spark is started, so that its absence is one sentence."""

from __future__ import annotations

import os
import shutil

from episode.errors import EpisodeError

REMEDY = (
    "Install Java 17 or 21 (for example the package openjdk-17-jre-headless, or temurin from conda-forge), "
    "and set JAVA_HOME if it is not on the path."
)
_SAID_ELSEWHERE = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT")
"""With these, settings of Spark's installation may say where Java is, or it runs already."""

_GATEWAY = "JAVA_GATEWAY_EXITED"


def check_java() -> None:
    """Is there a Java that Spark's launcher would find?"""
    if any(name in os.environ for name in _SAID_ELSEWHERE):
        return
    home = os.environ.get("JAVA_HOME")
    if home and shutil.which(os.path.join(home, "bin", "java")) is None:
        raise EpisodeError(f"JAVA_HOME is {home}, where there is no bin/java: Spark cannot start.", hint=REMEDY)
    if not home and shutil.which("java") is None:
        raise EpisodeError("There is no Java on this machine, and Spark needs one.", hint=REMEDY)


def not_started(error: Exception) -> EpisodeError | None:
    """The error of a Java process that ended before Spark was there, if that is what pyspark complains of."""
    if _GATEWAY not in str(error):
        return None
    return EpisodeError(
        "Spark could not start: its Java process ended at once.",
        hint=f"Java's own message says why. If it is missing or too old: {REMEDY}",
    )
