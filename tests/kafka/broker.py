"""One Kafka node (broker and controller) in a Java process of its own, on this machine alone."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import uuid
from pathlib import Path

from tests.support.waiting import wait_until

JARS = Path(__file__).parent / "jars" / "broker"
PATIENCE = 60.0
"""Seconds in which the node must be there, or gone."""

SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={logs}
num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


class Broker:
    """A node with its files in a directory; it may be stopped and started again on the same files."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.port, controller_port = free_ports(2)
        self.settings = place / "server.properties"
        self.settings.write_text(
            SETTINGS.format(port=self.port, controller_port=controller_port, logs=place / "logs"), encoding="utf-8"
        )
        self.process: subprocess.Popen[bytes] | None = None
        # An id that began with "-" would be read as an option; the first byte 0 makes it begin with "A".
        cluster = base64.urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        format_logs = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self.settings)]
        done = subprocess.run([*java(), *format_logs], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the node, and wait until it listens."""
        with (self.place / "broker.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*java(), "kafka.Kafka", str(self.settings)], stdout=log, stderr=subprocess.STDOUT
            )
        process = self.process
        wait_until(
            self._listens, lambda: process.poll() is None, lambda: f"the broker does not listen:\n{self._said()}"
        )

    def stop(self) -> None:
        """Ask the node to end, and wait until it has; one that does not is killed."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _said(self) -> str:
        return (self.place / "broker.log").read_text(errors="replace")[-3_000:]


def java() -> list[str]:
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else "java"
    return [command, "-Xmx512m", "-cp", f"{JARS}/*"]


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
