"""Rules by name, from wherever they are kept: a folder of files, a mapping, a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Union

from episode.errors import EpisodeAnalysisError

SUFFIXES = (".sql", ".pattern")
NAME, TEXT, ENABLED = "name", "text", "enabled"
FORMS = (
    "Rules are a folder of .sql and .pattern files, a dict of names and texts, or a table with the columns name, text "
    "and, if some are switched off, enabled."
)

Rules = Union[Mapping[str, str], "Iterable[Rule]", str, "PathLike[str]", Any]
"""Rules in any of the forms that `rules_of` takes."""


@dataclass(frozen=True)
class Rule:
    """One pattern by name. enabled: is it in use? origin: the file that it is from."""

    name: str
    text: str
    enabled: bool = True
    origin: str | None = None


def rules_of(given: Rules) -> tuple[Rule, ...]:
    """The rules that are enabled, in order."""
    found = all_rules(given)
    enabled = tuple(rule for rule in found if rule.enabled)
    if not enabled:
        none = "There are no rules." if not found else f"None of the {len(found)} rules is enabled."
        raise EpisodeAnalysisError(none, hint=FORMS)
    return enabled


def all_rules(given: Rules) -> list[Rule]:
    """All rules, in order; there may be none."""
    if isinstance(given, (str, PathLike)):
        found = _in_folder(Path(fspath(given)))
    elif isinstance(given, Mapping):
        found = [_rule(name, text) for name, text in given.items()]
    elif isinstance(given, (list, tuple)) and all(isinstance(one, Rule) for one in given):
        found = list(given)
    else:
        found = _in_table(given)
    _check_names(found)
    return found


def _rule(name: object, text: object, enabled: object = True, origin: str | None = None) -> Rule:
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise EpisodeAnalysisError(f"{name!r} is not the name of a rule.", hint="A name is a text that can be printed.")
    if not isinstance(text, str):
        raise EpisodeAnalysisError(f"Rule {name}: its text is a {type(text).__name__}.", hint=FORMS)
    if not isinstance(enabled, bool):
        raise EpisodeAnalysisError(f"Rule {name}: enabled is {enabled!r}, which is neither true nor false.")
    return Rule(name, text, enabled, origin)


def _check_names(rules: list[Rule]) -> None:
    names: dict[str, Rule] = {}
    for rule in rules:
        _rule(rule.name, rule.text, rule.enabled)
        if rule.name in names:
            places = [one.origin for one in (names[rule.name], rule) if one.origin is not None]
            message = f"Two rules are called {rule.name}{': ' + ' and '.join(places) if places else ''}."
            raise EpisodeAnalysisError(message, hint="Give each rule its own name.")
        names[rule.name] = rule


def _in_folder(folder: Path) -> list[Rule]:
    """A rule for each file, called as the file is without its suffix; subfolders are not looked at."""
    if folder.is_file() and folder.suffix.lower() in SUFFIXES:
        return [_from_file(folder)]
    if not folder.is_dir():
        raise EpisodeAnalysisError(f"There is no folder {folder} of rules.", hint=FORMS)
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())
    if not files:
        raise EpisodeAnalysisError(f"The folder {folder} has no .sql and no .pattern file.", hint=FORMS)
    return [_from_file(path) for path in files]


def _from_file(path: Path) -> Rule:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise EpisodeAnalysisError(f"The rule in {path} cannot be read: {error}.") from None
    return _rule(path.stem, text, origin=str(path))


def _in_table(table: Any) -> list[Rule]:
    """A row for each rule, of a DataFrame of Spark or of any table in memory."""
    if hasattr(table, "sparkSession") and hasattr(table, "toArrow"):
        if table.isStreaming:
            raise EpisodeAnalysisError("The table of rules is a stream.", hint="Read it with spark.read.")
        rows = table.toArrow()
    else:
        from episode.queries.tables import arrow_table

        try:
            rows = arrow_table("rules", table)
        except EpisodeAnalysisError:
            raise EpisodeAnalysisError(f"Rules cannot be a {type(table).__name__}.", hint=FORMS) from None
    columns = {name.lower(): name for name in rows.column_names}
    missing = [name for name in (NAME, TEXT) if name not in columns]
    if missing:
        shown = ", ".join(rows.column_names)
        raise EpisodeAnalysisError(f"The table of rules has no column {missing[0]}; it has {shown}.", hint=FORMS)
    names, texts = (rows.column(columns[name]).to_pylist() for name in (NAME, TEXT))
    enabled = rows.column(columns[ENABLED]).to_pylist() if ENABLED in columns else [True] * len(names)
    return [_rule(name, text, on) for name, text, on in zip(names, texts, enabled, strict=True)]
