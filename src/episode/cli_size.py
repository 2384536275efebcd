"""`episode size`: how large a cluster must be for a query at a rate."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import typer
from rich.console import Console

from episode import cli_inputs


@dataclass(frozen=True)
class SizeArguments:
    """The options of `episode size`, as they were written."""

    events_per_second: str
    keys: str
    window: str | None
    query: str | None
    sample: str | None
    columns: str | None
    arguments: list[str]
    key: list[str]
    time: str | None
    type_column: str | None
    hot_key: str | None
    delay: str
    batch: str
    finish: str
    executor_cores: int
    executor_memory: int
    calibrate: bool
    json: bool


def run(given: SizeArguments, notes: Console) -> None:
    """Read the options, measure what there is to measure, and print the answer."""
    from episode.queries.language import Given
    from episode.sizing import constants as known
    from episode.sizing.answer import size
    from episode.sizing.asking import Asked
    from episode.sizing.demand import Demand, number, seconds
    from episode.sizing.shown import as_json, as_text

    demand = Demand(
        rate=number(given.events_per_second, "--events-per-second"),
        keys=number(given.keys, "--keys"),
        window=None if given.window is None else seconds(given.window, "--window"),
        delay=seconds(given.delay, "--delay", positive=False),
        hottest=None if given.hot_key is None else number(given.hot_key, "--hot-key", least=0.0),
        span=seconds(given.batch, "--batch"),
        finish=seconds(given.finish, "--finish"),
        executor_cores=given.executor_cores,
        executor_memory=given.executor_memory * 2.0**30,
    )
    text = None if given.query is None else cli_inputs.read_query(given.query)
    named = Given(time=given.time, key=tuple(given.key), type_column=given.type_column)
    asked = Asked(text, given.sample, given.columns, given=named, arguments=cli_inputs.read_arguments(given.arguments))
    constants = known.stored()
    if given.calibrate:
        from episode.sizing.calibrating import calibrated

        with notes.status("Measuring this machine"):
            constants = calibrated(constants)
    measuring = given.sample is not None or given.columns is not None
    with notes.status("Measuring the query") if measuring else nullcontext():
        profile = asked.profile(demand, constants)
    answer = size(demand, profile, constants)
    typer.echo(as_json(answer) if given.json else as_text(answer), nl=False)
