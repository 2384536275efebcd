"""`episode studio` as a process: it says where the page is, and ends cleanly with what runs on it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.see]

LONG = "SELECT count(*) AS n FROM range(100000000) a CROSS JOIN range(100000000) b WHERE a.id % 7 = b.id % 11"


class Page:
    """What a browser would ask, of the printed address."""

    def __init__(self, address: str) -> None:
        self.base, token = address.split("/#token=")
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        self.ask("/api/enter", {"token": token})

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"})
        with self.opener.open(request, timeout=60) as answer:
            content = answer.read()
        return json.loads(content) if content else None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_runs_and_server(tmp_path: Path, number: signal.Signals) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    arguments = ["studio", "--table", f"t={tmp_path}/t.parquet", "--port", "0", "--no-samples"]
    command = [sys.executable, "-c", "from episode.cli import main; main()", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    address = next(found[0] for line in process.stderr if (found := re.search(r"http://127\.0\.0\.1:\d+/#\S+", line)))
    page = Page(address)
    assert [one["name"] for one in page.ask("/api/tables")["tables"]] == ["t"]
    run = page.ask("/api/runs", {"text": LONG})
    assert page.ask(f"/api/runs/{run['id']}")["state"] == "running"
    os.killpg(process.pid, number) if number is signal.SIGINT else process.send_signal(number)
    rest = process.stderr.read()
    assert process.wait(90) == 0, rest
    assert "stopped" in rest
    assert "Traceback" not in rest
    process.stderr.close()
