"""Options given without their groups, for tables of tests."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from episode.plan.options import Options, StreamOptions, Tuning


def grouped(**options: Any) -> Options:
    """The options, each in its group."""
    groups: dict[str, Any] = {}
    for name, group in (("tuning", Tuning), ("stream", StreamOptions)):
        own = {one.name: options.pop(one.name) for one in fields(group) if one.name in options}
        if own:
            groups[name] = group(**own)
    return Options(**options, **groups)
