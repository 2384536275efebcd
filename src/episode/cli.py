"""The command line: episode run, run-rules, explain, size, studio, demo, samples, compile; push, tail, archive,
streams.

Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 failed, 2 the query or the
arguments are wrong, 130 interrupted. pyspark is imported only when a query is about to run, so that help is quick.
"""

from __future__ import annotations

import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from episode import (
    cli_completing,
    cli_follow,
    cli_inputs,
    cli_live,
    cli_plans,
    cli_report,
    cli_results,
    cli_rules,
    cli_session,
    cli_size,
    cli_streams,
    cli_studio,
    cli_tables,
)
from episode.cli_errors import errors_reported
from episode.cli_interrupts import interruptible
from episode.cli_options import (
    ArgumentOption,
    CatalogOption,
    ConfOption,
    EventFormat,
    Handling,
    JarsOption,
    MasterOption,
    NameArgument,
    PackageOption,
    QueryArgument,
    SkipCorruptOption,
    TableOption,
)
from episode.cli_plans import PlanFormat
from episode.cli_results import Format
from episode.errors import EpisodeError
from episode.terminal.quiet import quiet_spark

app = typer.Typer(
    help="Find episodes (patterns of rows over time) in your data, with MATCH_RECOGNIZE on Apache Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _as_one_line(message: Warning | str, *_: object, **__: object) -> str:
    return f"warning: {message}\n"


def main() -> None:
    """Entry point of the `episode` command."""
    warnings.formatwarning = _as_one_line
    app()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"episode {version('episode')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Find episodes (patterns of rows over time) in your data, with MATCH_RECOGNIZE on Apache Spark."""


@app.command()
def run(
    query: QueryArgument,
    table: TableOption = None,
    arg: ArgumentOption = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="PATH", help="Write the result there; delta:PATH: as a Delta table."),
    ] = None,
    format: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="Default: a table on the screen; with --output, its suffix or Parquet."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=0, metavar="N", help="At most N rows of the result.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is at the output path.")] = False,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write a report, too: one HTML file that opens anywhere."),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Go on with what is added to directories and topics, until Ctrl-C."),
    ] = False,
    watermark: Annotated[
        str | None,
        typer.Option("--watermark", metavar="DURATION", help="With --follow: how late events may come: '10 seconds'."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint",
            metavar="PATH",
            help="With --follow or --live: go on from there, and keep the state there.",
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option("--live", help="Match declared streams in live tasks, within milliseconds, until Ctrl-C."),
    ] = False,
    into: Annotated[
        str | None,
        typer.Option(
            "--into",
            metavar="WHERE",
            help="With --live: a stream by its name (made where there is none), a path with a slash for Parquet files, "
            "or kafka://HOST:PORT/TOPIC. Default: the screen.",
            autocompletion=cli_completing.streams,
        ),
    ] = None,
    input: Annotated[
        Handling | None, typer.Option("--input", help="With --live: how events come in. Default: adaptive.")
    ] = None,
    tasks: Annotated[
        int | None, typer.Option("--tasks", min=1, metavar="N", help="With --live: how many tasks there are.")
    ] = None,
    metrics: Annotated[
        int | None,
        typer.Option(
            "--metrics", min=0, metavar="PORT", help="With --live: figures for Prometheus, on 127.0.0.1; 0: any port."
        ),
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    package: PackageOption = None,
    jars: JarsOption = None,
) -> None:
    """Run a query and show or store its result."""
    only_live = {"--into": into, "--input": input, "--tasks": tasks, "--metrics": metrics}
    never_live = {"--follow": follow, "--watermark": watermark, "--table": table, "--output": output}
    cli_live.check(live, only_live, {**never_live, "--format": format, "--limit": limit, "--overwrite": overwrite})
    cli_report.check(report, follow, live)
    session = cli_session.read_session(master, conf or [], package or [], jars or [])
    notes = Console(stderr=True)
    if live:
        given = cli_live.LiveArguments(into, (input or Handling.adaptive).value, checkpoint, tasks, metrics)
        cli_live.read_into(into)
        text, arguments = cli_inputs.read_query(query), cli_inputs.read_arguments(arg or [])
        with errors_reported(notes):
            cli_live.run(text, arguments, given, session, notes)
        return
    cli_inputs.check_follow_options(
        follow,
        {"--watermark": watermark, "--checkpoint": checkpoint},
        {"--limit": limit, "--overwrite": overwrite},
        tables=bool(table),
    )
    text = cli_inputs.read_query(query)
    paths = cli_inputs.read_tables(table or [])
    arguments = cli_inputs.read_arguments(arg or [])
    chosen, output = cli_results.chosen_output(format, output)
    if follow:
        cli_inputs.check_followed(paths.values())
    if output is not None and follow:
        cli_inputs.check_followed_output(output, paths.values(), checkpoint)
    elif output is not None:
        cli_inputs.check_output(output, paths.values(), overwrite)
    with errors_reported(notes):
        if follow:
            where = cli_follow.FollowArguments(watermark, checkpoint, output, chosen)
            cli_follow.run(text, arguments, paths, where, session, notes)
            return
        target = cli_results.Target(output, chosen, limit, overwrite)
        interruptible(lambda: _run(text, arguments, paths, target, session, notes, report))


def _run(
    text: str,
    arguments: dict[str, object],
    paths: dict[str, str],
    target: cli_results.Target,
    session: cli_session.SessionArguments,
    notes: Console,
    report: Path | None,
) -> None:
    """Run a query over tables as they are now."""
    import episode
    from episode.terminal.progress import progress

    with notes.status("Starting Spark and reading the query"), quiet_spark():
        cli_session.start(session)
        result = episode.sql(text, arguments, tables=cli_tables.opened(paths))
    if result.isStreaming:
        raise EpisodeError("The result is a stream, which does not end.", hint="Add --follow.")

    def take() -> None:
        with progress(result.sparkSession, notes):
            target.take(result, notes)

    if report is None:
        take()
    else:
        cli_report.beside(result, report, take, notes)
    if target.output is not None:
        notes.print(Text(f"Written to {target.output} ({target.format.value})."))


@app.command("run-rules")
def run_rules(
    rules: Annotated[
        str, typer.Argument(metavar="FOLDER", help="A folder of .sql and .pattern files: a rule each, named after it.")
    ],
    table: TableOption = None,
    arg: ArgumentOption = None,
    time: Annotated[
        str | None, typer.Option("--time", metavar="COLUMN", help="Of event and situation patterns: the event time.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--start", metavar="COLUMN", help="Of event patterns: where events last, their start.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="COLUMN", help="Of event and situation patterns: partitions. May be repeated."),
    ] = None,
    type_column: Annotated[
        str | None,
        typer.Option("--type-column", metavar="COLUMN", help="Of event patterns: the column with the class of events."),
    ] = None,
    rule: Annotated[
        str | None, typer.Option("--rule", metavar="NAME", help="Only this rule, with the columns of its own result.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what the rules share and how they would run; nothing is run.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="PATH", help="Write the result there; delta:PATH: as a Delta table."),
    ] = None,
    format: Annotated[
        Format | None,
        typer.Option("--format", "-f", help="Default: a table on the screen; with --output, its suffix or Parquet."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=0, metavar="N", help="At most N rows of the result.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is at the output path.")] = False,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Go on with what is added to the directory or topic, and to the rules."),
    ] = False,
    watermark: Annotated[
        str | None,
        typer.Option("--watermark", metavar="DURATION", help="With --follow: how late events may come: '10 seconds'."),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="PATH", help="With --follow: go on from there, and keep the state there."),
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    package: PackageOption = None,
    jars: JarsOption = None,
) -> None:
    """Run a folder of rules over one table, which is read once, and show or store what they found.

    With --follow the table is a stream, and rules are added, replaced and removed as their files are.
    """
    session = cli_session.read_session(master, conf or [], package or [], jars or [])
    paths = cli_inputs.read_tables(table or [])
    arguments = cli_inputs.read_arguments(arg or [])
    given = cli_rules.RuleArguments(rules, arguments, time, start, tuple(key or ()), type_column, rule, explain)
    cli_rules.check(given, paths, output, follow)
    if not follow and (watermark is not None or checkpoint is not None):
        raise typer.BadParameter("--watermark and --checkpoint are for streams: --follow.", param_hint="--follow")
    if follow and limit is not None:
        raise typer.BadParameter("A stream has no end: --limit is for tables.", param_hint="--limit")
    chosen, output = cli_results.chosen_output(format, output)
    if follow:
        notes = Console(stderr=True)
        with errors_reported(notes):
            how = cli_follow.FollowArguments(watermark, checkpoint, output, chosen)
            cli_rules.follow(given, paths, how, session, notes)
        return
    if output is not None:
        cli_inputs.check_output(output, paths.values(), overwrite)
    notes = Console(stderr=True)
    with errors_reported(notes):
        target = cli_results.Target(output, chosen, limit, overwrite)
        cli_rules.run(given, paths, target, session, notes, interruptible)


@app.command()
def explain(
    query: QueryArgument,
    table: TableOption = None,
    arg: ArgumentOption = None,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run the patterns, and say what their plans did and where time went.")
    ] = False,
    format: Annotated[
        PlanFormat | None,
        typer.Option("--format", "-f", help="Default: text; with --output, by its suffix (.html, .svg)."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the plan there.", dir_okay=False)
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    package: PackageOption = None,
    jars: JarsOption = None,
) -> None:
    """Show how a query would run, in words or as a picture: pattern program, predicates, scan, shards, state. Nothing
    is run, unless --analyze is given."""
    cli_plans.check_file(output, overwrite)
    session = cli_session.read_session(master, conf or [], package or [], jars or [])
    text = cli_inputs.read_query(query)
    paths = cli_inputs.read_tables(table or [])
    arguments = cli_inputs.read_arguments(arg or [])
    notes = Console(stderr=True)
    shown = cli_plans.chosen_format(format, output)

    def explained() -> str:
        import episode

        with notes.status("Starting Spark and reading the query"), quiet_spark():
            cli_session.start(session)
            tables = cli_tables.opened(paths)
            return episode.explain(text, arguments, tables=tables, analyze=analyze, format=shown.value)

    with errors_reported(notes):
        plan = interruptible(explained)
    if output is None:
        typer.echo(plan)
    else:
        cli_plans.write_plan(plan, output)
        notes.print(Text(f"Written to {output} ({shown.value})."))


@app.command()
def size(
    events_per_second: Annotated[
        str, typer.Option("--events-per-second", "-e", metavar="N", help="How many events come: 1e7, for example.")
    ],
    keys: Annotated[str, typer.Option("--keys", "-k", metavar="N", help="How many partition keys there are.")],
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
        typer.Option("--key", metavar="COLUMN", help="Of a pattern without a table: its key. May be repeated."),
    ] = None,
    time: Annotated[
        str | None, typer.Option("--time", metavar="COLUMN", help="Of a pattern without a table: its event time.")
    ] = None,
    type_column: Annotated[
        str | None, typer.Option("--type-column", metavar="COLUMN", help="Of an event pattern: the classes of events.")
    ] = None,
    hot_key: Annotated[
        str | None,
        typer.Option("--hot-key", metavar="SHARE", help="The busiest key's share of all events. Default: all alike."),
    ] = None,
    delay: Annotated[
        str, typer.Option("--delay", metavar="DURATION", help="Of streams: how late events may come.")
    ] = "0 seconds",
    batch: Annotated[
        str, typer.Option("--batch", metavar="DURATION", help="Of a batch: the events of how long it has.")
    ] = "1 day",
    finish: Annotated[
        str, typer.Option("--finish", metavar="DURATION", help="Of a batch: in what time it is to be done.")
    ] = "1 hour",
    executor_cores: Annotated[
        int, typer.Option("--executor-cores", min=1, metavar="N", help="Cores of an executor.")
    ] = 8,
    executor_memory: Annotated[
        int, typer.Option("--executor-memory", min=1, metavar="GIB", help="Memory of an executor, at most.")
    ] = 64,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Scale the constants to this machine, by a measurement of some seconds.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="All figures as JSON.")] = False,
) -> None:
    """Say how many cores, how much memory, network and state a query needs at a rate. Spark is not started."""
    notes = Console(stderr=True)
    given = cli_size.SizeArguments(
        events_per_second, keys, window, query, sample, columns, arg or [], key or [], time, type_column, hot_key,
        delay, batch, finish, executor_cores, executor_memory, calibrate, json,
    )  # fmt: skip
    with errors_reported(notes):
        cli_size.run(given, notes)


@app.command()
def studio(
    table: TableOption = None,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            "--checkpoint", metavar="PATH", help="Watch the live query that keeps its state there. May be repeated."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", "-p", min=0, max=65535, metavar="N", help="0: any that is free. Default: 8350 if free."),
    ] = None,
    samples: Annotated[
        bool, typer.Option("--samples/--no-samples", help="Sample tables, and a gallery of examples over them.")
    ] = True,
    open: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    package: PackageOption = None,
    jars: JarsOption = None,
) -> None:
    """Write, run and look at queries in a browser: a page on this machine, until Ctrl-C."""
    session = cli_session.read_session(master, conf or [], package or [], jars or [])
    paths = cli_inputs.read_tables(table or [])
    notes = Console(stderr=True)
    given = cli_studio.StudioArguments(paths, checkpoint or [], port, samples, open)
    with errors_reported(notes):
        cli_studio.run(given, session, notes)


@app.command()
def demo(
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIRECTORY", help="Keep the sample data there.", file_okay=False)
    ] = None,
    report: Annotated[
        Path, typer.Option("--report", metavar="FILE", help="Where the report of one of the queries goes.")
    ] = Path("episode-demo-report.html"),
    live: Annotated[
        bool, typer.Option("--live", help="Instead: price falls reported by a live query while a market runs.")
    ] = False,
) -> None:
    """Run seven pattern queries over sample data and say what their results mean."""
    notes = Console(stderr=True)
    if live and data is not None:
        raise typer.BadParameter("The ticks of a running market are not kept.", param_hint="--data")
    with errors_reported(notes):
        if live:
            from episode import demo_live

            demo_live.run(Console())
            return
        from episode import demo as demonstration

        demonstration.run(Console(), data, report)


@app.command()
def samples(
    directory: Annotated[Path, typer.Argument(help="Where to write the files.", file_okay=False)],
    seed: Annotated[int, typer.Option(help="The same seed gives the same data.")] = 7,
) -> None:
    """Write the sample data of the demo: ticks.parquet, clicks.parquet and planted.parquet."""
    from episode import samples as generator

    files = generator.write(directory, seed=seed)
    typer.echo(f"{files.ticks_path}: {files.ticks.table.num_rows:,} rows")
    typer.echo(f"{files.clicks_path}: {files.clicks.table.num_rows:,} rows")


# ---- declared streams ------------------------------------------------------------------------------


@app.command()
def push(
    name: NameArgument,
    source: Annotated[
        str,
        typer.Option("--from", "-i", metavar="PATH", help="JSON lines, CSV with a header or Parquet; - is the pipe."),
    ],
    format: Annotated[
        EventFormat | None, typer.Option("--format", "-f", help="Default: by the suffix; JSON lines for a pipe.")
    ] = None,
    batch: Annotated[
        int, typer.Option("--batch", min=1, metavar="N", help="Events that are stored at once.")
    ] = 100_000,
    producer: Annotated[
        str | None,
        typer.Option("--producer", metavar="ID", help="Pushed again under this name, the same file is stored once."),
    ] = None,
    catalog: CatalogOption = None,
) -> None:
    """Append events to a stream. A batch is stored whole or not at all."""
    kind = cli_streams.kind_of(source, None if format is None else format.value)
    place = cli_streams.use_catalog(catalog)
    notes = Console(stderr=True)
    with errors_reported(notes):
        cli_streams.push(name, source, kind, batch, producer, place, notes)


@app.command()
def tail(
    name: NameArgument,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, metavar="N", help="Begin with the last N events.")] = 10,
    after: Annotated[
        int | None, typer.Option("--after", min=0, metavar="POSITION", help="Begin after a position; 0 is before all.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Go on with events that come.")] = True,
    csv: Annotated[bool, typer.Option("--csv", help="CSV in place of JSON lines.")] = False,
    skip_corrupt: SkipCorruptOption = False,
    catalog: CatalogOption = None,
) -> None:
    """Print the last events of a stream, and those that come, as JSON lines."""
    place = cli_streams.use_catalog(catalog)
    with errors_reported(Console(stderr=True)):
        cli_streams.tail(name, lines, after, follow, csv, skip_corrupt, place)


@app.command()
def archive(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Default: all that have one.", autocompletion=cli_completing.streams),
    ] = None,
    every: Annotated[
        str | None, typer.Option("--every", metavar="DURATION", help="Go on, with such pauses: '10 seconds'.")
    ] = None,
    compact: Annotated[bool, typer.Option("--compact", help="Join all small files, too.")] = False,
    skip_corrupt: SkipCorruptOption = False,
    catalog: CatalogOption = None,
) -> None:
    """Move the events of streams into their archives, and let go what RETAIN no longer keeps."""
    pause = cli_streams.read_every(every)
    place = cli_streams.use_catalog(catalog)
    notes = Console(stderr=True)
    with errors_reported(notes):
        cli_streams.archive(names or [], pause, compact, skip_corrupt, place, notes)


@app.command()
def streams(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Describe this one.", autocompletion=cli_completing.streams),
    ] = None,
    catalog: CatalogOption = None,
) -> None:
    """List the declared streams, or describe one."""
    place = cli_streams.use_catalog(catalog)
    with errors_reported(Console(stderr=True)):
        if name is None:
            cli_streams.show(place, Console())
        else:
            cli_streams.describe(name, place, Console())
