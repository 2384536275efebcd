"""Every strategy of correlation, with and without cache, in any chunks: the pairs of the oracle (row patterns)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from episode.errors import EpisodeAnalysisError, EpisodeDataError, EpisodeUnsupportedError
from episode.matchers.correlation.matcher import CorrelationMatcher
from episode.matchers.correlation.spec import CorrelationSpec
from episode.matchers.correlation.strategies import unavailable
from episode.matchers.protocol import OrderKey
from episode.matchers.running import LocalRun, run
from episode.plan.correlation.plan import CorrelationPlan, CorrelationStrategy
from tests.reference.correlation import Pair
from tests.reference.generate_correlation import ARCHIVE, LIVE, ROWS, Case, cases
from tests.reference.row_patterns import Exploded
from tests.support.correlation import side_of

TYPES = {"k": "int", "ts": "bigint", "v": "int", "f": "double", "s": "string"}
# Half as many examples as elsewhere: each is two patterns, their oracles and their joins.
SETTINGS = settings(
    deadline=None, suppress_health_check=list(HealthCheck), max_examples=max(1, settings.default.max_examples // 2)
)
ALL_STRATEGIES = settings(SETTINGS, max_examples=5 * settings.default.max_examples // 2)
LEAST = SETTINGS.max_examples
"""Examples of each strategy: few cases can be evaluated on demand, so more are drawn for all strategies together."""


@st.composite
def plans(draw: st.DrawFn, strategy: CorrelationStrategy) -> CorrelationPlan:
    """With the cache or without it, and with it in order or not."""
    cached = strategy is CorrelationStrategy.EAGER or draw(st.sampled_from([True, True, False]))
    return CorrelationPlan(strategy, result_cache=cached, ordered=cached and draw(st.booleans()))


def spec_of(case: Case, plan: CorrelationPlan) -> CorrelationSpec:
    arrow = {"k": pa.int32(), "ts": pa.int64(), "v": pa.int32(), "f": pa.float64(), "s": pa.string()}
    fields = [pa.field(case.column(of, name), kind) for of in (LIVE, ARCHIVE) for name, kind in arrow.items()]
    if case.apart:
        fields.append(pa.field("side", pa.int8()))
    sides = []
    for of, side in ((LIVE, case.live), (ARCHIVE, case.archive)):
        sides.append(side_of(side.text, TYPES, {name: case.column(of, name) for name in arrow}))
    schema = pa.schema(list(dict.fromkeys(fields)))
    return CorrelationSpec(
        *sides, case.recency, case.on, (OrderKey("ts"),), schema, plan, side="side" if case.apart else None
    )


def expected(case: Case) -> list[Pair]:
    try:
        return case.pairs()
    except (Exploded, NotImplementedError, ArithmeticError, RecursionError, EpisodeDataError):
        assume(False)
        raise


def planned(case: Case, plan: CorrelationPlan) -> CorrelationSpec:
    try:
        return spec_of(case, plan)
    except (EpisodeAnalysisError, EpisodeUnsupportedError) as error:
        note(str(error))
        assume(False)
        raise


def times(pairs: list[Pair]) -> list[tuple[Any, ...]]:
    """What is compared: the times of both matches."""
    return sorted((pair.live.start, pair.live.end, pair.archive.start, pair.archive.end) for pair in pairs)


def found(spec: CorrelationSpec, output: pa.Table) -> list[tuple[Any, ...]]:
    live, archive = spec.live, spec.archive
    names = [f"__live_{live.start}", f"__live_{live.end}", f"__archive_{archive.start}", f"__archive_{archive.end}"]
    return [tuple(row.values()) for row in output.select(names).to_pylist()]


def is_ordered(spec: CorrelationSpec, output: pa.Table) -> bool:
    """By start, then by end, within each key."""
    if not spec.keys:
        return _ascends(output)
    keys = output.column(f"__live_{spec.keys[0]}")
    return all(
        _ascends(output.filter(pc.equal(keys, key) if key.is_valid else pc.is_null(keys))) for key in keys.unique()
    )


def _ascends(output: pa.Table) -> bool:
    pairs = list(zip(output.column("match_start").to_pylist(), output.column("match_end").to_pylist(), strict=True))
    return pairs == sorted(pairs)


def pieces_of(case: Case, spec: CorrelationSpec, cuts: list[int]) -> list[pa.Table]:
    table = pa.Table.from_pylist(case.rows, schema=spec.input_schema)
    bounds = [0, *cuts, len(case.rows)]
    return [table.slice(low, high - low) for low, high in pairwise(bounds)]


@st.composite
def cut(draw: st.DrawFn) -> tuple[Case, list[int]]:
    """A case, and cuts between rows of different times."""
    case = draw(cases(live=[ROWS], archive=[ROWS]))
    rows = case.rows
    places = [at for at in range(1, len(rows)) if rows[at]["ts"] != rows[at - 1]["ts"]]
    cuts = draw(st.lists(st.sampled_from(places), unique=True)) if places else []
    return case, sorted(cuts)


def specs_of(case: Case, draw: Callable[[st.SearchStrategy], Any]) -> Iterator[CorrelationSpec]:
    """With every strategy by which the case can be evaluated."""
    for strategy in CorrelationStrategy:
        plan = draw(plans(strategy))
        try:
            yield spec_of(case, plan)
        except (EpisodeAnalysisError, EpisodeUnsupportedError) as error:
            note(f"{strategy.value}: {error}")


def check_all(case: Case, specs: list[CorrelationSpec], tables: Callable[[CorrelationSpec], Any], **how: Any) -> None:
    """The oracle is asked once for all of them."""
    assume(specs)
    wanted = times(expected(case))
    for spec in specs:
        output = run(spec, tables(spec), **how)
        assert sorted(found(spec, output)) == wanted, spec.plan
        assert not spec.plan.ordered or is_ordered(spec, output), spec.plan


def test_whole() -> None:
    seen: Counter[CorrelationStrategy | None] = Counter()

    @ALL_STRATEGIES
    @given(cases(live=[ROWS], archive=[ROWS], max_rows=24), st.data())
    def check(case: Case, data: st.DataObject) -> None:
        specs = list(specs_of(case, data.draw))
        check_all(case, specs, lambda spec: pa.Table.from_pylist(case.rows, schema=spec.input_schema))
        seen.update(spec.plan.strategy for spec in specs)

    check()
    assert min(seen[strategy] for strategy in CorrelationStrategy) >= LEAST, seen


def test_in_pieces() -> None:
    seen: Counter[CorrelationStrategy | None] = Counter()

    @ALL_STRATEGIES
    @given(cut(), st.booleans(), st.data())
    def check(drawn: tuple[Case, list[int]], restore: bool, data: st.DataObject) -> None:
        case, cuts = drawn
        specs = list(specs_of(case, data.draw))
        check_all(case, specs, lambda spec: pieces_of(case, spec, cuts), restore=restore)
        seen.update(spec.plan.strategy for spec in specs)

    check()
    assert min(seen[strategy] for strategy in CorrelationStrategy) >= LEAST, seen


@SETTINGS
@given(cut(), st.data())
def test_strategies_change_between_rounds(drawn: tuple[Case, list[int]], data: st.DataObject) -> None:
    case, cuts = drawn
    wanted = expected(case)
    ordered = data.draw(st.booleans())
    spec = planned(case, CorrelationPlan(ordered=ordered))
    possible = [one for one in CorrelationStrategy if one not in unavailable(spec)]
    assume(len(possible) > 1)
    running = LocalRun(spec)
    outputs = []
    for piece in pieces_of(case, spec, cuts):
        if data.draw(st.booleans()):
            running.move()
        assert isinstance(running.matcher, CorrelationMatcher)
        running.matcher.adaptation.strategy = data.draw(st.sampled_from(possible))
        outputs.append(running.feed(piece, max(piece.column("ts").to_pylist())))
    assert isinstance(running.matcher, CorrelationMatcher)
    running.matcher.adaptation.strategy = data.draw(st.sampled_from(possible))
    output = pa.concat_tables([*outputs, running.finish()])
    assert sorted(found(spec, output)) == times(wanted)
    assert not ordered or is_ordered(spec, output)
