"""Slice invariance of recency correlation, for every strategy: whatever the cuts, the pairs are those of one run."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from episode.errors import EpisodeDataError
from episode.matchers.slices.slicing import Overlap, Slicing, Unsliced
from episode.plan.correlation.plan import CorrelationPlan
from tests.property.test_correlation_laws import FALL, PLANS, PRICES, TICK, history_of, planned, ticks
from tests.property.test_situation_slices import long_stream
from tests.reference.generate_correlation import (
    EVENTS,
    ROWS,
    SITUATIONS,
    Case,
    Row,
    RowSide,
    Side,
    SituationSide,
    cases,
)
from tests.reference.situations import Pattern
from tests.support.correlation_cases import spec_of, table_of
from tests.support.draws import assert_enough
from tests.support.slices import assert_slices_do_not_matter, cuts_of, shifts

# Few cases have pairs that a cut could lose: with fewer examples there would be none of some languages.
EXAMPLES = 5 * settings.default.max_examples // 3
SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=EXAMPLES)


def with_window(side: Side, within: int) -> Side:
    """Each pattern has a window, most often that of its own."""
    if "WITHIN" in side.text:
        return side
    if isinstance(side, SituationSide):  # as long as each situation must last
        within = max(within, *(int(one.at_least or 0) for one in side.pattern.definitions))
    last = " DEFINE " if isinstance(side, RowSide) else " RETURN "
    before, word, after = side.text.partition(last)
    return replace(side, text=f"{before} WITHIN {within}{word}{after}")


def longer(data: st.DataObject, rows: list[Row]) -> list[Row]:
    """Several copies of the rows, each later than the one before."""
    copies = [{**row, "ts": row["ts"] + by} for by in data.draw(shifts(rows[-1]["ts"], 3)) for row in rows]
    return [{**row, "pos": position} for position, row in enumerate(copies)]


@pytest.mark.parametrize("languages", [[ROWS], [EVENTS], [ROWS, EVENTS, SITUATIONS]], ids="-".join)
def test_slices_do_not_matter(languages: list[str]) -> None:
    found = 0

    @SETTINGS
    @given(
        cases(live=languages, archive=languages, plain=True, aligned=True),
        st.sampled_from(PLANS),
        st.sampled_from([2, 4, 6, 9]),
        st.sampled_from([0, 3, 8, 14, 30]),
        st.data(),
    )
    def check(case: Case, plan: CorrelationPlan, within: int, recency: int, data: st.DataObject) -> None:
        nonlocal found
        live, archive = with_window(case.live, within), with_window(case.archive, within)
        case = replace(case, live=live, archive=archive, recency=recency)
        spec = planned(case, plan)
        assume(not isinstance(spec.slicing, Unsliced))
        case = replace(case, rows=longer(data, case.rows))
        cuts = data.draw(cuts_of([row["ts"] for row in case.rows]))
        try:
            found += assert_slices_do_not_matter(spec, table_of(case, case.rows), cuts)
        except (NotImplementedError, ArithmeticError, EpisodeDataError) as error:
            note(str(error))
            assume(False)

    check()
    assert_enough(found, 5)


def test_slices_of_situations_do_not_matter() -> None:
    """Situations cross the cuts, and begin long before the overlap."""
    found = 0
    pattern = "A {} B; A overlaps B; A contains B WITHIN {}"
    text = "FROM t DEFINE A AS {}, B AS {} PATTERN " + pattern + " RETURN count(A.x) AS n, A.start AS s"
    plain = Pattern((), (), None, ())

    @SETTINGS
    @given(
        st.sampled_from(["before", "meets", "starts"]),
        st.sampled_from([12, 6, 18]),
        st.sampled_from([30, 12, 60, 3]),
        st.data(),
    )
    def check(relation: str, within: int, recency: int, data: st.DataObject) -> None:
        nonlocal found
        events = long_stream(Random(data.draw(st.integers(0, 2**32))))
        rows = [
            {"k": 1, "ts": one.time, "pos": n} | {f"live_{name}": one.values[name] for name in one.values}
            for n, one in enumerate(events)
        ]
        live = SituationSide(text.format("a", "b", relation, within), plain, False)
        archive = SituationSide(text.format("b", "a", relation, 20 - within), plain, False)
        case = Case(live, archive, recency, (), rows, shared=True, apart=False)
        cuts = data.draw(cuts_of([row["ts"] for row in rows]))
        found += assert_slices_do_not_matter(spec_of(case), table_of(case, rows), cuts)

    check()
    assert_enough(found, 20)


def paper(**changes: Any) -> Case:
    """The query of the paper's Figure 2, with windows."""
    case = ticks(PRICES * 20, 7)
    return replace(case, live=with_window(case.live, 5), archive=with_window(case.archive, 6), **changes)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.strategy} {plan.result_cache}")
@pytest.mark.parametrize("cuts", [[50], [50, 51, 90, 130, 200], list(range(0, 230, 7))], ids=["one", "some", "many"])
def test_slices_of_the_paper_s_query(plan: CorrelationPlan, cuts: list[int]) -> None:
    case = paper()
    assert assert_slices_do_not_matter(spec_of(case, plan), table_of(case, case.rows), cuts) > 50


@pytest.mark.parametrize("cuts", [[at] for at in range(8, 20)] + [list(range(40))], ids=str)
def test_the_longest_archive_match_reaches_beyond_the_slice(cuts: list[int]) -> None:
    """Cut off where a slice ends, a shorter one would be the longest, and be a pair with live matches of the slice."""
    live = FALL[: FALL.index("PATTERN")] + "PATTERN (A B) WITHIN 3"
    archive = TICK[: TICK.index("PATTERN")] + "PATTERN (A (B C D E)?) WITHIN 6"
    case = ticks([ts if ts % 13 else 0 for ts in range(40)], 9)
    case = replace(case, live=RowSide(live), archive=RowSide(archive))
    assert assert_slices_do_not_matter(spec_of(case), table_of(case, case.rows), cuts) > 20


def test_what_a_slice_is_fed() -> None:
    """PREV reaches to one row more."""
    assert spec_of(paper()).slicing == Slicing(Overlap(13, 1, 6, 0))
    assert spec_of(paper(recency=2)).slicing == Slicing(Overlap(10, 1, 6, 0))


def test_why_a_correlation_is_not_sliced() -> None:
    bare = ticks(PRICES, 7)
    why = "nothing bounds a match: there is no WITHIN, and the pattern may take any number of rows"
    assert spec_of(bare).slicing == Unsliced(f"of the live pattern: {why}")
    live = replace(bare, live=with_window(bare.live, 5))
    assert spec_of(live).slicing == Unsliced(f"of the archive pattern: {why}")
    assert spec_of(paper(), CorrelationPlan(ordered=True)).slicing == Unsliced("pairs of a key come in order")
    stored = spec_of(paper(), history=history_of(paper()))
    assert stored.slicing == Unsliced("events from before the stream are read from its archive")
    apart = paper(apart=True, rows=[row | {"side": 3} for row in paper().rows])
    why = "a match depends on a number of rows of its partition, which has other rows among them"
    assert spec_of(apart).slicing == Unsliced(f"of the live pattern: {why}")
