"""What a query costs for each row of its input, on one core: measured on data, or taken from the stored constants."""

from __future__ import annotations

from dataclasses import dataclass

from episode.sizing.constants import Constants

ROWS, EVENTS, SITUATIONS = "row pattern", "event pattern", "situation pattern"
MATCH = {ROWS: "match_rows", EVENTS: "match_events", SITUATIONS: "match_situations"}
"""The constant that stands in for the matching of a query that was not measured, by language."""


@dataclass(frozen=True)
class Held:
    """What a matcher holds of a key while it waits.

    rows: of a key, at the rate of the sample. in_window: rows of a key that came within the window there. elasticity:
    how the held rows grow with those in the window: 1: in proportion, 0: not at all. bytes: of a held row in a
    snapshot. measured: otherwise all rows of the window are taken to be held, which is the most there can be.
    """

    rows: float
    in_window: float
    elasticity: float
    bytes: float
    measured: bool

    def of_key(self, in_window: float) -> float:
        """Rows held of a key, of which so many come within the window."""
        if not self.measured:
            return in_window
        grown = self.rows * (in_window / self.in_window) ** self.elasticity if self.in_window else self.rows
        return min(grown, in_window)


@dataclass(frozen=True)
class QueryProfile:
    """Nanoseconds of a core for each row, and sizes.

    rows: measured on so many; 0: not measured. scan, pack: for each row that is read (pack: with the screen). passing:
    the share of rows that are moved. order, match: for each row that is moved; order: with opening envelopes.
    envelope_bytes: of a row that is moved; wire_share: what LZ4, Spark's shuffle, leaves of it. matches: for each row
    that is read. hottest: the share of the key with the most rows, of so many keys. bounded: is the length of a match
    bounded, by time or by rows? within: seconds that a match may take, as the query says.
    """

    language: str
    origin: str
    rows: int
    row_bytes: float
    scan: float
    pack: float
    passing: float
    envelope_bytes: float
    wire_share: float
    order: float
    match: float
    matches: float
    held: Held
    hottest: float | None = None
    keys: int = 1
    keyed: bool = True
    bounded: bool = True
    within: float | None = None


def assumed_profile(language: str, constants: Constants, origin: str) -> QueryProfile:
    """A query that was not measured: the tick query's constants, and the matching of its language's example."""
    row_bytes = constants["row_bytes"]
    return QueryProfile(
        language=language,
        origin=origin,
        rows=0,
        row_bytes=row_bytes,
        scan=constants["scan"] * row_bytes,
        pack=constants["pack"],
        passing=1.0,
        envelope_bytes=constants["envelope_bytes"],
        wire_share=constants["wire_share"],
        order=constants["order"],
        match=constants[MATCH[language]],
        matches=constants["matches"],
        held=Held(0.0, 0.0, 1.0, constants["state_bytes"], measured=False),
    )
