"""A Trino server of one node on this machine alone, over the Parquet files of the experiments.

The engine and the connector come from Maven Central into bench/.trino (see bench/peers/trino). The server listens on
127.0.0.1, reads and writes below bench/data, and ends with the `with` block.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.data_sets import DATA
from bench.harness import say
from bench.maven import java_home, taken_once

HERE = Path(__file__).parent
PARTS = HERE / "peers" / "trino"
PLACE = HERE / ".trino"
VERSION = os.environ.get("TRINO_VERSION", "483")
JAVA = 25
"""The oldest Java that this version runs on."""
MEMORY_GB = 8
PATIENCE = 180.0
"""Seconds in which the server must be there, or gone."""

CONFIG = """\
node.environment=bench
node.id=bench
node.internal-address=127.0.0.1
node.bind-ip=127.0.0.1
coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://127.0.0.1:{port}
catalog.config-dir={place}/etc/catalog
plugin.dir={place}/plugin
query.max-memory=5GB
query.max-memory-per-node=5GB
memory.heap-headroom-per-node=2GB
"""
CATALOG = """\
connector.name=hive
hive.metastore=file
hive.metastore.catalog.dir=local:///trino-metastore
fs.native-local.enabled=true
local.location={data}
hive.timestamp-precision=MICROSECONDS
hive.parquet.time-zone=UTC
hive.non-managed-table-writes-enabled=true
"""
JVM = (
    f"-Xmx{MEMORY_GB}G",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:ReservedCodeCacheSize=512M",
    "-Dfile.encoding=UTF-8",
    "-Djdk.attach.allowAttachSelf=true",
    "--add-modules=jdk.incubator.vector",
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:G1NumCollectionsKeepPinned=10000000",
)


class TrinoServer:
    """The server, while it runs."""

    def __init__(self) -> None:
        self.port = _free_port()
        self.home = java_home(JAVA, "TRINO_JAVA_HOME")
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> TrinoServer:
        _take()
        for old in (PLACE / "data", PLACE / "etc", DATA / "trino-metastore"):
            shutil.rmtree(old, ignore_errors=True)
        (PLACE / "etc" / "catalog").mkdir(parents=True)
        DATA.mkdir(exist_ok=True)
        config = PLACE / "etc" / "config.properties"
        config.write_text(CONFIG.format(place=PLACE, port=self.port))
        (PLACE / "etc" / "catalog" / "hive.properties").write_text(CATALOG.format(data=DATA))
        command = [str(self.home / "bin" / "java"), *JVM, f"-Dconfig={config}", "-cp", f"{PLACE}/lib/*"]
        with (PLACE / "server.log").open("wb") as log:
            self.process = subprocess.Popen(
                [*command, str(PARTS / "Launch.java"), VERSION], cwd=PLACE, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            self._wait()
            self.run("CREATE SCHEMA hive.bench")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def run(self, statement: str) -> list[list[Any]]:
        """The rows of a statement, once it has ended."""
        rows: list[list[Any]] = []
        answer = self._ask("/v1/statement", statement)
        while True:
            if "error" in answer:
                raise SystemExit(f"Trino: {answer['error']['message']}\n{statement}")
            rows += answer.get("data", [])
            if "nextUri" not in answer:
                return rows
            answer = self._ask(answer["nextUri"])

    def _ask(self, address: str, body: str | None = None) -> dict[str, Any]:
        if address.startswith("/"):
            address = f"http://127.0.0.1:{self.port}{address}"
        request = urllib.request.Request(address, None if body is None else body.encode(), {"X-Trino-User": "bench"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=600) as answer:
            return json.load(answer)

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"Trino's server did not start; its log: {PLACE / 'server.log'}")
            try:
                if not self._ask("/v1/info")["starting"]:
                    return
            except OSError:
                pass
            time.sleep(0.5)

    def _end(self) -> None:
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
        shutil.rmtree(DATA / "trino-metastore", ignore_errors=True)


def _take() -> None:
    """The jars: the engine's on the class path, the connector's in a directory of plugins."""
    copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-Dtrino.version={VERSION}"]
    taken_once(
        PLACE,
        f"{VERSION}\n{(PARTS / 'pom.xml').read_text()}",
        (
            ["-P", "server", *copy, f"-DoutputDirectory={PLACE}/lib"],
            ["-P", "hive", *copy, f"-DoutputDirectory={PLACE}/plugin/hive"],
        ),
        PARTS,
    )
    with zipfile.ZipFile(PLACE / "plugin" / "hive" / "services.jar", "w") as jar:  # else part of the packed server
        jar.writestr("META-INF/services/io.trino.spi.Plugin", "io.trino.plugin.hive.HivePlugin\n")
    say(f"Trino {VERSION} in {PLACE}")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
