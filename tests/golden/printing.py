"""Syntax trees in a compact form: every grouping shown, every atom of an expression between angle brackets."""

from __future__ import annotations

import re
from typing import Any

from episode.lang.events.syntax import (
    Closure,
    Conjunction,
    Disjunction,
    EventAggregate,
    EventClass,
    EventColumn,
    EventPattern,
    EventQuery,
    Index,
    Negation,
    Reach,
    Sequence,
    WholeEvent,
)
from episode.lang.rows.syntax import (
    Alternation,
    Anchor,
    Classifier,
    Concatenation,
    Empty,
    Exclusion,
    Label,
    MatchNumber,
    MatchRecognize,
    Navigation,
    OrderItem,
    Pattern,
    Quantified,
)
from episode.lang.situations.syntax import (
    Constraint,
    SituationAggregate,
    SituationColumn,
    SituationDefinition,
    SituationQuery,
    SituationTime,
)
from episode.lang.statement import Statement
from episode.lang.syntax import (
    Aggregate,
    ColumnRef,
    RowKey,
    Scalar,
    Span,
)
from episode.plan.output import OutputAtom


def statement_text(statement: Statement) -> str:
    def at(span: Span) -> str:
        return " ".join(statement.source[span.start : span.end].split())

    lines = []
    for table in statement.common_tables:
        lines.append(f"with {at(table.span)}{' (recursive)' if table.recursive else ''}")
        lines.append(f"  visible in: {at(table.scope)}")
    for pattern in statement.patterns:
        lines.append(f"input {at(pattern.input)}; alias {pattern.alias}; name {pattern.name}")
        lines += [f"  {line}" for line in clause_lines(pattern.clause)]
    for found in statement.tables:
        shown = event_lines(found.query) if isinstance(found.query, EventQuery) else situation_lines(found.query)
        lines.append(f"{found.word.lower()} {at(found.span)}")
        lines += [f"  {line}" for line in shown]
    if isinstance(statement.whole, EventQuery):
        lines += ["the whole is an event pattern", *(f"  {line}" for line in event_lines(statement.whole))]
    if isinstance(statement.whole, SituationQuery):
        lines += ["the whole is a situation pattern", *(f"  {line}" for line in situation_lines(statement.whole))]
    return "\n".join(lines)


def clause_lines(clause: MatchRecognize) -> list[str]:
    lines = []
    if clause.partition_by:
        lines.append(f"partition by {', '.join(key_text(key) for key in clause.partition_by)}")
    if clause.order_by:
        lines.append(f"order by {', '.join(order_text(item) for item in clause.order_by)}")
    lines += [f"measure {measure.name} = {scalar_text(measure.expression)}" for measure in clause.measures]
    skip = f"{clause.skip_to.value}{' ' + clause.skip_label if clause.skip_label else ''}"
    lines.append(f"{clause.rows_per_match.value}; skip {skip}; {clause.match_mode.value}")
    lines.append(f"pattern {pattern_text(clause.pattern)}")
    if clause.within is not None:
        lines.append(f"within {clause.within.amount} {clause.within.unit or 'units'}")
    lines += [f"subset {subset.name} = {', '.join(subset.labels)}" for subset in clause.subsets]
    lines += [f"define {definition.label} = {scalar_text(definition.condition)}" for definition in clause.definitions]
    return lines


def key_text(key: RowKey) -> str:
    text = scalar_text(key.expression) if key.column is None else atom_text(key.column)
    return text if key.name is None else f"{text} as {key.name}"


def order_text(item: OrderItem) -> str:
    direction = "asc" if item.ascending else "desc"
    return f"{key_text(item.key)} {direction} nulls {'first' if item.nulls_first else 'last'}"


def pattern_text(pattern: Pattern) -> str:
    """Concatenations in [ ], alternatives in < >."""
    if isinstance(pattern, Label):
        return pattern.name
    if isinstance(pattern, Empty):
        return "()"
    if isinstance(pattern, Anchor):
        return "^" if pattern.at_start else "$"
    if isinstance(pattern, Quantified):
        most = "" if pattern.maximum is None else pattern.maximum
        return f"{pattern_text(pattern.part)}{{{pattern.minimum},{most}}}{'' if pattern.greedy else '?'}"
    if isinstance(pattern, Exclusion):
        return f"{{- {pattern_text(pattern.part)} -}}"
    parts = [pattern_text(part) for part in pattern.parts]
    if isinstance(pattern, Concatenation):
        return f"[{' '.join(parts)}]"
    return f"<{' | '.join(parts)}>" if isinstance(pattern, Alternation) else f"permute({', '.join(parts)})"


def scalar_text(scalar: Scalar) -> str:
    atoms = dict(scalar.atoms)
    text = re.sub(r"__episode_\d+", lambda found: f"⟨{atom_text(atoms[found.group(0)])}⟩", scalar.text)
    return " ".join(text.split())


def output_text(atom: OutputAtom) -> str:
    """What the matcher delivers for a measure; sets in a fixed order, columns of the row itself by name."""
    text = re.sub(
        r"frozenset\(\{(.*?)\}\)", lambda found: "|".join(sorted(re.findall(r"\w+", found.group(1)))), repr(atom)
    )
    return re.sub(r"Load\(column='(\w+)', at=Current\(offset=0\), type='[^']*', missing=None\)", r"\1", text)


def atom_text(atom: Any) -> str:
    if isinstance(atom, (EventColumn, EventAggregate, WholeEvent)):
        return event_atom_text(atom)
    if isinstance(atom, (SituationColumn, SituationAggregate, SituationTime)):
        return situation_atom_text(atom)
    if isinstance(atom, ColumnRef):
        return ".".join([atom.label or "*", *atom.path])
    if isinstance(atom, Classifier):
        return f"label of {atom.label or '*'}"
    if isinstance(atom, MatchNumber):
        return "match number"
    mode = f"{atom.mode.value} " if atom.mode else ""
    if isinstance(atom, Navigation):
        offset = f"[{atom.logical_offset}]" if atom.logical_offset else ""
        shift = f"{atom.physical_offset:+d}" if atom.physical_offset else ""
        return f"{mode}{atom.logical}{offset}{shift} {scalar_text(atom.argument)}"
    assert isinstance(atom, Aggregate)
    if atom.star:
        return f"{mode}count rows of {atom.star_label or '*'}"
    return f"{mode}{atom.function} {', '.join(scalar_text(argument) for argument in atom.arguments)}"


# ---- event patterns ----------------------------------------------------------------------------------


def event_lines(query: EventQuery) -> list[str]:
    lines = []
    if query.input.table is not None:
        lines.append(f"from {query.input.table}")
    if query.input.partition_by:
        lines.append(f"partition by {', '.join(query.input.partition_by)}")
    if query.input.time is not None:
        lines.append(f"order by {query.input.time}")
    if query.input.type_column is not None:
        lines.append(f"type by {query.input.type_column}")
    lines.append(f"pattern {event_pattern_text(query.pattern)}")
    lines += [f"where {scalar_text(condition)}" for condition in query.conditions]
    lines += [f"same {'.'.join(same.path)}" for same in query.same]
    if query.strategy is not None:
        lines.append(query.strategy.value)
    if query.within is not None:
        lines.append(f"within {query.within.amount} {query.within.unit or 'units'}")
    lines += [] if query.collapsed is None else ["collapsed"]
    lines += [f"return {item.name} = {scalar_text(item.expression)}" for item in query.returns or ()]
    return lines


def event_pattern_text(pattern: EventPattern) -> str:
    """Sequences, conjunctions and alternatives in brackets; closures: all of a group, or any choice."""
    if isinstance(pattern, EventClass):
        return pattern.name if pattern.name == pattern.variable else f"{pattern.name} {pattern.variable}"
    if isinstance(pattern, Negation):
        return f"!{event_pattern_text(pattern.part)}"
    if isinstance(pattern, Closure):
        sign = "*+"[pattern.minimum] if pattern.count is None else f"^{pattern.count}"
        return f"{'all' if pattern.groups else 'any'}{{{event_pattern_text(pattern.part)}}}{sign}"
    parts = [event_pattern_text(part) for part in pattern.parts]
    if isinstance(pattern, Sequence):
        return f"[{'; '.join(parts)}]"
    assert isinstance(pattern, (Conjunction, Disjunction))
    return f"[{' & '.join(parts)}]" if isinstance(pattern, Conjunction) else f"<{' | '.join(parts)}>"


def event_atom_text(atom: EventColumn | EventAggregate | WholeEvent) -> str:
    if isinstance(atom, EventAggregate):
        reach = {Reach.ALL: "", Reach.BEFORE: " before i", Reach.CURRENT: " up to i"}[atom.reach]
        arguments = ", ".join(scalar_text(argument) for argument in atom.arguments) or "events"
        return f"{atom.function} over {atom.variable}{reach}: {arguments}"
    brackets = {
        Index.PLAIN: "",
        Index.EACH: "[i]",
        Index.BACK: f"[i-{atom.number}]",
        Index.AT: f"[{atom.number}]",
        Index.LAST: "[last]",
        Index.ALL: "[]",
    }
    if isinstance(atom, WholeEvent):
        return f"event {atom.variable}{brackets[atom.index]}"
    return ".".join([f"{atom.variable}{brackets[atom.index]}", *atom.path])


# ---- situation patterns ------------------------------------------------------------------------------


def situation_lines(query: SituationQuery) -> list[str]:
    lines = []
    if query.input.table is not None:
        lines.append(f"from {query.input.table}{f' as {query.input.alias}' if query.input.alias else ''}")
    if query.input.partition_by:
        lines.append(f"partition by {', '.join(query.input.partition_by)}")
    if query.input.time is not None:
        lines.append(f"order by {query.input.time}")
    lines += [f"define {definition_text(definition)}" for definition in query.definitions]
    lines += [f"constraint {constraint_text(constraint)}" for constraint in query.constraints]
    if query.within is not None:
        lines.append(f"within {query.within.amount} {query.within.unit or 'units'}")
    lines += [f"return {item.name} = {scalar_text(item.expression)}" for item in query.returns or ()]
    return lines


def definition_text(definition: SituationDefinition) -> str:
    limits = [("at least", definition.at_least), ("at most", definition.at_most)]
    shown = [f" {word} {limit.amount} {limit.unit or 'units'}" for word, limit in limits if limit is not None]
    return f"{definition.symbol} = {scalar_text(definition.condition)}{''.join(shown)}"


def constraint_text(constraint: Constraint) -> str:
    relations = "|".join(relation.value for relation in constraint.relations)
    return f"{constraint.left} {relations} {constraint.right}"


def situation_atom_text(atom: SituationColumn | SituationAggregate | SituationTime) -> str:
    if isinstance(atom, SituationColumn):
        return ".".join(atom.path)
    if isinstance(atom, SituationTime):
        return f"{atom.what.value} of {atom.symbol}"
    arguments = ", ".join(scalar_text(argument) for argument in atom.arguments) or "events"
    return f"{atom.function} over {atom.symbol}: {arguments}"
