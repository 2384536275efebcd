"""Batches of producers are stored once: across many other producers, restarts, archiving, compaction and expiry."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from episode.errors import EpisodeAnalysisError, EpisodeDataError
from episode.store import log as log_module
from episode.store.log import REMEMBERED, Origin
from episode.store.stream import StreamStore
from tests.support.stores import events, make_store, rows_of


def test_a_producer_is_remembered_after_many_others(tmp_path: Path) -> None:
    store = make_store(tmp_path, options={"sync": "false"})
    assert store.append(events([("a", 1, 1)]), Origin("monday", 1)) == 1
    for i in range(REMEMBERED + 40):
        store.append(events([("b", 2, i)]), Origin(f"other {i}", 0))
    count = store.count()
    assert store.append(events([("a", 1, 1)]), Origin("monday", 1)) == 1
    assert StreamStore(store.declaration).append(events([("a", 1, 1)]), Origin("monday", 1)) == 1
    assert store.count() == count
    assert store.append(events([("a", 2, 2)]), Origin("monday", 2)) == REMEMBERED + 42


def test_footers_stay_small(tmp_path: Path) -> None:
    """What a commit costs does not grow with the number of producers that there ever were."""
    store = make_store(tmp_path, options={"sync": "false"})
    sizes = []
    for i in range(3 * REMEMBERED):
        store.append(events([("b", 2, i)]), Origin(f"producer {i:06d}", i))
        sizes.append(store.log.path(i + 1).stat().st_size)
    assert sizes[-1] < sizes[REMEMBERED] + 1_000
    assert len(list(store.log.producers.directory.iterdir())) == 2 * REMEMBERED


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("archived", [True, False])
def test_each_batch_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, archived: bool) -> None:
    """Random producers repeat random batches, between all that can happen to a store. Few fit into a footer."""
    monkeypatch.setattr(log_module, "REMEMBERED", 3)
    draw = random.Random(seed)
    archive = {"archive": "Past"} if archived else {"archive": None}
    options = {"sync": "false", "log_retain": "0 seconds"}
    store = make_store(tmp_path, retain=40, options=options, **archive)
    last: dict[str, tuple[int, int]] = {}
    stored = 0
    for step in range(300):
        producer = f"p{draw.randrange(12)}"
        known = last.get(producer)
        batch = draw.randrange(3) if known is None else known[0] + draw.choice([-1, 0, 0, 1, 2])
        position = store.append(events([("k", step, step)]), Origin(producer, batch, draw.choice(["", "noted"])))
        if known is not None and batch <= known[0]:
            assert position == known[1]
        else:
            stored += 1
            last[producer] = batch, position
        assert store.head() == stored
        action = draw.choice(["none", "none", "none", "archive", "compact", "expire", "restart"])
        if action == "restart":
            store = StreamStore(store.declaration)
        elif action == "expire" or (archived and action != "none"):
            getattr(store, action)()
    for producer, (batch, position) in last.items():
        found = store.last(producer)
        assert found is not None
        assert found[:2] == (batch, position)
    values = [row[2] for row in rows_of(store.table())]
    assert len(values) == len(set(values)) == store.count()


def test_a_damaged_note_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "REMEMBERED", 1)
    store = make_store(tmp_path)
    for producer in ("a", "b", "c"):
        store.append(events([("k", 1, 1)]), Origin(producer, 5))
    first, second = sorted(store.log.producers.directory.iterdir())
    data = first.read_bytes()
    first.write_bytes(data.replace(b'"batch": 5', b'"batch": 4'))
    second.write_bytes(data)
    for producer in ("a", "b"):
        with pytest.raises(EpisodeDataError, match=r"The note of a producer .*producers/.* is corrupt"):
            store.append(events([("k", 1, 1)]), Origin(producer, 5))
    assert store.append(events([("k", 1, 1)]), Origin("d", 5)) == 4


@pytest.mark.parametrize("given", [("x", "1"), ("x", 1.0), (5, 1), ("x", None), ("x", True)])
def test_origins_are_names_and_numbers(given: tuple[str, int]) -> None:
    with pytest.raises(EpisodeAnalysisError, match="a name and a whole number"):
        Origin(*given)


def test_any_name_is_a_producer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "REMEMBERED", 1)
    store = make_store(tmp_path)
    names = ["", "../x", "ü" * 300, "\ud800", "a\0b"]
    for name in names * 2:
        store.append(events([("k", 1, 1)]), Origin(name, 1))
    assert store.count() == len(names)
