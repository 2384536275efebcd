"""Whether random cases are of the kind that a test is about."""

from __future__ import annotations

from hypothesis import settings

USUAL = 60
"""Examples of a test, unless it says otherwise."""


def assert_enough(found: int, least: int) -> None:
    """Fail if there were not more than `least` cases (or matches) of the kind: the test would show nothing. Of fewer
    examples than usual, which begin with the simplest ones, not so many are wanted."""
    assert found > least or settings.default.max_examples < USUAL, f"{found} cases, not more than {least}"
