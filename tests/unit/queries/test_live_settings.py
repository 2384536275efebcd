"""The arguments of `episode.start` that say how its tasks work."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from episode.errors import EpisodeAnalysisError
from episode.queries.live_start import LiveSettings

PLAN: Any = SimpleNamespace(late_path=None)


def test_what_is_not_said_is_as_usual() -> None:
    options = LiveSettings().options(PLAN)
    assert (options.handling, options.max_unprocessed, options.future) == ("adaptive", 1_000_000, 0)


def test_what_is_said_goes_to_the_tasks() -> None:
    options = LiveSettings(max_unprocessed=5_000, push_ahead=2, snapshot_every=0.5).options(PLAN)
    assert (options.max_unprocessed, options.future, options.snapshot_every) == (5_000, 2, 0.5)
    assert LiveSettings("pull").options(PLAN).handling == "pull"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"input": "poll"}, "input='poll': one of 'pull', 'push', 'adaptive' is needed."),
        ({"max_unprocessed": 0}, "max_unprocessed=0: a whole number of at least 1 is needed."),
        ({"push_ahead": -1}, "push_ahead=-1: a whole number of at least 0 is needed."),
        ({"push_ahead": 1, "input": "push"}, "push_ahead=1 has no meaning with input='push'."),
    ],
)
def test_what_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(EpisodeAnalysisError) as error:
        LiveSettings(**settings)
    assert message in str(error.value)
