"""`episode run-rules`: a folder of rules over one table, or over a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console

from episode.cli import follow as following
from episode.cli import inputs, results
from episode.cli.options import ArgumentOption, OutputOptions, SparkOptions, TableOption, WatermarkOption
from episode.terminal.errors import run_interruptibly, without_interrupts
from episode.terminal.quiet import quiet_spark


@dataclass(frozen=True)
class RuleOptions:
    """The rules, and what they are over. rule: only this one, typed as it is alone. explain: run nothing."""

    rules: Annotated[
        str, typer.Argument(metavar="FOLDER", help="Folder of .sql and .pattern files, one rule each, with its name.")
    ]
    table: TableOption = None
    arg: ArgumentOption = None
    time: Annotated[
        str | None, typer.Option("--time", metavar="COLUMN", help="Event time of event and situation patterns.")
    ] = None
    start: Annotated[
        str | None, typer.Option("--start", metavar="COLUMN", help="Start of events that last, in event patterns.")
    ] = None
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="COLUMN", help="Partition column of these patterns. May be repeated."),
    ] = None
    type_column: Annotated[
        str | None, typer.Option("--type-column", metavar="COLUMN", help="Class of each event, in event patterns.")
    ] = None
    rule: Annotated[
        str | None, typer.Option("--rule", metavar="NAME", help="Only this rule, with its own result columns.")
    ] = None
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what the rules share and how they would run; nothing is run.")
    ] = False

    def match(self, events: Any, table: str, **streamed: Any) -> Any:
        """Return the matches of the rules over events, which their texts call `table`."""
        import episode

        return episode.match_all(
            events,
            self.rules,
            inputs.read_arguments(self.arg or []),
            time=self.time,
            start=self.start,
            key=tuple(self.key or ()),
            type_column=self.type_column,
            table=table,
            **streamed,
        )


def run_rules(
    *,
    given: RuleOptions,
    result: OutputOptions,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep running on new events, and follow changes of the rules.")
    ] = False,
    watermark: WatermarkOption = None,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="PATH", help="With --follow: keep the state there, and resume from it."),
    ] = None,
    spark: SparkOptions,
) -> None:
    """Run a folder of rules over one table, which is read once, and show or store what they found.

    With --follow the table is a stream, and rules are added, replaced and removed as their files are.
    """
    session = spark.read()
    paths = inputs.read_tables(given.table or [])
    inputs.read_arguments(given.arg or [])
    _check(given, paths, result.output, follow)
    if not follow and (watermark is not None or checkpoint is not None):
        raise typer.BadParameter("--watermark and --checkpoint are for streams: --follow.", param_hint="--follow")
    if follow and result.limit is not None:
        raise typer.BadParameter("A stream has no end: --limit is for tables.", param_hint="--limit")
    target = result.read()
    if target.output is not None and not follow:
        inputs.check_output(target.output, paths.values(), target.overwrite, results.OVERWRITE)
    notes = Console(stderr=True)
    if follow:
        where = following.FollowArguments(watermark, checkpoint, target.output, target.format)
        _follow(given, paths, where, session, notes)
    else:
        run_interruptibly(lambda: _run(given, paths, target, session, notes))


def _check(given: RuleOptions, tables: dict[str, str], output: str | None, follows: bool) -> None:
    """Refuse more than one table, and an output without a result."""
    if len(tables) != 1:
        names = ", ".join(tables) or "none"
        raise typer.BadParameter(
            f"Rules are over one table: give --table NAME=PATH once (given: {names}).", param_hint="--table"
        )
    if next(iter(tables.values())).startswith(inputs.KAFKA) and not follows:
        raise typer.BadParameter("A topic is followed: --follow.", param_hint="--table")
    if given.explain and follows:
        raise typer.BadParameter("--explain is for rules over a table.", param_hint="--follow")
    if given.explain and output is not None:
        raise typer.BadParameter("--explain shows the plan, and runs nothing.", param_hint="--output")


def _run(
    given: RuleOptions, tables: dict[str, str], target: results.Target, session: inputs.SessionArguments, notes: Console
) -> None:
    """Run all rules over a table, and show or store what they found."""
    (name,) = tables
    with notes.status("Starting Spark and reading the rules"), quiet_spark():
        inputs.start_session(session)
        matches = given.match(inputs.open_tables(tables)[name], name)
        if given.explain:
            typer.echo(matches.explain())
            return
        found = matches.frame if given.rule is None else matches.of(given.rule)
        if given.rule is None and target.format in (results.Format.table, results.Format.csv):
            found = _as_text(found)
    target.take(found, notes)
    target.say_where(notes)


def _follow(
    given: RuleOptions,
    tables: dict[str, str],
    where: following.FollowArguments,
    session: inputs.SessionArguments,
    notes: Console,
) -> None:
    """Run the rules over a stream until an interrupt; they are looked at meanwhile, and may change."""
    import episode

    (name,) = tables
    with following.checkpoint_place(where.checkpoint, notes) as place:
        with notes.status("Starting Spark and reading the rules"), quiet_spark(), without_interrupts():
            inputs.start_session(session)
            options = episode.Options(watermark=where.watermark)
            matches = given.match(inputs.follow_tables(tables)[name], name, log=f"{place}/rules", options=options)
            found = matches.frame if given.rule is None else matches.of(given.rule)
            found = matches.watch_rules(_as_text(found) if given.rule is None else found)
        numeric = where.watermark is not None and where.watermark.strip().isdigit()
        try:
            following.show(found, where, place, notes, numeric_time=numeric)
        finally:
            matches.close()


def _as_text(frame: Any) -> Any:
    """Return the results as JSON: a screen and CSV files have no VARIANT."""
    if frame.schema["result"].dataType.simpleString() != "variant":
        return frame
    return frame.selectExpr("* EXCEPT (result)", "to_json(result) AS result")
