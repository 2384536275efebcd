"""The evaluation of a paper again: its experiments by their names, on the command line."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from bench.feeding import one_core
from bench.harness import say

RUNS = 5

Experiments = dict[str, Callable[[argparse.Namespace], None]]


def run_experiments(experiments: Experiments, paper: str, description: str) -> None:
    """The experiments that are named on the command line, or all of them; on one core."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("experiment", nargs="*", choices=[*experiments, []], help="all, if none is named")
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers of events, for a trial")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--name", default=paper, help="begin of the reports' names")
    options = parser.parse_args()
    one_core()
    for name in options.experiment or experiments:
        begin = time.perf_counter()
        experiments[name](options)
        say(f"{name}: {time.perf_counter() - begin:.0f} s in all")
