"""What the matchers of a set of rules have done, for `explain`."""

from __future__ import annotations

from dataclasses import dataclass

from episode.plan.report import CarriedReport


@dataclass
class RuleSetReport(CarriedReport):
    """conditions: how often one was evaluated, tested: over how many rows in all. rows: those that rules were fed,
    feeds: in so many batches. skipped: how often a rule was not fed, as none of its rows were there. opened: rules with
    a matcher. prefixes: how often the events of a prefix of several rules were found for all of them."""

    rules: int
    events: int = 0
    batches: int = 0
    conditions: int = 0
    tested: int = 0
    rows: int = 0
    feeds: int = 0
    skipped: int = 0
    opened: int = 0
    prefixes: int = 0

    def fed(self, events: int, conditions: int, tested: int) -> None:
        """A batch came."""
        self.events += events
        self.batches += 1
        self.conditions += conditions
        self.tested += tested

    @staticmethod
    def summed(reports: list[RuleSetReport]) -> RuleSetReport:
        """Of several matchers."""
        total = RuleSetReport(max((one.rules for one in reports), default=0))
        for one in reports:
            for name in ("events", "batches", "conditions", "tested", "rows", "feeds", "skipped", "prefixes"):
                setattr(total, name, getattr(total, name) + getattr(one, name))
            total.opened = max(total.opened, one.opened)
        return total
