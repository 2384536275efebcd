"""Stores whose files are damaged at random: every operation gives what was appended, or an EpisodeError.

Bits are flipped, files cut, deleted, emptied, copied over each other, and foreign files and directories put between
them. What is read without an error is right: each event that was appended, once, and no other. With skip_corrupt=True,
events may be missing, but none is wrong or twice.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from episode import streams
from episode.errors import EpisodeError
from episode.store.log import Origin
from episode.store.stream import StreamStore
from tests.support.stores import Row, events, make_store, rows_of

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where files are quick: these tests write many."""
NEW = ("z", 0, 9_999)
"""An event that is appended afterwards; it is old, so that nothing expires because of it."""


@contextmanager
def made(draw: Random) -> Iterator[tuple[Path, Path, list[Row]]]:
    """A store with a history: its catalog, its directory, and the rows that it holds."""
    catalog = Path(tempfile.mkdtemp(prefix="episode-damage-", dir=MEMORY))
    try:
        archived, kept = draw.random() < 0.7, draw.random() < 0.5
        options = {"partition": "20", "log_retain": "1 hour" if kept else "0 seconds"}
        retain = None if archived else draw.choice([None, 20])
        store = make_store(catalog, archive="Past" if archived else None, options=options, retain=retain)
        rows: list[list[Row]] = []
        for commit in range(draw.randrange(1, 7)):
            part = [(draw.choice("abcde"), 10 * commit + draw.randrange(8), 100 * commit + i) for i in range(5)]
            store.append(events(part), Origin("feed", commit) if draw.random() < 0.5 else None)
            rows.append(part)
            if archived and draw.random() < 0.4:
                store.archive()
            if archived and draw.random() < 0.2:
                store.compact()
            if retain is not None and draw.random() < 0.3:
                store.expire()
        store.expire()
        rows = rows[store.expiry().to :]
        yield catalog, Path(store.declaration.location), [row for part in rows for row in part]
    finally:
        shutil.rmtree(catalog, ignore_errors=True)


def damage(draw: Random, catalog: Path, root: Path, often: bool) -> str:
    """Do something to a file; what was done. often: not to the files that tell that another one is missing."""
    files = sorted(path for path in [*root.rglob("*"), catalog / "live.json"] if path.is_file())
    files = [path for path in files if not often or path.name not in ("lock", "last")]
    path = draw.choice(files)
    data = path.read_bytes()
    action = draw.choice(["flip", "flip", "flip", "cut", "delete", "empty", "copy", "stray", "directory", "grow"])
    if action == "flip" and data:
        place = draw.randrange(len(data))
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :])
    elif action == "cut" and data:
        path.write_bytes(data[: draw.randrange(len(data))])
    elif action == "delete":
        path.unlink()
    elif action == "empty":
        path.write_bytes(b"")
    elif action == "copy":
        alike = [one for one in files if one.suffix == path.suffix]
        path.write_bytes(draw.choice(alike).read_bytes())
    elif action == "grow":
        path.write_bytes(data + draw.randbytes(9))
    else:
        name = draw.choice(["abc.seg", "x", "zzz.json", "7.json", "00000000000000000099.sег", f"{path.stem}.x"])
        stray = draw.choice([path.parent, root / "archive" / "_staging", root / "tmp"]) / name
        if stray.parent.is_dir() and not stray.exists():
            stray.mkdir() if action == "directory" else stray.write_bytes(draw.randbytes(5))
        path = stray
    return f"{action} {path.relative_to(catalog)}"


def operations(catalog: Path) -> dict[str, Callable[[], Any]]:
    def store() -> StreamStore:
        return streams.store_of("Live", catalog)

    def by_steps() -> list[Row]:
        found, position, one = [], 0, store()
        while position < one.head():
            table, position = streams.read("Live", position, limit=6, catalog=catalog)
            found += rows_of(table)
        return found

    return {
        "read": lambda: rows_of(streams.read("Live", catalog=catalog)[0]),
        "by steps": by_steps,
        "table": lambda: rows_of(store().table()),
        "parts": lambda: [
            row for part in store().snapshot().parts for batch in store().read_part(part) for row in rows_of(batch)
        ],
        "history": lambda: rows_of(store().history().read(None, -99, 999, ["k", "t", "v"])),
        "tail": lambda: [
            row for table, _ in streams.tail("Live", 0, follow=False, catalog=catalog) for row in rows_of(table)
        ],
        "skip": lambda: rows_of(streams.read("Live", skip_corrupt=True, catalog=catalog)[0]),
        "count": lambda: streams.count("Live", catalog=catalog),
        "names": lambda: streams.names(catalog=catalog),
        "last": lambda: store().last("feed"),
        "again": lambda: streams.append("Live", events([NEW]), origin=Origin("feed", -1), catalog=catalog),
        "append": lambda: streams.append("Live", events([NEW]), catalog=catalog),
        "archive": lambda: streams.archive("Live", catalog=catalog),
        "archive skipping": lambda: streams.archive("Live", skip_corrupt=True, catalog=catalog),
        "compact": lambda: streams.compact("Live", catalog=catalog),
        "expire": lambda: streams.expire("Live", catalog=catalog),
        "create": lambda: streams.create("Live2", "k STRING, t BIGINT", time="t", catalog=catalog),
    }


READING = ("read", "by steps", "table", "parts", "history", "tail")


@given(seed=st.integers(0, 2**32))
@settings(deadline=None)
def test_right_rows_or_an_error(seed: int) -> None:
    draw = Random(seed)
    with made(draw) as (catalog, root, rows), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = draw.choice([1, 1, 1, 2, 4])
        done = [damage(draw, catalog, root, times > 1) for _ in range(times)]
        appended, skipped = 0, False
        names = list(operations(catalog)) + draw.choices(list(operations(catalog)), k=8)
        draw.shuffle(names)
        for name in names:
            try:
                found = operations(catalog)[name]()
            except EpisodeError as error:
                assert error.message  # noqa: PT017
                continue
            appended += name in ("append", "again")
            skipped = skipped or name == "archive skipping"
            if name not in (*READING, "skip"):
                continue
            counted = Counter(found)
            least = Counter[Row]() if skipped or name == "skip" else Counter(rows)
            most = Counter(rows) + Counter({NEW: appended})
            assert counted <= most, (done, name, counted - most)
            assert least <= counted, (done, name, least - counted)
