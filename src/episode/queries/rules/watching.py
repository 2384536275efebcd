"""The rules of a stream are looked at while it runs, and what has changed is entered into its rule log.

A text that is not a rule is reported, and changes nothing: a rule of its name, if any, continues.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeError
from episode.matchers.rules.one_rule import RuleChange
from episode.paths import first_file
from episode.queries.rules.planning import StreamPlanner
from episode.queries.rules.rule import SUFFIXES, Rule, all_rules
from episode.store.rule_log import RuleLog, active_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGGER = logging.getLogger("episode")
UNREADABLE = ""
"""In the place of a rule's name: the rules themselves cannot be read."""
GRACE = 60.0
"""Seconds in which a stream is expected to have started."""


def reader_of(rules: Any, spark: SparkSession | None) -> Callable[[], dict[str, str]]:
    """Reads the texts of the rules that are enabled, as they are when it is called: those of a folder, of a mapping, or
    of a table, which may be given by its path or its name in Spark's catalog."""
    if not isinstance(rules, (str, PathLike)) or _is_folder(fspath(rules)):
        return lambda: _texts([] if _is_empty(rules) else all_rules(rules))
    from episode.queries.tables import one_table

    return lambda: _texts(all_rules(one_table(spark, rules)[1]))


def _texts(rules: Sequence[Rule]) -> dict[str, str]:
    return {rule.name: rule.text for rule in rules if rule.enabled}


def _is_folder(path: str) -> bool:
    """Is it a folder of rules, or an empty one in which there will be some, and no table?"""
    place = Path(path)
    suffixes = {file.suffix.lower() for file in place.iterdir()} if place.is_dir() else {place.suffix.lower()}
    return bool(suffixes & set(SUFFIXES)) or (place.is_dir() and first_file(path) is None)


def _is_empty(rules: Any) -> bool:
    """Is it a folder from which all rules were taken away?"""
    place = Path(fspath(rules)) if isinstance(rules, (str, PathLike)) else None
    return place is not None and place.is_dir() and not any(one.suffix.lower() in SUFFIXES for one in place.iterdir())


@dataclass
class RuleWatcher:
    """read: the texts of all rules, by name."""

    read: Callable[[], Mapping[str, str]]
    rules: StreamPlanner
    log: RuleLog
    _refused: dict[str, str] = field(default_factory=dict)
    """Texts that are not rules, and why."""

    def look(self) -> list[RuleChange]:
        """Look at the rules; what was entered into the log."""
        try:
            texts = self.read()
        except (EpisodeError, OSError) as error:
            self._report({UNREADABLE: f"The rules cannot be read, and stay as they are: {error}"})
            return []
        active = active_of(self.log.changes())
        wanted: dict[str, str] = {}
        problems: dict[str, str] = {}
        for name, text in texts.items():
            reason = None if active.get(name) == text else self._reason(name, text)
            if reason is None:
                wanted[name] = text
                continue
            problems[name] = reason
            if name in active:
                wanted[name] = active[name]
        self._report(problems)
        changes = self.log.follow(wanted)
        for change in changes:
            verb = "removed" if change.text is None else "replaced" if change.name in active else "added"
            LOGGER.info("rule %s: %s, as version %d", change.name, verb, change.number)
        return changes

    def _reason(self, name: str, text: str) -> str | None:
        """Return why a text is not a rule of the stream; None if it is one."""
        if text in self._refused:
            return self._refused[text]
        try:
            _, said = self.rules.check(text)
        except EpisodeError as error:
            self._refused[text] = str(error)
            return str(error)
        for one in said:
            LOGGER.warning("rule %s: %s", name, one)
        return None

    def _report(self, problems: Mapping[str, str]) -> None:
        known = self.log.problems()
        for name, reason in problems.items():
            if known.get(name) != reason:
                said = f"The rule {name} is refused, and changes nothing: {reason}" if name else reason
                LOGGER.warning("%s", said)
        self.log.write_problems(problems)


class Watch:
    """A thread that looks at the rules again and again, as long as a stream runs.

    is_running: does any? It ends when none does, once there was time to start one.
    """

    def __init__(self, watcher: RuleWatcher, every: float, is_running: Callable[[], bool]) -> None:
        self.watcher, self.every, self.is_running = watcher, every, is_running
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._stopped.clear()
            self._thread = threading.Thread(target=self._run, name="episode-rules", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        begun = monotonic()
        while not self._stopped.wait(self.every):
            try:
                if not self.is_running() and monotonic() - begun > GRACE:
                    return
                self.watcher.look()
            except Exception:
                LOGGER.exception("The rules could not be read; the stream continues with those it has.")
