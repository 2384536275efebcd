"""The studio's server: on loopback, until it is stopped; runs end with it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread

import uvicorn

from episode.errors import EpisodeError
from episode.see.studio.app import Access, application
from episode.see.studio.studio import Studio
from episode.terminal.errors import interrupts

HOST, PORT = "127.0.0.1", 8350
STARTED = 30.0
"""Seconds that the server has to begin."""
ENDED = 5
"""Seconds that answers under way have to end."""
PERIOD = 0.2


@dataclass(frozen=True)
class Serving:
    """A server that runs in its own thread. at_end: called when it has stopped."""

    studio: Studio
    access: Access
    server: uvicorn.Server
    thread: Thread
    at_end: Callable[[], None]

    @property
    def address(self) -> str:
        return self.access.address

    def stop(self) -> None:
        """End the runs, then the server."""
        self.studio.close()
        self.server.should_exit = True
        self.thread.join(ENDED + STARTED)
        self.at_end()


def start(studio: Studio, port: int | None = None, at_end: Callable[[], None] = lambda: None) -> Serving:
    """Serve a studio at a port; None: the usual one, or any other that is free. at_end: called when it has stopped."""
    bound = _bind(port)
    access = Access(bound.getsockname()[1])
    config = uvicorn.Config(
        application(studio, access),
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=ENDED,
        lifespan="off",
        ws="none",
    )
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [bound]}, name="episode studio", daemon=True)
    thread.start()
    _wait_for(server, thread)
    Thread(target=studio.warm, name="episode studio warming", daemon=True).start()
    return Serving(studio, access, server, thread, at_end)


def _wait_for(server: uvicorn.Server, thread: Thread) -> None:
    waited = Event()
    for _ in range(int(STARTED / 0.02)):
        if server.started:
            return
        if not thread.is_alive():
            break
        waited.wait(0.02)
    raise EpisodeError("The studio's server did not start.")


def _bind(port: int | None) -> socket.socket:
    """Return a socket that only this machine can reach."""
    for wanted in [PORT, 0] if port is None else [port]:
        found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind((HOST, wanted))
        except OSError as error:
            found.close()
            if wanted == port:
                message = f"The studio cannot listen at port {port}: {error.strerror or error}."
                raise EpisodeError(message, hint="Choose another port, or 0 for any that is free.") from None
        else:
            return found
    raise EpisodeError("The studio found no free port.")


def wait_for_signal() -> None:
    """Return at an interrupt (Ctrl-C) or SIGTERM."""
    with interrupts() as received:
        while not received.wait(PERIOD):
            pass
