"""The result of sizing as plain text and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from episode.sizing.answer import Deployment, SizingResult
from episode.sizing.constants import ASSUMED
from episode.sizing.model import BUSY, State
from episode.words import binary_size, duration_in_full


def as_text(answer: SizingResult) -> str:
    return "\n".join([*_head(answer), *_ways(answer), *_parts(answer), *_settings(answer), *_notes(answer)]) + "\n"


def as_json(answer: SizingResult) -> str:
    """Render all figures as JSON: seconds, bytes, events; null if not applicable."""
    constants = {name: asdict(one) for name, one in answer.constants.known.items()}
    found = {
        "demand": asdict(answer.demand),
        "window": answer.window,
        "hottest_key_share": answer.hottest,
        "query": asdict(answer.profile),
        "ways": {
            way.kind: {**asdict(way), "memory": way.machines.memory, "memory_together": way.machines.together}
            for way in answer.ways
        },
        "state": {
            way.kind: None if state is None else asdict(state)
            for way, state in ((answer.micro, answer.state), (answer.live, answer.live_state))
        },
        "scaled": answer.constants.scaled,
        "constants": constants,
        "notes": _notes(answer)[1:],
    }
    return json.dumps(_finite(found), indent=2) + "\n"


def _finite(value: Any) -> Any:
    """Replace infinite numbers by None, since JSON has no infinity."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _head(answer: SizingResult) -> list[str]:
    demand, profile = answer.demand, answer.profile
    window = "no window" if answer.window is None else f"a window of {duration_in_full(answer.window)}"
    keys = f"{count(demand.keys)} keys" if profile.keyed else "one key (no PARTITION BY)"
    lines = [f"{count(demand.rate)} events/s of {keys}, {window}", f"{profile.language}: {profile.origin}"]
    if profile.rows:
        lines.append(
            f"  {profile.row_bytes:.1f} bytes a row, {profile.envelope_bytes:.1f} packed, "
            f"{profile.envelope_bytes * profile.wire_share:.1f} on the wire; "
            f"{share(profile.passing)} of the rows are moved; {profile.matches:.3g} matches a row"
        )
    return [*lines, ""]


def _ways(answer: SizingResult) -> list[str]:
    ways, demand = answer.ways, answer.demand
    rows = [
        ["", f"batch of {duration_in_full(demand.span)}", answer.micro.kind, answer.live.kind],
        ["cores", *(count(way.machines.cores) for way in ways)],
        ["executors", *(f"{way.machines.executors:,} x {way.machines.executor_cores} cores" for way in ways)],
        ["memory of an executor", *(binary_size(way.machines.memory) for way in ways)],
        ["memory in all", *(binary_size(way.machines.together) for way in ways)],
        ["network", *(f"{binary_size(way.machines.network)}/s" if way.machines.network else "none" for way in ways)],
        ["state", "", *(_state(state) for state in (answer.state, answer.live_state))],
        ["shuffle partitions", *("none" if way.partitions is None else count(way.partitions) for way in ways)],
        ["busy cores", *(share(way.busy) for way in ways)],
        ["time of a batch", *map(duration_in_full, (answer.batch.seconds or 0.0, answer.micro.length or 0.0)), ""],
        ["a match is emitted, 50%", "", *(duration_in_full(way.median or 0.0) for way in ways[1:])],
        ["a match is emitted, 99%", "", *(duration_in_full(way.most or 0.0) for way in ways[1:])],
        ["one key, at most", f"{share(answer.batch.one_key)} of rows", *(f"{count(w.one_key)}/s" for w in ways[1:])],
        ["bottleneck", *(way.bottleneck for way in ways)],
    ]
    return [*table(rows), ""]


def _state(state: State | None) -> str:
    return "not bounded" if state is None else binary_size(state.bytes)


def _parts(answer: SizingResult) -> list[str]:
    ways = answer.ways
    names = list(dict.fromkeys(name for way in ways for name in way.work.parts))
    rows = [["ns of a core for each event", "batch", answer.micro.kind, answer.live.kind]]
    for name in names:
        rows.append([name, *(f"{way.work.parts[name]:.1f}" if name in way.work.parts else "" for way in ways)])
    rows.append(["all", *(f"{way.work.total:.1f}" for way in ways)])
    return [*table(rows), ""]


def _settings(answer: SizingResult) -> list[str]:
    lines = []
    for way in answer.ways:
        lines.append(f"settings, {way.kind}:")
        lines += [f"  {name}={value}" for name, value in way.settings.items()]
    return [*lines, ""]


def _notes(answer: SizingResult) -> list[str]:
    constants, profile, demand = answer.constants, answer.profile, answer.demand
    lines = ["notes:"]
    if constants.scaled is None:
        known = (
            f"those stored, measured on {constants.machine}, {constants.date}; --calibrate scales them to this machine"
        )
    else:
        longer = f"{constants.scaled:.2f} times as long as {constants.machine}"
        known = f"scaled to this machine: its cores take {longer}"
    lines.append(f"* The constants are {known}.")
    if not profile.rows:
        lines.append("* The query itself was not measured: --sample DATA or --columns 'NAME TYPE, …' does that.")
    assumed = [name for name, one in constants.known.items() if one.how.startswith(ASSUMED)]
    lines.append(f"* Measured on 1 and 2 cores; more is extrapolated. Assumed, not measured: {', '.join(assumed)}.")
    lines.append(
        f"* Streams: cores are busy for at most {share(BUSY)} of the time; the rest is for bursts and recovery."
    )
    if profile.within is not None and demand.window is not None and demand.window != profile.within:
        within, window = duration_in_full(profile.within), duration_in_full(demand.window)
        lines.append(f"* The query has WITHIN {within}; this is for {window}.")
    if answer.state is None:
        lines.append("* Nothing bounds a match: the state of a stream may grow for ever. Give WITHIN, or --window.")
    elif not answer.state.measured:
        lines.append("* The state is the most there can be: every row of the window is taken to be held.")
    else:
        lines.append(
            f"* The state at the most, were every row of the window held: {binary_size(answer.state.most_bytes)}."
        )
    lines += [line for way in answer.ways for line in _of_key(answer, way)]
    return lines


def _of_key(answer: SizingResult, way: Deployment) -> list[str]:
    if not way.too_hot:
        return []
    if way is answer.batch and answer.profile.bounded:
        cut = "more than a task should: it is to be cut into slices of time, which the length of a match allows."
        return [f"* batch: one key has {share(answer.hottest)} of the rows, {cut}"]
    if way is answer.batch:
        whole = "and nothing bounds a match: it is not cut, and one task decides when the batch is done."
        return [f"* batch: one key has {share(answer.hottest)} of the rows, {whole}"]
    busiest = answer.demand.rate * answer.hottest
    return [
        f"* {way.kind}: the busiest key has {count(busiest)} events/s, one task matches at most {count(way.one_key)}. "
        "Slices of time do not apply to streams: partition by more columns."
    ]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align rows of cells in columns; the first column to the left."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = []
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
        if number == 0:
            lines.append("  ".join("-" * width for width in widths))
    return lines


def count(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.2g}"


def share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.1 or value == 0 else f"{value:.2g}" if value < 0.001 else f"{value:.1%}"
