"""The kernels of every kind of query, compiled ahead of the first one.

As a program, it compiles the groups of kernels that it is given: it prints how many kernels there are, then the name of
each that is ready.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence

from episode.errors import EpisodeAnalysisError
from episode.matchers.compiled import JSON, PACKING, RULES, SLICES, ensure_compiled, groups_of
from episode.queries.languages import LANGUAGES


def languages() -> dict[str, list[str]]:
    """The groups of kernels of each language, by its name."""
    found: dict[str, list[str]] = {}
    for language in LANGUAGES.values():
        for spec, _ in language.samples():
            for group in groups_of(spec):
                names = found.setdefault(group.partition("-")[0], [])
                if group not in names:
                    names.append(group)
    return {**found, PACKING: [PACKING], SLICES: [SLICES], JSON: [JSON], RULES: [RULES]}


def compile_languages(names: Sequence[str] | None, jobs: int | None) -> None:
    """Have the kernels of some languages compiled, or of all."""
    known = languages()
    for name in names or ():
        if name not in known:
            raise EpisodeAnalysisError(
                f"There are no kernels for {name!r}.",
                hint=f"There are: {', '.join(known)}.",
            )
    ensure_compiled([group for name in names or known for group in known[name]], jobs)


# ---- in a process of its own -----------------------------------------------------------------------------


def run_samples(groups: Iterable[str]) -> None:
    """Run what needs every kernel of some groups, and not much more."""
    from episode.matchers.slice_samples import slice_once
    from episode.matchers.warm import pack_once, read_records_once, run_once

    wanted = set(groups)
    for language in LANGUAGES.values():
        for spec, events in language.samples():
            if groups_of(spec)[0] in wanted:
                run_once(spec, events)
    if not wanted <= {JSON, RULES, SLICES}:
        pack_once()
    if SLICES in wanted:
        slice_once()
    if JSON in wanted:
        read_records_once()


def compile_groups(groups: Sequence[str], jobs: int | None) -> None:
    """Compile in this process and others, and leave stamps."""
    from episode.matchers.warm import compile_kernels_of

    compile_kernels_of(lambda: run_samples(groups), groups, jobs, _say)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compile groups of kernels.")
    parser.add_argument("groups", nargs="+")
    parser.add_argument("--jobs", type=int)
    given = parser.parse_args()
    compile_groups(given.groups, given.jobs)
