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
    LiveTaskOptions,
    OutputOptions,
    QueryArgument,
    SparkOptions,
    TableOption,
    WatermarkOption,
)
from episode.errors import EpisodeError
from episode.terminal.errors import run_interruptibly
from episode.terminal.quiet import quiet_spark


def run(
    query: QueryArgument,
    *,
    table: TableOption = None,
    arg: ArgumentOption = None,
    result: OutputOptions,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Also write a report: one HTML file that opens anywhere."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep running on what is added to directories and topics, until Ctrl-C.")
    ] = False,
    watermark: WatermarkOption = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            "--checkpoint", metavar="PATH", help="With --follow or --live: keep the state there, and resume from it."
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Match declared streams in live tasks, within milliseconds, until Ctrl-C.")
    ] = False,
    live_task: LiveTaskOptions,
    spark: SparkOptions,
) -> None:
    """Run a query and show or store its result."""
    only_live = {f"--{name}": value for name, value in vars(live_task).items()}
    never_live = {"--follow": follow, "--watermark": watermark, "--table": table, "--output": result.output}
    endless = {"--limit": result.limit, "--overwrite": result.overwrite}
    inputs.check_options("--live", live, only_live, {**never_live, "--format": result.format, **endless})
    results.check_report(report, follow, live)
    session = spark.read()
    notes = Console(stderr=True)
    if live:
        following.read_into(live_task.into)
        text, arguments = inputs.read_query(query), inputs.read_arguments(arg or [])
        following.run_live(text, arguments, live_task, checkpoint, session, notes)
        return
    inputs.check_options("--follow", follow, {"--watermark": watermark, "--checkpoint": checkpoint}, endless)
    if follow and table and watermark is None:  # declarations of streams set it, tables do not
        message = "How late may events come? Give --watermark '10 seconds', or a number where event time is one."
        raise typer.BadParameter(message, param_hint="--watermark")
    text = inputs.read_query(query)
    paths = inputs.read_tables(table or [])
    arguments = inputs.read_arguments(arg or [])
    target = result.read()
    if follow:
        inputs.check_followed(paths.values())
        if target.output is not None:
            inputs.check_followed_output(target.output, paths.values(), checkpoint)
        where = following.FollowArguments(watermark, checkpoint, target.output, target.format)
        following.run(text, arguments, paths, where, session, notes)
        return
    if target.output is not None:
        inputs.check_output(target.output, paths.values(), target.overwrite, results.OVERWRITE)

    def compute() -> None:
        import episode

        with notes.status("Starting Spark and reading the query"), quiet_spark():
            inputs.start_session(session)
            found = episode.sql(text, arguments, tables=inputs.open_tables(paths))
        if found.isStreaming:
            raise EpisodeError("The result is a stream, which does not end.", hint="Add --follow.")
        if report is None:
            target.take(found, notes)
        else:
            results.take_with_report(found, report, target, notes)
        target.say_where(notes)

    run_interruptibly(compute)


def explain(
    query: QueryArgument,
    *,
    table: TableOption = None,
    arg: ArgumentOption = None,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run the patterns, and show what their plans did and where the time went.")
    ] = False,
    format: Annotated[
        results.PlanFormat | None,
        typer.Option("--format", "-f", help="Default: text; with --output, by its suffix (.html, .svg)."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the plan to this file.", dir_okay=False)
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

    plan = run_interruptibly(make_plan)
    if output is None:
        typer.echo(plan)
    else:
        results.write_plan(plan, output)
        notes.print(Text(f"Written to {output} ({shown.value})."))
