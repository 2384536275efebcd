"""Kernels compiled ahead of their first call, on all cores; numba's cache on disk keeps them.

Every process takes one kernel after another, the longest first. Kernels that call the same others are not compiled at
the same time if it can be helped: the second finds in the cache what the first has compiled for both.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any

from numba.core.caching import IndexDataCacheFile

from episode.kernels.call_graph import called_by, size_of
from episode.kernels.locking import locked
from episode.kernels.recording import Call

MOST_JOBS = 8
"""Further processes would wait for the longest kernel."""

Done = Callable[[str], None]
"""Is called with the name of each kernel that is ready."""


def usual_jobs() -> int:
    """As many processes as this one may use cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_JOBS)


def compile_calls(calls: Sequence[Call], jobs: int, done: Done) -> None:
    """Have kernels compiled for some calls, in as many processes as asked for (forked; where that is not possible, in
    this one). What is in the cache already is only loaded."""
    works = by_kernel(calls)
    with _saved_one_at_a_time():
        if jobs > 1 and len(works) > 1 and "fork" in multiprocessing.get_all_start_methods():
            works = _compiled_by_processes(works, jobs, done)
        for kernel in sorted(works, key=size_of, reverse=True):  # all of them, or those that processes have left
            _compile(kernel, works[kernel])
            done(name_of(kernel))


def by_kernel(calls: Sequence[Call]) -> dict[Any, list[tuple[Any, ...]]]:
    """The types that each kernel is to be compiled for. One process compiles all of them."""
    works: dict[Any, list[tuple[Any, ...]]] = {}
    for call in calls:
        works.setdefault(call.kernel, []).append(call.arguments)
    return works


def name_of(kernel: Any) -> str:
    return f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}"


def next_of(waiting: Collection[Any], running: Collection[Any], finished: Collection[Any]) -> Any:
    """The kernel to compile next: the longest of those that need nothing which is being compiled now."""
    ready = {callee for kernel in finished for callee in (kernel, *called_by(kernel))}
    busy = {callee for kernel in running for callee in (kernel, *called_by(kernel))} - ready
    return max(waiting, key=lambda kernel: (busy.isdisjoint((kernel, *called_by(kernel))), size_of(kernel)))


def _compile(kernel: Any, signatures: Sequence[tuple[Any, ...]]) -> None:
    for arguments in signatures:
        kernel.compile(arguments)


def _compiled_by_processes(
    works: dict[Any, list[tuple[Any, ...]]], jobs: int, done: Done
) -> dict[Any, list[tuple[Any, ...]]]:
    """What is left over, because a process has failed."""
    kernels = list(works)
    context = multiprocessing.get_context("fork")
    ends: dict[Connection, Any] = {}
    running: dict[Connection, int] = {}
    for _ in range(min(jobs, len(works))):
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, ours, kernels, works), daemon=True)
        process.start()
        theirs.close()
        ends[ours] = process
    waiting, finished = set(range(len(kernels))), set[int]()

    def give(end: Connection) -> None:
        if waiting:
            places = {kernels[place]: place for place in waiting}
            chosen = places[
                next_of(
                    list(places), [kernels[one] for one in running.values()], [kernels[place] for place in finished]
                )
            ]
            waiting.discard(chosen)
            running[end] = chosen
            end.send(chosen)

    for end in ends:
        give(end)
    while running:
        heard = wait(list(running))
        for end in [end for end in running if end in heard]:
            try:
                place = end.recv()
            except EOFError:  # the process has ended: what it had is compiled here, or fails here
                del running[end]
                continue
            del running[end]
            finished.add(place)
            done(name_of(kernels[place]))
            give(end)
    for end in ends:
        end.close()  # its process reads no more, and ends, once those that were forked after it have ended, too
    for process in ends.values():
        process.join()
    return {kernel: works[kernel] for place, kernel in enumerate(kernels) if place not in finished}


def _serve(own: Connection, other: Connection, kernels: list[Any], works: dict[Any, list[tuple[Any, ...]]]) -> None:
    """A process that compiles the kernels whose places it is sent."""
    other.close()
    while True:
        try:
            place = own.recv()
        except EOFError:
            return
        _compile(kernels[place], works[kernels[place]])
        own.send(place)


@contextmanager
def _saved_one_at_a_time() -> Iterator[None]:
    """Two processes that save kernels of one function at the same moment could take each other's name of a file: the
    cache has an index for each function, which is read, changed and written."""
    usual = IndexDataCacheFile.save

    def save(file: Any, key: Any, data: Any) -> None:
        with locked(os.path.join(file._cache_path, "episode-saving.lock")):
            usual(file, key, data)

    IndexDataCacheFile.save = save
    try:
        yield
    finally:
        IndexDataCacheFile.save = usual
