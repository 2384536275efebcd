"""The input of a query as the planner sees it: columns with Spark types, and a way to ask Spark for the type of an expression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from episode.errors import EpisodeAnalysisError, EpisodeUnsupportedError
from episode.lang.syntax import ColumnRef


def no_spark(expression: str) -> str:
    """Type oracle of in-process runs, where Spark is not there to evaluate anything."""
    raise EpisodeUnsupportedError(f"Evaluating {expression} needs Spark.")


@dataclass(frozen=True)
class InputSchema:
    """columns: name → Spark simple type string, in order. type_of: type of a Spark expression over them (analysis only)."""

    columns: dict[str, str]
    type_of: Callable[[str], str] = field(default=no_spark, compare=False)
    utc: bool = True
    case_sensitive: bool = False

    def find(self, name: str) -> str | None:
        """The column's own spelling."""
        if name in self.columns:
            return name
        if not self.case_sensitive:
            return next((column for column in self.columns if column.lower() == name.lower()), None)
        return None

    def resolve(self, reference: ColumnRef, source: str) -> tuple[str, tuple[str, ...]]:
        """Column and struct fields behind a reference, or an error that lists what there is."""
        column = self.find(reference.path[0])
        if column is not None:
            return column, reference.path[1:]
        written = ".".join(([reference.label] if reference.label else []) + list(reference.path))
        what = "column" if len(reference.path) == 1 or reference.label else "column or label"
        known = ", ".join(list(self.columns)[:20]) + (", …" if len(self.columns) > 20 else "")
        raise EpisodeAnalysisError(
            f"There is no {what} {reference.path[0]} (in {written})."
            if written != reference.path[0]
            else f"There is no {what} {written}.",
            source=source,
            position=reference.span.start,
            length=reference.span.end - reference.span.start,
            hint=f"Columns of the input: {known}.",
        )


def quote(name: str) -> str:
    """A Spark identifier."""
    return "`" + name.replace("`", "``") + "`"
