"""Starting Spark with settings of one's own, for the command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from episode.errors import EpisodeError
from episode.spark.session import ROCKSDB, STATE_STORE, local_session, own_settings

_ANYWHERE = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR", STATE_STORE: ROCKSDB}


def start_session(settings: Mapping[str, str], master: str | None) -> SparkSession:
    """A session with these settings over episode's own. master: None: this machine."""
    if SparkSession.getActiveSession() is not None:
        raise EpisodeError("Spark runs already: its settings cannot be given any more.")
    if master is None or master.startswith("local"):
        chosen = {} if master is None else {"spark.master": master}
        return local_session("episode", {**own_settings(), **settings, **chosen})
    if master.startswith("sc://"):
        builder = SparkSession.builder.remote(master)
        own: Mapping[str, str] = {}
    else:
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        builder = SparkSession.builder.master(master).appName("episode")
        own = _ANYWHERE
    for name, value in {**own, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
