"""The rule log of a stream: its rules, the order in which they changed, and when each change took effect.

A directory that this machine and all workers reach by one path, next to the stream's checkpoint:

    id                         identifies this log
    changes/00000001.json …    one change each, numbered, never written again: Spark reads them as a stream
    effects/<query>-….json     the event time after which a query has followed a change
    failures/<query>-….json    rules that failed on data, by shard
    problems.json              texts that are not valid rules for the stream, as last seen
    asked.json, answers/       live tasks only: the position of each task, before they agree when changes take effect

The checkpoint decides: Spark's log of offsets records which micro-batch has seen which change, and the state holds the
active rules. Effects and failures are for people; a micro-batch that runs again writes the same again.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from episode.errors import EpisodeAnalysisError
from episode.matchers.rules.one_rule import Effect, Failure, RuleChange
from episode.store.files import publish_new, replace_file, sync_path

CHANGES, EFFECTS, FAILURES, PROBLEMS = "changes", "effects", "failures", "problems.json"
ASKED, ANSWERS, ID = "asked.json", "answers", "id"


class RuleLog:
    """The log in a directory, which is created if needed."""

    def __init__(self, place: str | os.PathLike[str]) -> None:
        path = os.fspath(place)
        if "://" in path and not path.startswith("file://"):
            raise EpisodeAnalysisError(
                f"The rule log {path} is not in a file system of this machine.",
                hint="Give a directory that this machine and all workers reach by one path, such as a mounted volume.",
            )
        self.place = Path(path.removeprefix("file://")).absolute()
        for part in (CHANGES, EFFECTS, FAILURES, ANSWERS):
            (self.place / part).mkdir(parents=True, exist_ok=True)

    @property
    def id(self) -> str:
        """The permanent identity of this log: a checkpoint belongs to one log."""
        path = self.place / ID
        if not path.exists():
            publish_new(path, uuid.uuid4().hex.encode())
        return path.read_text(encoding="ascii")

    @property
    def changes_path(self) -> str:
        return str(self.place / CHANGES)

    def changes(self) -> list[RuleChange]:
        """Return all changes, in order."""
        found = sorted((self.place / CHANGES).glob("*.json"))
        return [RuleChange.from_json(path.read_text(encoding="utf-8")) for path in found]

    def follow(self, wanted: Mapping[str, str]) -> list[RuleChange]:
        """Record the changes that lead from the rules of the log to the wanted ones (text by name); return them.

        If another process writes at the same time, its changes count.
        """
        entered: list[RuleChange] = []
        while True:
            known = self.changes()
            last = known[-1].number if known else 0
            change = next(_differences(active_of(known), wanted), None)
            if change is None:
                return entered
            next_one = RuleChange(last + 1, *change)
            path = self.place / CHANGES / f"{next_one.number:08d}.json"
            if publish_new(path, next_one.to_json().encode()):
                entered.append(next_one)

    def effects(self) -> list[Effect]:
        return [Effect(**json.loads(path.read_bytes())) for path in sorted((self.place / EFFECTS).glob("*.json"))]

    def failures(self) -> list[Failure]:
        return [Failure(**json.loads(path.read_bytes())) for path in sorted((self.place / FAILURES).glob("*.json"))]

    def write_effect(self, effect: Effect) -> None:
        path = self.place / EFFECTS / f"{effect.query}-{effect.number:08d}.json"
        _replace(path, json.dumps(asdict(effect)), durably=True)

    def write_failure(self, query: str, shard: int, failure: Failure) -> None:
        name = f"{query}-{shard:05d}-{failure.number:08d}.json"
        _replace(self.place / FAILURES / name, json.dumps(asdict(failure)))

    def proposal(self) -> int:
        """Return the number of the last change proposed to tasks, or 0. A task that has answered waits until it is
        agreed when the change takes effect."""
        try:
            return int(json.loads((self.place / ASKED).read_bytes()))
        except FileNotFoundError:
            return 0

    def propose(self, number: int) -> None:
        _replace(self.place / ASKED, json.dumps(number), durably=True)

    def answer(self, number: int, task: int, reached: int) -> None:
        """Record that a task has matched all events up to a time, and none after it."""
        _replace(self.place / ANSWERS / f"{number:08d}-{task:05d}.json", json.dumps(reached), durably=True)

    def answers(self, number: int) -> dict[int, int]:
        paths = (self.place / ANSWERS).glob(f"{number:08d}-*.json")
        return {int(path.stem.partition("-")[2]): int(json.loads(path.read_bytes())) for path in paths}

    def problems(self) -> dict[str, str]:
        """Return the names of texts that are not valid rules for the stream, with the reasons."""
        try:
            return dict(json.loads((self.place / PROBLEMS).read_bytes()))
        except FileNotFoundError:
            return {}

    def write_problems(self, problems: Mapping[str, str]) -> None:
        if dict(problems) != self.problems():
            _replace(self.place / PROBLEMS, json.dumps(dict(problems)))


def active_of(changes: list[RuleChange]) -> dict[str, str]:
    """Return the rules (text by name) after some changes."""
    active: dict[str, str] = {}
    for change in changes:
        active.pop(change.name, None)
        if change.text is not None:
            active[change.name] = change.text
    return active


def _differences(active: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    """Yield (name, text) of each change; text None: the rule is removed."""
    for name in active:
        if name not in wanted:
            yield name, None
    for name, text in wanted.items():
        if active.get(name) != text:
            yield name, text


def _replace(path: Path, text: str, durably: bool = False) -> None:
    """Write a file that appears whole or stays as it was. durably: it survives a loss of power."""
    replace_file(path, text.encode(), sync=durably)
    if durably:
        sync_path(path.parent)
