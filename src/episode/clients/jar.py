"""The jar with the parser extension for Spark's JVM, which is part of the package."""

from __future__ import annotations

from pathlib import Path

JAR = Path(__file__).with_name("episode.jar")
EXTENSION = "io.episode.EpisodeExtensions"
