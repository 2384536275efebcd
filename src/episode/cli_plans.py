"""Plans on the command line: in which format, and into which file."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import typer


class PlanFormat(str, Enum):
    """How a plan is shown."""

    text = "text"
    html = "html"
    svg = "svg"
    native = "native"


def chosen_format(format: PlanFormat | None, output: Path | None) -> PlanFormat:
    """What is asked for; else what the suffix of the file says; else text."""
    if format is not None:
        return format
    by_suffix = {".html": PlanFormat.html, ".htm": PlanFormat.html, ".svg": PlanFormat.svg}
    return PlanFormat.text if output is None else by_suffix.get(output.suffix.lower(), PlanFormat.text)


def check_file(output: Path | None, overwrite: bool) -> None:
    """Before anything is planned: there is a place for the file."""
    if output is None:
        return
    if output.exists() and not overwrite:
        raise typer.BadParameter(f"{output} exists: give --overwrite to replace it.", param_hint="--output")
    if not output.parent.is_dir():
        raise typer.BadParameter(f"There is no directory {output.parent}.", param_hint="--output")


def write_plan(plan: str, output: Path) -> None:
    """Into its file."""
    try:
        output.write_text(plan if plan.endswith("\n") else f"{plan}\n", encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{output} cannot be written: {error}.", param_hint="--output") from None
