"""The plan of aggregates over all matches as a section: the places of a match on rails, and how conditions are
followed."""

from __future__ import annotations

from dataclasses import asdict

from episode.lang.rows.syntax import Alternation, Concatenation, Label, Pattern, Quantified
from episode.plan.events.aggregated import AggregatedPlan, Alternative
from episode.plan.events.aggregated_conditions import Place
from episode.plan.events.aggregated_explain import engine_words, related_words, state_words
from episode.plan.events.plan import AggregatedReport
from episode.plan.expressions import render
from episode.queries.explaining import ExplainedPattern
from episode.see.pictures.plans.blocks import CODE, Block, Column, Diagram, Facts, Section, Table
from episode.see.pictures.plans.drawing import Drawing
from episode.see.pictures.plans.facts import reason_facts, run_facts
from episode.see.pictures.plans.railroad import LabelBox, railroad

WORDS = {"any": "any event", "local": "own condition"}


def aggregated_section(explained: ExplainedPattern, plan: AggregatedPlan) -> Section:
    """One event pattern with AGGREGATE."""
    title, *_ = explained.lines
    blocks: list[Block] = [Diagram("Places of a match: no match is enumerated", _rails(plan)), _conditions(plan)]
    if explained.reports is not None:
        blocks.append(Facts((*_counts(explained), *run_facts(explained))))
    items = [
        ("engine", "; ".join(engine_words(plan))),
        ("partitions", ", ".join((*plan.keys, *plan.same)) or "one (no key and no [attribute])"),
        *(("note", note) for note in plan.notes),
        ("columns moved", ", ".join(plan.input_columns)),
        ("state", state_words(plan)),
    ]
    blocks.append(Facts((*items, *reason_facts(explained))))
    return Section(title, tuple(blocks), "\n".join(explained.lines))


def _rails(plan: AggregatedPlan) -> Drawing:
    def box_of(label: Label) -> LabelBox:
        kind = "local" if plan.conditions[label.name].row_local else "any"
        return LabelBox(kind, f"{label.name}: {WORDS[kind]}", (WORDS[kind],))

    ways = [_way(one) for one in plan.alternatives]
    return railroad(ways[0] if len(ways) == 1 else Alternation(tuple(ways)), box_of, _times)


def _times(node: Quantified) -> str:
    return "one event or more" if node.minimum else "any number of events"


def _way(alternative: Alternative) -> Pattern:
    return Concatenation(tuple(_place(place) for place in alternative.places))


def _place(place: Place) -> Pattern:
    label = Label(place.variable)
    if place.optional or place.repeats:
        return Quantified(label, 0 if place.optional else 1, None)
    return label


def _conditions(plan: AggregatedPlan) -> Table:
    rows = []
    for name in plan.variables:
        parts = " AND ".join(render(part) for part in plan.conditions[name].row_local)
        rows.append((name, parts or "any event", "once per row, before matching"))
    for alternative in plan.alternatives:
        for text, how in related_words(alternative).items():
            rows.append(("events", text, how))
    columns = (Column("of", CODE), Column("condition", CODE), Column("how it is followed"))
    return Table("Conditions", columns, tuple(dict.fromkeys(rows)))


def _counts(explained: ExplainedPattern) -> list[tuple[str, str]]:
    found = AggregatedReport.sum_of(explained.reports or ())
    return [(name, f"{count:,}") for name, count in asdict(found).items()]
