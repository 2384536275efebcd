"""Commands around queries: the size of a cluster, the studio, the demo and its data, the jar for Spark's clients."""

from __future__ import annotations

import webbrowser
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from episode.cli import inputs
from episode.cli.options import ArgumentOption, SparkOptions, TableOption
from episode.see.studio import serve
from episode.terminal.quiet import quiet_spark

CONFINED = {"spark.sql.runSQLOnFiles": "false"}
"""A query cannot name files as tables: it reads the given tables and nothing else."""


def size(
    events_per_second: Annotated[
        str, typer.Option("--events-per-second", "-e", metavar="N", help="The rate of events: 1e7, for example.")
    ],
    keys: Annotated[str, typer.Option("--keys", "-k", metavar="N", help="The number of partition keys.")],
    window: Annotated[
        str | None,
        typer.Option(
            "--window", "-w", metavar="DURATION", help="How long a match may take. Default: the query's WITHIN."
        ),
    ] = None,
    query: Annotated[
        str | None, typer.Option("--query", "-q", metavar="QUERY", help="A file with the query, - or the query itself.")
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option(
            "--sample", metavar="PATH", help="Data to measure the query on, in this process: Parquet, CSV, JSON."
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns", metavar="LIST", help="Measure the query on made-up rows: 'user bigint, ts timestamp'."
        ),
    ] = None,
    arg: ArgumentOption = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="COLUMN", help="Partition column, for patterns without a table. May be repeated."
        ),
    ] = None,
    time: Annotated[
        str | None, typer.Option("--time", metavar="COLUMN", help="Event time, for patterns without a table.")
    ] = None,
    type_column: Annotated[
        str | None, typer.Option("--type-column", metavar="COLUMN", help="Class of each event, for event patterns.")
    ] = None,
    hot_key: Annotated[
        str | None,
        typer.Option("--hot-key", metavar="SHARE", help="The busiest key's share of all events. Default: all alike."),
    ] = None,
    delay: Annotated[
        str, typer.Option("--delay", metavar="DURATION", help="For streams: how late events may come.")
    ] = "0 seconds",
    batch: Annotated[
        str, typer.Option("--batch", metavar="DURATION", help="For a batch: the length of time whose events it has.")
    ] = "1 day",
    finish: Annotated[
        str, typer.Option("--finish", metavar="DURATION", help="For a batch: the time in which it must finish.")
    ] = "1 hour",
    executor_cores: Annotated[
        int, typer.Option("--executor-cores", min=1, metavar="N", help="Cores of an executor.")
    ] = 8,
    executor_memory: Annotated[
        int, typer.Option("--executor-memory", min=1, metavar="GIB", help="The most memory that an executor may have.")
    ] = 64,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Scale the constants to this machine, after measuring for some seconds.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
) -> None:
    """Estimate how many cores, how much memory, network and state a query needs at a rate. Spark is not started."""
    notes = Console(stderr=True)
    from episode.queries.language import Given
    from episode.sizing import answer
    from episode.sizing import constants as known
    from episode.sizing.answer import Demand, number, seconds
    from episode.sizing.measuring import SizingRequest
    from episode.sizing.rendering import as_json, as_text

    demand = Demand(
        rate=number(events_per_second, "--events-per-second"),
        keys=number(keys, "--keys"),
        window=None if window is None else seconds(window, "--window"),
        delay=seconds(delay, "--delay", positive=False),
        hottest=None if hot_key is None else number(hot_key, "--hot-key", least=0.0),
        span=seconds(batch, "--batch"),
        finish=seconds(finish, "--finish"),
        executor_cores=executor_cores,
        executor_memory=executor_memory * 2.0**30,
    )
    text = None if query is None else inputs.read_query(query)
    named = Given(time=time, key=tuple(key or ()), type_column=type_column)
    asked = SizingRequest(text, sample, columns, given=named, arguments=inputs.read_arguments(arg or []))
    constants = known.load_constants()
    if calibrate:
        from episode.sizing.measuring import calibrate_constants

        with notes.status("Measuring this machine"):
            constants = calibrate_constants(constants)
    measuring = sample is not None or columns is not None
    with notes.status("Measuring the query") if measuring else nullcontext():
        profile = asked.profile(demand, constants)
    found = answer.size(demand, profile, constants)
    typer.echo(as_json(found) if json else as_text(found), nl=False)


def studio(
    *,
    table: TableOption = None,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            "--checkpoint", metavar="PATH", help="Watch the live query with this checkpoint. May be repeated."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", "-p", min=0, max=65535, metavar="N", help="0: any free port. Default: 8350 if it is free."
        ),
    ] = None,
    samples: Annotated[
        bool, typer.Option("--samples/--no-samples", help="Offer sample tables, and a gallery of examples over them.")
    ] = True,
    open: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
    spark: SparkOptions,
) -> None:
    """Write, run and look at queries in a browser: a page on this machine, until Ctrl-C."""
    session = spark.read()
    paths = inputs.read_tables(table or [])
    notes = Console(stderr=True)
    with notes.status("Starting Spark and opening the tables"), quiet_spark():
        inputs.start_session(replace(session, settings={**CONFINED, **session.settings}))
        tables = inputs.open_tables(paths)
        serving = serve(tables, port=port, checkpoints=checkpoint or [], samples=samples)
    from episode.see.studio.server import wait_for_signal

    notes.print(Text("The studio is at"))
    notes.print(Text(f"  {serving.address}"), soft_wrap=True, highlight=False)
    notes.print(Text("for browsers of this machine that have the token. Ctrl-C ends it."))
    if open:
        webbrowser.open(serving.address)
    wait_for_signal()
    with notes.status("Stopping"):
        serving.stop()
        serving.studio.tables.spark.stop()
    notes.print("stopped")


def demo(
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIRECTORY", help="Directory for the sample data.", file_okay=False)
    ] = None,
    report: Annotated[
        Path, typer.Option("--report", metavar="FILE", help="Write the report of one of the queries to this file.")
    ] = Path("episode-demo-report.html"),
    live: Annotated[
        bool, typer.Option("--live", help="Run a live query instead, which reports price falls while a market runs.")
    ] = False,
) -> None:
    """Run seven pattern queries over sample data and explain their results."""
    if live and data is not None:
        raise typer.BadParameter("The ticks of a running market are not kept.", param_hint="--data")
    if live:
        from episode import demo_live

        demo_live.run(Console())
        return
    from episode import demo as demonstration

    demonstration.run(Console(), data, report)


def samples(
    directory: Annotated[Path, typer.Argument(help="The directory to write the files to.", file_okay=False)],
    seed: Annotated[int, typer.Option(help="The same seed gives the same data.")] = 7,
) -> None:
    """Write the sample data of the demo: ticks.parquet, clicks.parquet and planted.parquet."""
    from episode import samples as generator

    files = generator.write(directory, seed=seed)
    typer.echo(f"{files.ticks_path}: {files.ticks.table.num_rows:,} rows")
    typer.echo(f"{files.clicks_path}: {files.clicks.table.num_rows:,} rows")


def jar() -> None:
    """Print the path of the jar with which spark-sql, JDBC and other clients of Spark's JVM take episode's clauses."""
    from episode.clients.jar import EXTENSION, JAR

    typer.echo(str(JAR))
    Console(stderr=True).print(
        f"Start Spark with --jars and this path, and --conf spark.sql.extensions={EXTENSION}", highlight=False
    )
