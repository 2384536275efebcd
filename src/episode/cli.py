"""The command line: episode run, explain, demo, samples, compile; push, tail, archive, streams.

Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 failed, 2 the query or the
arguments are wrong. pyspark is imported only when a query is about to run, so that help is quick.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from episode import cli_inputs, cli_live, cli_streams
from episode.errors import EpisodeDataError, EpisodeError
from episode.report.compiling import status
from episode.report.quiet import quiet_spark

SCREEN_ROWS = 50
FAILED, WRONG = 1, 2

app = typer.Typer(
    help="Find episodes (patterns of rows over time) in your data, with MATCH_RECOGNIZE on Apache Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Format(str, Enum):
    """Where a result goes: the screen, or files."""

    table = "table"
    parquet = "parquet"
    csv = "csv"
    json = "json"


class Handling(str, Enum):
    """How events come to the matching loop of a live task."""

    adaptive = "adaptive"
    push = "push"
    pull = "pull"


QueryArgument = Annotated[
    str, typer.Argument(metavar="QUERY", help="A file with the query, - for standard input, or the query itself.")
]
TableOption = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        "-t",
        metavar="NAME=PATH",
        help="A table of the query: a Parquet file or directory, or .csv or .json by the suffix; or a Kafka topic "
        "of JSON values, kafka://HOST:PORT/TOPIC?schema=NAME TYPE, … May be repeated.",
    ),
]
ArgumentOption = Annotated[
    list[str] | None,
    typer.Option(
        "--arg",
        "-a",
        metavar="NAME=VALUE",
        help="The value of a parameter, which is :NAME in the query: a number, true, false, null, or text. "
        "May be repeated.",
    ),
]


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
        str | None, typer.Option("--output", "-o", metavar="PATH", help="Write the result there.")
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
) -> None:
    """Run a query and show or store its result."""
    only_live = {"--into": into, "--input": input, "--tasks": tasks, "--metrics": metrics}
    never_live = {"--follow": follow, "--watermark": watermark, "--table": table, "--output": output}
    cli_live.check(live, only_live, {**never_live, "--format": format, "--limit": limit, "--overwrite": overwrite})
    if live:
        given = cli_live.LiveArguments(into, (input or Handling.adaptive).value, checkpoint, tasks, metrics)
        cli_live.read_into(into)
        text, arguments = cli_inputs.read_query(query), cli_inputs.read_arguments(arg or [])
        notes = Console(stderr=True)
        with _errors_reported(notes):
            cli_live.run(text, arguments, given, notes)
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
    chosen = _format(format, output)
    if follow:
        cli_inputs.check_followed(paths.values())
    if output is not None and follow:
        cli_inputs.check_followed_output(output, paths.values(), checkpoint)
    elif output is not None:
        cli_inputs.check_output(output, paths.values(), overwrite)
    notes = Console(stderr=True)
    with _errors_reported(notes):
        if follow:
            _follow(text, arguments, paths, watermark, checkpoint, output, chosen, notes)
            return
        import episode
        from episode.report.progress import progress

        with status(notes, "Starting Spark and reading the query"), quiet_spark():
            result = episode.sql(text, arguments, **_opened(paths))
        if result.isStreaming:
            raise EpisodeError("The result is a stream, which does not end.", hint="Add --follow.")
        if limit is not None and (output is not None or chosen is not Format.table):
            result = result.limit(limit)
        with progress(result.sparkSession, notes):
            if output is not None:
                _write(result, output, chosen, overwrite)
            elif chosen is Format.table:
                _show(result, SCREEN_ROWS if limit is None else limit, notes)
            else:
                _print_lines(result, chosen)
        if output is not None:
            notes.print(Text(f"Written to {output} ({chosen.value})."))


@app.command()
def explain(query: QueryArgument, table: TableOption = None, arg: ArgumentOption = None) -> None:
    """Show how a query would run: pattern program, predicates, scan, shards, state. Nothing is run."""
    text = cli_inputs.read_query(query)
    paths = cli_inputs.read_tables(table or [])
    arguments = cli_inputs.read_arguments(arg or [])
    notes = Console(stderr=True)
    with _errors_reported(notes):
        import episode

        with status(notes, "Starting Spark and reading the query"), quiet_spark():
            explanation = episode.explain(text, arguments, **_opened(paths))
        typer.echo(explanation)


@app.command()
def demo(
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIRECTORY", help="Keep the sample data there.", file_okay=False)
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Instead: price falls reported by a live query while a market runs.")
    ] = False,
) -> None:
    """Run seven pattern queries over sample data and say what their results mean."""
    notes = Console(stderr=True)
    if live and data is not None:
        raise typer.BadParameter("The ticks of a running market are not kept.", param_hint="--data")
    with _errors_reported(notes):
        if live:
            from episode import demo_live

            demo_live.run(Console())
            return
        from episode import demo as demonstration

        demonstration.run(Console(), data)


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


@app.command()
def compile(
    language: Annotated[
        list[str] | None,
        typer.Option(
            "--language",
            "-l",
            metavar="NAME",
            help="Only what these need: rows, events, situations or correlation. May be repeated. Default: all.",
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="In so many processes. Default: all cores.")
    ] = None,
) -> None:
    """Compile the kernels for this machine now, and not when a query first needs them; for images, for example."""
    notes = Console(stderr=True)
    with _errors_reported(notes):
        import episode

        episode.compile_kernels(*(language or ()), jobs=jobs)
        notes.print(Text("The kernels are compiled."))


# ---- declared streams ------------------------------------------------------------------------------

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A declared stream, or its archive.")]
CatalogOption = Annotated[
    Path | None,
    typer.Option("--catalog", metavar="DIRECTORY", help="Where streams are declared, in place of EPISODE_CATALOG."),
]
SkipCorruptOption = Annotated[
    bool, typer.Option("--skip-corrupt", help="Leave out corrupt segments, with a warning for each.")
]


class EventFormat(str, Enum):
    """How events are written in a file."""

    json = "json"
    csv = "csv"
    parquet = "parquet"


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
    with _errors_reported(notes):
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
    with _errors_reported(Console(stderr=True)):
        cli_streams.tail(name, lines, after, follow, csv, skip_corrupt, place)


@app.command()
def archive(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Default: all that have one.")] = None,
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
    with _errors_reported(notes):
        cli_streams.archive(names or [], pause, compact, skip_corrupt, place, notes)


@app.command()
def streams(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Describe this one.")] = None,
    catalog: CatalogOption = None,
) -> None:
    """List the declared streams, or describe one."""
    place = cli_streams.use_catalog(catalog)
    with _errors_reported(Console(stderr=True)):
        if name is None:
            cli_streams.show(place, Console())
        else:
            cli_streams.describe(name, place, Console())


# ---- results ---------------------------------------------------------------------------------------


def _format(wanted: Format | None, output: str | None) -> Format:
    """The format asked for, or the one that the output path suggests."""
    if output is None:
        if wanted is Format.parquet:
            raise typer.BadParameter(
                "Parquet cannot be shown on the screen: give --output PATH.", param_hint="--format"
            )
        return wanted or Format.table
    if wanted is Format.table:
        raise typer.BadParameter(
            "A table goes to the screen: choose parquet, csv or json for --output.", param_hint="--format"
        )
    return wanted or Format(cli_inputs.kind_of(output))


def _write(result: Any, path: str, chosen: Format, overwrite: bool) -> None:
    writer = result.write.mode("overwrite" if overwrite else "error")
    if chosen is Format.csv:
        writer = writer.option("header", True)
    writer.format(chosen.value).save(path)


def _show(result: Any, rows: int, notes: Console) -> None:
    """The first rows on the screen, and a note when there are more."""
    from episode.report.table import result_table

    found = result.limit(rows + 1).collect()
    screen = Console()
    screen.print(result_table(result.columns, found[:rows]))
    if len(found) > rows:
        notes.print(Text(f"The first {rows:,} rows. --limit N shows more, --output PATH stores all."))
    else:
        notes.print(Text("1 row" if len(found) == 1 else f"{len(found):,} rows"))


def _print_lines(result: Any, chosen: Format) -> None:
    """The result on standard output as CSV or JSON lines, each line made by Spark."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if chosen is Format.csv:
        typer.echo(",".join(map(_quoted, result.columns)))
    lines = result.selectExpr(f"to_{chosen.value}(struct(*)) AS line").toArrow()["line"]
    for chunk in lines.chunks:
        if len(chunk):
            whole = pa.ListArray.from_arrays(pa.array([0, len(chunk)], pa.int32()), chunk.cast(pa.string()))
            typer.echo(pc.binary_join(whole, "\n")[0].as_py())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '\\"') + '"' if any(sign in name for sign in ',"\n\\') else name


# ---- streams ---------------------------------------------------------------------------------------


def _follow(
    text: str,
    arguments: dict[str, object],
    paths: dict[str, str],
    watermark: str | None,
    checkpoint: str | None,
    output: str | None,
    chosen: Format,
    notes: Console,
) -> None:
    """Run a query over streams until an interrupt."""
    import episode
    from episode import follow

    hint = "Give its tables with --table NAME=DIRECTORY, or name a declared stream."
    nothing = EpisodeError("The query has no stream to follow.", hint=hint)
    if not paths and not episode.streams.names():
        raise nothing
    with status(notes, "Starting Spark and reading the query"), quiet_spark(), follow.without_interrupts():
        result = episode.sql(text, arguments, options=episode.Options(watermark=watermark), **_followed(paths))
    if not result.isStreaming:
        raise nothing
    target = follow.Target(output, chosen.value, None if output is not None else _lines_of(result, chosen))
    if output is None and chosen is Format.table and not sys.stdout.isatty():
        notes.print("The matches are not shown, this is no terminal: --format json prints them.")
    with _checkpoint(checkpoint, notes) as place:
        follow.follow(result, target, place, notes, numeric_time=_is_numeric(text, watermark))


def _is_numeric(text: str, watermark: str | None) -> bool:
    """Is event time a number? The watermark says so, or else the streams that a query names."""
    if watermark is not None:
        return watermark.strip().isdigit()
    import episode

    words = {word.lower() for word in re.findall(r"\w+", text)}
    named = [episode.streams.describe(name) for name in episode.streams.names() if name.lower() in words]
    return any(one.event_time.units_per_millisecond == 1 for one in named)


@contextmanager
def _checkpoint(path: str | None, notes: Console) -> Iterator[str]:
    """The place of the checkpoint: as given, or for this run alone."""
    if path is not None:
        yield path if not cli_inputs.is_local(path) else os.path.abspath(cli_inputs.local(path))
        return
    with tempfile.TemporaryDirectory(prefix="episode-checkpoint-", ignore_cleanup_errors=True) as place:
        notes.print(
            Text(f"The checkpoint is in {place} and goes when this run ends; --checkpoint PATH keeps one."),
            soft_wrap=True,
        )
        yield place


def _lines_of(result: Any, chosen: Format) -> Callable[[Any], None] | None:
    """What prints the matches of a micro-batch as CSV or JSON lines; None for a table on the screen."""
    if chosen is Format.table:
        return None
    if chosen is Format.csv:
        typer.echo(",".join(map(_quoted, result.columns)))

    def print_lines(batch: Any) -> None:
        for row in batch.selectExpr(f"to_{chosen.value}(struct(*)) AS line").toLocalIterator():
            typer.echo(row.line)

    return print_lines


# ---- inputs and errors -----------------------------------------------------------------------------


def _opened(paths: dict[str, str]) -> dict[str, Any]:
    """Tables as episode takes them: Parquet by its path, all others as DataFrames."""
    return {name: _table(path) for name, path in paths.items()}


def _table(path: str) -> Any:
    if path.startswith(cli_inputs.KAFKA):
        return _topic(path, follow=False)
    kind = cli_inputs.kind_of(path)
    if kind == "parquet":
        return path
    from episode.spark import sources
    from episode.spark.session import session

    return sources.files(session(None), path, kind)


def _followed(paths: dict[str, str]) -> dict[str, Any]:
    """Tables as streams."""
    from episode.spark import sources
    from episode.spark.session import session

    spark = session(None)
    sources.fit_for_streams(spark)
    return {
        name: _topic(path, follow=True)
        if path.startswith(cli_inputs.KAFKA)
        else sources.followed_files(spark, path, cli_inputs.kind_of_directory(path))
        for name, path in paths.items()
    }


def _topic(url: str, *, follow: bool) -> Any:
    from episode.spark import sources
    from episode.spark.session import session

    topic = cli_inputs.read_topic(url)
    return sources.topic(session(None), topic.servers, topic.name, topic.schema, topic.options, follow=follow)


@contextmanager
def _errors_reported(notes: Console) -> Iterator[None]:
    """Errors become a message and an exit code; EPISODE_TRACEBACK=1 keeps the traceback, for bug reports."""
    if os.environ.get("EPISODE_TRACEBACK"):
        yield
        return
    try:
        yield
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        # The reader of our output has left, as `head` does: nothing is wrong, and nothing more can be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        notes.print("interrupted")
        raise typer.Exit(130) from None
    except Exception as error:  # noqa: BLE001 - the last stop before the user: anything becomes a message
        message, code = _explained(error)
        notes.print(Text("error: ", style="bold red").append(message, style="default"), soft_wrap=True)
        raise typer.Exit(code) from None


def _explained(error: Exception) -> tuple[str, int]:
    """What to tell the user, and the exit code."""
    if not isinstance(error, EpisodeError) and "pyspark" in sys.modules:
        from episode.spark.errors import translate

        error = translate(error) or error
    if isinstance(error, EpisodeError):
        return str(error), FAILED if isinstance(error, EpisodeDataError) else WRONG
    if "pyspark" in sys.modules:
        from pyspark.errors import AnalysisException, PySparkException

        if isinstance(error, PySparkException):
            message = re.split(r"\n\n?(?:JVM stacktrace:|=== Streaming Query ===)", str(error))[0].strip()
            return message, WRONG if isinstance(error, AnalysisException) else FAILED
    return f"{type(error).__name__}: {error}", FAILED
