"""Runs one query in a fresh process, started by `bench/pandas_rival.py` in either environment, and counts CPU seconds.

Arguments: a JSON object {"engine", "query", "columns", "input", "output", "runs"}; answers with one JSON line {"first",
"import", "runs"}. Input and result are CSV; reading and writing them is not counted.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import pandas


def engine(name: str) -> Callable[[str, pandas.DataFrame], pandas.DataFrame]:
    if name == "episode":
        import episode

        return lambda query, frame: episode.sql_local(query, visits=frame)
    from pandas_match_recognize import match_recognize

    return match_recognize


def main() -> None:
    wanted = json.loads(sys.argv[1])
    frame = pandas.read_csv(wanted["input"], usecols=wanted["columns"])
    begin = time.process_time()
    match = engine(wanted["engine"])
    loaded = time.process_time() - begin
    seconds = []
    for _ in range(wanted["runs"] + 1):
        begin = time.process_time()
        result = match(wanted["query"], frame)
        seconds.append(time.process_time() - begin)
    result.to_csv(wanted["output"], index=False)
    print(json.dumps({"import": loaded, "first": seconds[0], "runs": seconds[1:]}))


if __name__ == "__main__":
    main()
