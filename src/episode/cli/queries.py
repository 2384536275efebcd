"""`episode run` and `episode explain`: one query, over tables as they are now or over streams."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from episode.cli import follow as following
from episode.cli import inputs, results
from episode.cli.options import (
    ArgumentOption,
    Handling,
    OutputOptions,
    QueryArgument,
    SparkOptions,
    TableOption,
    WatermarkOption,
    complete_streams,
)
from episode.errors import EpisodeError
from episode.terminal.errors import report_errors, run_interruptibly
from episode.terminal.quiet import quiet_spark


def run(
    query: QueryArgument,
    *,
    table: TableOption = None,
    arg: ArgumentOption = None,
    result: OutputOptions,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write a report, too: one HTML file that opens anywhere."),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Go on with what is added to directories and topics, until Ctrl-C."),
    ] = False,
    watermark: WatermarkOption = None,
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
            autocompletion=complete_streams,
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
    spark: SparkOptions,
) -> None:
    """Run a query and show or store its result."""
    only_live = {"--into": into, "--input": input, "--tasks": tasks, "--metrics": metrics}
    never_live = {"--follow": follow, "--watermark": watermark, "--table": table, "--output": result.output}
    endless = {"--limit": result.limit, "--overwrite": result.overwrite}
    inputs.check_live_options(live, only_live, {**never_live, "--format": result.format, **endless})
    results.check_report(report, follow, live)
    session = spark.read()
    notes = Console(stderr=True)
    if live:
        given = following.LiveArguments(into, (input or Handling.adaptive).value, checkpoint, tasks, metrics)
        following.read_into(into)
        text, arguments = inputs.read_query(query), inputs.read_arguments(arg or [])
        with report_errors(notes):
            following.run_live(text, arguments, given, session, notes)
        return
    streamed = {"--watermark": watermark, "--checkpoint": checkpoint}
    inputs.check_follow_options(follow, streamed, endless, tables=bool(table))
    text = inputs.read_query(query)
    paths = inputs.read_tables(table or [])
    arguments = inputs.read_arguments(arg or [])
    target = result.read()
    if follow:
        inputs.check_followed(paths.values())
    if target.output is not None and follow:
        inputs.check_followed_output(target.output, paths.values(), checkpoint)
    elif target.output is not None:
        inputs.check_output(target.output, paths.values(), target.overwrite)
    with report_errors(notes):
        if follow:
            where = following.FollowArguments(watermark, checkpoint, target.output, target.format)
            following.run(text, arguments, paths, where, session, notes)
        else:
            run_interruptibly(lambda: _run(text, arguments, paths, target, session, notes, report))


def _run(
    text: str,
    arguments: dict[str, object],
    paths: dict[str, str],
    target: results.Target,
    session: inputs.SessionArguments,
    notes: Console,
    report: Path | None,
) -> None:
    """Run a query over tables as they are now."""
    import episode

    with notes.status("Starting Spark and reading the query"), quiet_spark():
        inputs.start_session(session)
        result = episode.sql(text, arguments, tables=inputs.open_tables(paths))
    if result.isStreaming:
        raise EpisodeError("The result is a stream, which does not end.", hint="Add --follow.")
    if report is None:
        target.take(result, notes)
    else:
        results.take_with_report(result, report, target, notes)
    target.say_where(notes)


def explain(
    query: QueryArgument,
    *,
    table: TableOption = None,
    arg: ArgumentOption = None,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run the patterns, and say what their plans did and where time went.")
    ] = False,
    format: Annotated[
        results.PlanFormat | None,
        typer.Option("--format", "-f", help="Default: text; with --output, by its suffix (.html, .svg)."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the plan there.", dir_okay=False)
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    spark: SparkOptions,
) -> None:
    """Show how a query would run, in words or as a picture: pattern program, predicates, scan, shards, state. Nothing
    is run, unless --analyze is given."""
    results.check_plan_file(output, overwrite)
    session = spark.read()
    text = inputs.read_query(query)
    paths = inputs.read_tables(table or [])
    arguments = inputs.read_arguments(arg or [])
    notes = Console(stderr=True)
    shown = results.choose_format(format, output)

    def make_plan() -> str:
        import episode

        with notes.status("Starting Spark and reading the query"), quiet_spark():
            inputs.start_session(session)
            tables = inputs.open_tables(paths)
            return episode.explain(text, arguments, tables=tables, analyze=analyze, format=shown.value)

    with report_errors(notes):
        plan = run_interruptibly(make_plan)
    if output is None:
        typer.echo(plan)
    else:
        results.write_plan(plan, output)
        notes.print(Text(f"Written to {output} ({shown.value})."))
