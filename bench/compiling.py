"""How long queries take to compile, to load in the next process, and until the first result of a new user.

Every figure is of a process of its own: the first with an empty directory of kept code, the second with what the first
left there. Python has bytecode, as `pip install` writes it. Compiled *quickly* is what a first query runs; *with care*
is what replaces it once a query has read half a million values.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from bench.harness import Report, median, say, verdict

PACKAGES = ("llvmlite", "numpy", "pyarrow", "pandas", "sqlglot")
RUNS = 5
TERMS = 5_000
TICK, CRIMES, LARGE, LOAD = 60, 150, 2_000, 10
"""Milliseconds: the most for the tick query, each of the crimes queries, a condition of 5,000 terms, and to load."""
FIRST, MEMORY = 2.0, 180
"""Seconds of a first query with all imports, and MiB of its process: the most."""


def work(kind: str) -> int:
    """Run one query over a few rows; its number of matches."""
    import numpy as np
    import pyarrow as pa

    import episode
    from episode.matchers.columns import from_numbers, from_texts

    n = 1_000
    draw = np.random.default_rng(7)
    if kind.startswith("crimes "):
        import pyarrow.parquet as pq

        from bench.crime_data import crimes
        from bench.crime_queries import TEMPLATES

        (template,) = (one for one in TEMPLATES if one.name == kind.removeprefix("crimes "))
        return episode.sql_local(template.query, crimes=pq.read_table(crimes(n))).num_rows
    columns = [
        from_numbers(draw.integers(0, 10, n)),
        from_numbers(np.arange(n)).view(pa.timestamp("us")),
        from_numbers(draw.random(n)),
        from_texts(["ABCD"[code] for code in draw.integers(0, 4, n)]),
    ]
    table = pa.Table.from_arrays(columns, ["key", "ts", "price", "type"])
    if kind == "event pattern":
        query = "PATTERN A; !B; C WHERE A.price < C.price WITHIN 20 milliseconds RETURN A.ts AS a, C.ts AS c"
        return episode.match_local(table, query, time="ts", key="key", type_column="type").num_rows
    if kind == "situation pattern":
        query = (
            "DEFINE A AS price > 0.6, B AS price < 0.9 PATTERN A overlaps B WITHIN 1 second RETURN count(A.price) AS n"
        )
        return episode.match_local(table, query, time="ts", key="key").num_rows
    from bench.queries import TICK as CLAUSE
    from bench.queries import select

    if kind == "large condition":
        sum_ = " OR ".join(f"(A.price > {number}.5 AND price < PREV(price) + {number})" for number in range(TERMS // 2))
        clause = f"ORDER BY ts MEASURES LAST(B.ts) AS ends PATTERN (A B+) DEFINE B AS {sum_}"
        return episode.sql_local(f"SELECT ends FROM ticks MATCH_RECOGNIZE ({clause})", ticks=table).num_rows
    return episode.sql_local(select(CLAUSE), ticks=table).num_rows


def one_process(kind: str) -> dict[str, float]:
    """Seconds with imports, milliseconds of compiling or loading, and the most memory."""
    import resource

    begin = time.perf_counter()
    from episode.native.running import record_calls

    with record_calls() as calls:
        work(kind)
    seconds = time.perf_counter() - begin
    code = sum(program.milliseconds for program in set(calls))
    return {"seconds": seconds, "code": code, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def measure(kind: str, runs: int, with_care: bool) -> tuple[dict[str, float], dict[str, float]]:
    """Medians of the first and of the second process."""
    found: tuple[list[dict[str, float]], list[dict[str, float]]] = ([], [])
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="episode-code-") as directory:
            given = {"EPISODE_CODE_CACHE": directory, "EPISODE_THOROUGH": "1" if with_care else ""}
            for taken in found:
                command = [sys.executable, "-m", "bench.compiling", "--one", kind]
                done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **given})
                taken.append(json.loads(done.stdout.splitlines()[-1]))
    first, second = ({name: median([one[name] for one in taken]) for name in taken[0]} for taken in found)
    say(f"{kind}{', with care' * with_care}: {first}, then {second}")
    return first, second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--name", default="compiling", help="of the report")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(one_process(arguments.one)))
        return
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    from bench.crime_data import crimes
    from bench.crime_queries import TEMPLATES

    crimes(1_000)
    page = Report(arguments.name, "Compiling queries")
    page.text(" ".join(__doc__.split("\n\n", 1)[1].split()), f"Medians of {arguments.runs} runs.")
    page.heading("The first result of a new user")
    page.text(
        "Over 1,000 rows, all imports included; code is compiled quickly. The table is made of NumPy arrays: "
        "`pyarrow.array` and `read_table` would import pandas, which episode does not."
    )
    lines = []
    for kind in ("tick query", "event pattern", "situation pattern"):
        first, second = measure(kind, arguments.runs, with_care=False)
        met = verdict(first["seconds"] <= FIRST), verdict(second["memory"] <= MEMORY)
        first_seconds, second_seconds = (f"{one['seconds']:.2f} s ({one['code']:.0f} ms)" for one in (first, second))
        memory = " / ".join(f"{one['memory']:.0f} MiB" for one in (first, second))
        lines.append(
            [kind, first_seconds, f"≤ {FIRST:.0f} s", met[0], second_seconds, memory, f"≤ {MEMORY} MiB", met[1]]
        )
    heads = ["", "first process (compiling)", "target", "", "second (loading)", "memory", "target", ""]
    page.table(heads, lines)
    page.heading("Compiled with care, and loaded again")
    limits = {"tick query": TICK, **{f"crimes {one.name}": CRIMES for one in TEMPLATES}, "large condition": LARGE}
    lines = []
    for kind, most in limits.items():
        first, second = measure(kind, arguments.runs, with_care=True)
        compile_met, load_met = verdict(first["code"] <= most), verdict(second["code"] <= LOAD)
        compiling, loading = f"{first['code']:.0f} ms", f"{second['code']:.1f} ms"
        lines.append([kind, compiling, f"≤ {most} ms", compile_met, loading, f"≤ {LOAD} ms", load_met])
    page.table(["query", "compiling", "target", "", "loading", "target", ""], lines)
    page.write(packages=PACKAGES)


if __name__ == "__main__":
    main()
