"""Rules in process: what each gives alone, and what it gives among others, in one feed or in several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from episode.matchers.protocol import MatcherSpec
from episode.matchers.rules.matcher import RuleSetMatcher
from episode.matchers.rules.spec import rule_groups
from episode.matchers.running import LocalRun, run

Found = dict[str, list[str]]
"""The matches of each rule, in one order."""


def alone(spec: MatcherSpec, pieces: Sequence[pa.Table], until: Sequence[int]) -> list[str]:
    """The matches of one rule; time goes on up to the ends of the pieces."""
    return comparable(run(spec, list(pieces), until=list(until)))


def together(
    specs: Mapping[str, MatcherSpec],
    pieces: Sequence[pa.Table],
    until: Sequence[int],
    restore: bool = False,
    coded: bool = False,
) -> Found:
    """The matches of all rules; restore: the state is written and read before every piece. coded: strings come as
    dictionaries, as they are read from files."""
    pieces = [with_dictionaries(piece) for piece in pieces] if coded else pieces
    schema = next(iter(specs.values())).input_schema
    found: dict[str, list[pa.Table]] = {name: [spec.output_schema.empty_table()] for name, spec in specs.items()}
    for group in rule_groups(list(specs.items()), schema):
        running = LocalRun(group)
        for piece, end in zip(pieces, until, strict=True):
            if restore:
                running.move()
            assert isinstance(running.matcher, RuleSetMatcher)
            for rule, matches in running.matcher.matches(running.events(piece), end):
                found[rule.name].append(matches)
        for rule, matches in running.matcher.last_matches():
            found[rule.name].append(matches)
    return {name: comparable(pa.concat_tables(tables)) for name, tables in found.items()}


def with_dictionaries(table: pa.Table) -> pa.Table:
    """The table with its strings as dictionaries."""
    for at, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = table.column(at).combine_chunks().dictionary_encode()
            table = table.set_column(at, field.with_type(column.type), column)
    return table


def comparable(table: pa.Table) -> list[str]:
    """Rows in one order."""
    return sorted(map(repr, table.to_pylist()))
