"""The one place where tests wait for another process or thread: until something holds, and never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 120.0
"""Seconds after which something that has not happened is a failure."""
STEP = 0.02
Found = TypeVar("Found")


def wait_until(
    look: Callable[[], Found], alive: Callable[[], object] = lambda: True, story: Callable[[], object] = str
) -> Found:
    """Return what `look` finds once that is true. alive: the test fails when it is not. story: of the failure."""
    deadline = time.monotonic() + PATIENCE
    while not (found := look()):
        assert alive(), story()
        assert time.monotonic() < deadline, story()
        time.sleep(STEP)
    return found
