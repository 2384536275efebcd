"""What is compiled ahead is what queries need: afterwards, running them compiles no kernel."""

from __future__ import annotations

import subprocess
import sys

import pytest
from numba import config

from episode.errors import EpisodeAnalysisError
from episode.matchers.compiled import ensure_compiled, groups_of
from episode.queries import compiling
from episode.queries.languages import LANGUAGES

COUNT = """
import sys
from numba.core import event
from episode.queries.compiling import run_samples

class Compiled(event.Listener):
    def on_start(self, started):
        raise SystemExit(f"compiled: {started.data['dispatcher'].py_func.__qualname__} {started.data['args']}")

    def on_end(self, ended):
        pass

event.register("numba:compile", Compiled())
run_samples(sys.argv[1:])
"""


def test_every_language_has_groups_of_its_own() -> None:
    known = compiling.languages()
    assert set(known) == {"rows", "events", "situations", "correlation", "packing", "slices", "json", "rules"}
    assert known["rows"] == ["rows", "rows-windows"]
    assert known["events"] == ["events", "events-collapsed", "events-aggregated", "events-imprecise"]


def test_a_correlation_needs_the_kernels_of_its_patterns() -> None:
    specs = [spec for language in LANGUAGES.values() for spec, _ in language.samples()]
    assert {groups_of(spec) for spec in specs} >= {("rows",), ("situations",), ("correlation", "rows")}


@pytest.mark.skipif(config.DISABLE_JIT, reason="there is no compiler")
def test_what_is_compiled_ahead_is_not_compiled_again() -> None:
    groups = [group for names in compiling.languages().values() for group in names]
    ensure_compiled(groups)
    said = subprocess.run([sys.executable, "-c", COUNT, *groups], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr


def test_an_unknown_language_is_named() -> None:
    with pytest.raises(EpisodeAnalysisError, match="There are no kernels for 'sql'"):
        compiling.compile_languages(["sql"], None)
