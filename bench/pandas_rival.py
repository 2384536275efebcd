"""`make bench NAME=pandas`: V-shapes, funnels and sessions through pandas-match-recognize, and through sql_local.

The package of PyPI lives in its own environment, bench/.pandas-venv, which is made here if it does not exist. Each
query runs in a fresh process of its engine (bench/pandas_job.py), with the same text over the same frame; CPU seconds
of that process are counted. Results are compared, and the funnels of episode also with Python's `re`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas

from bench.data_sets import DATA
from bench.harness import ROOT, Report, say
from bench.pandas_queries import QUESTIONS, Question, funnels_by_re, in_order, visits

VERSION, PANDAS = "0.2.5", "2.3.3"
ENVIRONMENT = Path(__file__).parent / ".pandas-venv"
SIZES = (100_000, 1_000_000)
RUNS = 5
PACKAGES = ("pandas", "pyarrow", "numpy", "llvmlite")
EPISODE, RIVAL = "episode", "pandas-match-recognize"
PYTHONS = {EPISODE: Path(sys.executable), RIVAL: ENVIRONMENT / "bin" / "python"}


@dataclass(frozen=True)
class Answer:
    """CPU seconds of one engine for one query, and its matches in order."""

    loading: float
    first: float
    best: float
    matches: np.ndarray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of rows")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--name", default="pandas", help="of the report")
    arguments = parser.parse_args()
    prepare()
    found: dict[tuple[int, str], dict[str, Answer]] = {}
    for rows in arguments.sizes:
        frame, source = visits(rows), DATA / "pandas-visits.csv"
        source.parent.mkdir(exist_ok=True)
        frame.to_csv(source, index=False)
        for question in QUESTIONS:
            answers = {name: ask(name, question, source, arguments.runs) for name in PYTHONS}
            check_funnels(question, frame, answers[EPISODE].matches)
            say(f"{rows:,} rows, {question.name}: " + ", ".join(f"{n} {a.best:.3f} s" for n, a in answers.items()))
            found[rows, question.name] = answers
        source.unlink()
    _report(arguments, found)


def prepare() -> None:
    """Install the package if it is not there."""
    python = PYTHONS[RIVAL]
    if python.exists():
        check = [python, "-c", "import pandas_match_recognize"]
        if subprocess.run(check, check=False, capture_output=True).returncode == 0:
            return
    say(f"installing pandas-match-recognize {VERSION} into {ENVIRONMENT.relative_to(ROOT)} (once)")
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
    packages = [f"pandas-match-recognize=={VERSION}", f"pandas=={PANDAS}"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages], check=True)


def ask(engine: str, question: Question, source: Path, runs: int) -> Answer:
    """Run a query in a process of an engine."""
    output = DATA / "pandas-matches.csv"
    wanted = {
        "engine": engine,
        "query": question.text,
        "columns": question.columns,
        "input": str(source),
        "output": str(output),
        "runs": runs,
    }
    command = [str(PYTHONS[engine]), str(Path(__file__).with_name("pandas_job.py")), json.dumps(wanted)]
    settings = dict(os.environ)
    if engine == RIVAL:
        settings.pop("PYTHONPATH", None)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=settings)
    seconds = json.loads(done.stdout.strip().splitlines()[-1])
    matches = in_order(pandas.read_csv(output), question)
    output.unlink()
    return Answer(seconds["import"], seconds["first"], min(seconds["runs"]), matches)


def check_funnels(question: Question, frame: pandas.DataFrame, matches: np.ndarray) -> None:
    """Fail if episode finds other funnels than a regular expression does."""
    if question.name == "funnels" and not np.array_equal(matches, funnels_by_re(frame)):
        raise SystemExit(f"episode finds {len(matches):,} funnels, and others than Python's re")


def count_shared(one: np.ndarray, other: np.ndarray) -> int:
    """Return how many matches both have."""
    return (Counter(map(tuple, one.tolist())) & Counter(map(tuple, other.tolist()))).total()


# ---- the report --------------------------------------------------------------------------------------------


def _report(arguments: argparse.Namespace, found: dict[tuple[int, str], dict[str, Answer]]) -> None:
    page = Report(arguments.name, "Three queries through pandas-match-recognize")
    page.text(
        f"pandas-match-recognize {VERSION} with pandas {PANDAS}, and `episode.sql_local`: the same text over the same "
        "pandas frame, to a pandas frame. Each query in a fresh process of each; CPU seconds of that process. "
        f"*First call*: with code that is compiled or generated then; *best*: of {arguments.runs} calls "
        "after it.",
    )
    lines = []
    for (rows, name), answers in found.items():
        shared = count_shared(*(answer.matches for answer in answers.values()))
        best = answers[EPISODE].best
        for engine, answer in answers.items():
            lines.append(
                [
                    name,
                    f"{rows:,}",
                    engine,
                    f"{len(answer.matches):,}",
                    f"{shared:,}",
                    f"{answer.loading:.2f} s",
                    f"{answer.first:.2f} s",
                    f"{answer.best:.3f} s",
                    f"{rows / answer.best:,.0f}",
                    f"{answer.best / best:.1f}×",
                ]
            )
    header = ["query", "rows", "", "matches", "in both", "import", "first call", "best", "rows/s", "of episode's time"]
    page.table(header, lines)
    page.text(
        "Results are equal if *in both* is the number of matches of each. The funnels of episode are also those that "
        "Python's `re` finds over one letter for each row (`v[^p]*?c[^v]*?p`): a difference there is an error of the "
        "other. The funnel has `!=` because the package logs `<>` as an error and takes the condition as not met.",
    )
    page.heading("The queries")
    for question in QUESTIONS:
        page.text(f"{question.name[0].upper()}{question.name[1:]}:", f"```sql\n{_dedent(question.text)}\n```")
    page.write(packages=PACKAGES)


def _dedent(text: str) -> str:
    return "\n".join(line.removeprefix(" " * 8) for line in text.strip("\n").rstrip().splitlines())


if __name__ == "__main__":
    main()
