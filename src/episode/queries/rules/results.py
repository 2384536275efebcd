"""The matches of a set of rules, whichever executor finds them, and the plan of the set in words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from episode.errors import EpisodeAnalysisError
from episode.lang.cursor import closest
from episode.matchers.rules.one_rule import RuleSetReport
from episode.plan.expressions import render
from episode.plan.sections import indent, lines_of
from episode.queries.rules.binding import BoundRule
from episode.words import plural

if TYPE_CHECKING:
    from episode.matchers.protocol import InputOrder
    from episode.matchers.rules.spec import RuleSetSpec


Plan = tuple[Sequence[BoundRule], Sequence["RuleSetSpec"], Sequence[str]]
"""Rules, the groups in which they are matched, and how their input is read."""


class RuleMatches(ABC):
    """The matches of a set of rules. Executors: `TableMatches` and `StreamMatches` on Spark, `LocalMatches` in this
    process."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The rules, in order."""

    @abstractmethod
    def _of(self, rule: str) -> Any:
        """Return the matches of a rule of the set."""

    @abstractmethod
    def _plan(self) -> Plan:
        """Return what `explain` shows."""

    def of(self, rule: str) -> Any:
        """Return the matches of one rule, typed as the rule alone gives them."""
        names = self.names
        if rule not in names:
            guess = closest(rule, names) if isinstance(rule, str) else None
            shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
            hint = f"Did you mean {guess}?" if guess else f"Rules: {shown}."
            raise EpisodeAnalysisError(f"There is no rule {rule}.", hint=hint)
        return self._of(rule)

    def explain(self) -> str:
        """Return what the rules share, and how each is evaluated."""
        return "\n".join(explain_rules(*self._plan()))


SHOWN = 12
"""Classes of rows that are listed, those that most rules ask for first."""
NO_PREFIXES = "prefixes of sequences: no two rules begin with the same conditions between events"


def explain_rules(
    rules: Sequence[BoundRule],
    groups: Sequence[RuleSetSpec],
    reasons: Sequence[str],
    reports: Sequence[str] | None = None,
) -> list[str]:
    """The plan of a set of rules: how its input is read, what is shared, then each rule. reports: of a run (JSON)."""
    kinds = Counter(rule.parsed.language.name for rule in rules)
    shown = ", ".join(f"{count} {plural(count, name)}" for name, count in kinds.items())
    columns = dict.fromkeys(name for group in groups for name in group.input_columns)
    lines = [
        f"{len(rules)} {plural(len(rules), 'rule')} ({shown}) over one input",
        f"  read once: {', '.join(columns)}",
        *(f"  {reason}" for reason in reasons),
    ]
    for at, group in enumerate(groups, start=1):
        lines += [f"  {line}" for line in _group(at, group)]
    if reports is not None:
        lines += [f"  {line}" for line in _ran([RuleSetReport.from_json(one) for one in reports])]
    for rule in rules:
        lines += [f"  rule {rule.name}:", *indent(lines_of(rule.parsed.language.section(rule.plan)), 2)]
    return lines


def _group(number: int, group: RuleSetSpec) -> Iterator[str]:
    shared, index = group.shared, group.shared.index
    yield f"group {number}: {len(group.members)} rules {_order_in_words(group.input_order)}; packed and sorted once"
    yield (
        f"  conditions of single rows: {index.asked} asked, {index.conditions} different, in {len(index)} classes of "
        f"rows; each evaluated once"
    )
    wanted: Counter[int] = Counter(one for classes in index.numbered for one in dict.fromkeys(classes))
    classes = {number: parts for parts, number in index.by_class.items()}
    most = [(number, count) for number, count in wanted.most_common() if count > 1 and classes[number]]
    for one, count in most[:SHOWN]:
        yield f"    {' AND '.join(sorted(render(part) for part in classes[one]))}: {count} rules"
    if len(most) > SHOWN:
        yield f"    … and {len(most) - SHOWN} more classes of several rules"
    sparse = sum(one.asked is not None and shared.asked[one.asked].demand.sparse for one in shared.places)
    required = sum(one.asked is not None and bool(shared.asked[one.asked].demand.required) for one in shared.places)
    yield (
        f"  rows of rules: {len(shared.asked)} different choices; {sparse} rules are given only rows that qualify, "
        f"{required} are left out where a row that they need is missing"
    )
    together = sum(one.shares for one in shared.places)
    if together:
        yield f"  columns in lanes: one copy for {together} rules"
    yield from (f"  {line}" for line in _prefixes(group))


def _prefixes(group: RuleSetSpec) -> Iterator[str]:
    common = group.shared.prefixes
    if not common:
        yield NO_PREFIXES
        return
    rules = sum(len(one.rules) for one in common)
    yield (
        f"prefixes of sequences: {len(common)} of {rules} rules; the events of each are found once, if by the cost "
        "model it pays, in feeds of whole partitions"
    )
    for one in common[:SHOWN]:
        yield f"  {one.prefix.words}: {', '.join(group.members[number].name for number in one.rules)}"
    if len(common) > SHOWN:
        yield f"  … and {len(common) - SHOWN} more"


def _order_in_words(order: InputOrder) -> str:
    by = f"by {', '.join(order.keys)}" if order.keys else "in one partition"
    columns = [f"{one.column}{'' if one.ascending else ' DESC'}" for one in order.order]
    return f"{by}, in order of {', '.join(columns)}" if columns else f"{by}, in order of arrival"


def _ran(reports: Sequence[RuleSetReport]) -> Iterator[str]:
    total = RuleSetReport.total(list(reports))
    yield (
        f"run: {total.events:,} events in {total.batches:,} batches; {total.conditions:,} conditions evaluated, "
        f"{total.tested:,} tests of rows; rules were fed {total.feeds:,} times, {total.rows:,} rows in all, and left "
        f"out {total.skipped:,} times; events of common prefixes were found {total.prefixes:,} times"
    )
