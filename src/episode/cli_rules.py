"""`episode run-rules`: a folder of rules over one table, or over a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from episode import cli_follow, cli_inputs, cli_results, cli_session, cli_tables
from episode.terminal.quiet import quiet_spark


@dataclass(frozen=True)
class RuleArguments:
    """What is said of the rules. rule: only this one, typed as it is alone. explain: only how they would run."""

    folder: str
    arguments: dict[str, object]
    time: str | None
    start: str | None
    key: tuple[str, ...]
    type_column: str | None
    rule: str | None
    explain: bool


def check(arguments: RuleArguments, tables: dict[str, str], output: str | None, follows: bool = False) -> None:
    """One table, and an output only where there is a result."""
    if len(tables) != 1:
        given = ", ".join(tables) or "none"
        raise typer.BadParameter(
            f"Rules are over one table: give --table NAME=PATH once (given: {given}).", param_hint="--table"
        )
    if next(iter(tables.values())).startswith(cli_inputs.KAFKA) and not follows:
        raise typer.BadParameter("A topic is followed: --follow.", param_hint="--table")
    if arguments.explain and follows:
        raise typer.BadParameter("--explain is for rules over a table.", param_hint="--follow")
    if arguments.explain and output is not None:
        raise typer.BadParameter("--explain shows the plan, and runs nothing.", param_hint="--output")


def run(
    arguments: RuleArguments,
    tables: dict[str, str],
    target: cli_results.Target,
    session: cli_session.SessionArguments,
    notes: Console,
    interruptible: Callable[[Callable[[], Any]], Any],
) -> None:
    """Run all rules, and show or store what they found."""
    interruptible(lambda: _run(arguments, tables, target, session, notes))


def _run(
    arguments: RuleArguments,
    tables: dict[str, str],
    target: cli_results.Target,
    session: cli_session.SessionArguments,
    notes: Console,
) -> None:
    import episode
    from episode.terminal.progress import progress

    ((name, _),) = tables.items()
    with notes.status("Starting Spark and reading the rules"), quiet_spark():
        cli_session.start(session)
        matches = episode.match_all(
            cli_tables.opened(tables)[name],
            arguments.folder,
            arguments.arguments,
            time=arguments.time,
            start=arguments.start,
            key=arguments.key,
            type_column=arguments.type_column,
            table=name,
        )
        if arguments.explain:
            typer.echo(matches.explain())
            return
        found = matches.frame if arguments.rule is None else matches.of(arguments.rule)
        if arguments.rule is None and target.format in (cli_results.Format.table, cli_results.Format.csv):
            found = as_text(found)
    with progress(found.sparkSession, notes):
        target.take(found, notes)
    if target.output is not None:
        notes.print(Text(f"Written to {target.output} ({target.format.value})."))


def follow(
    arguments: RuleArguments,
    tables: dict[str, str],
    given: cli_follow.FollowArguments,
    session: cli_session.SessionArguments,
    notes: Console,
) -> None:
    """Run the rules over a stream until an interrupt; they are looked at meanwhile, and may change."""
    import episode
    from episode import follow

    ((name, _),) = tables.items()
    with cli_follow.checkpoint_place(given.checkpoint, notes) as place:
        with notes.status("Starting Spark and reading the rules"), quiet_spark(), follow.without_interrupts():
            cli_session.start(session)
            matches = episode.match_all(
                cli_tables.followed(tables)[name],
                arguments.folder,
                arguments.arguments,
                time=arguments.time,
                start=arguments.start,
                key=arguments.key,
                type_column=arguments.type_column,
                table=name,
                log=f"{place}/rules",
                options=episode.Options(watermark=given.watermark),
            )
            found = matches.frame if arguments.rule is None else matches.of(arguments.rule)
            found = matches.watched(as_text(found) if arguments.rule is None else found)
        numeric = given.watermark is not None and given.watermark.strip().isdigit()
        try:
            cli_follow.show(found, given, place, notes, numeric_time=numeric)
        finally:
            matches.close()


def as_text(frame: Any) -> Any:
    """With the results as JSON: a screen and CSV files have no VARIANT."""
    if frame.schema["result"].dataType.simpleString() != "variant":
        return frame
    return frame.selectExpr("* EXCEPT (result)", "to_json(result) AS result")
