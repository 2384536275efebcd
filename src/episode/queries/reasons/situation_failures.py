"""What keeps situations from being a match: one that is not there or too short, a relation that is off, the window."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from sqlglot import exp

from episode.errors import EpisodeError
from episode.lang.situations import allen
from episode.lang.situations.syntax import Constraint, SituationColumn, SituationDefinition, SituationQuery
from episode.matchers.projection import Projection
from episode.plan.result import Computed
from episode.plan.situations.plan import SituationPlan
from episode.queries.reasons.finding import Finding
from episode.queries.reasons.situation_relations import distances, miss_of
from episode.queries.reasons.situation_runs import Runs
from episode.queries.reasons.situation_trials import Chosen, Place, Trials
from episode.queries.reasons.situation_words import Words
from episode.queries.reasons.wording import counted, listed

WIDER = 4
"""How many times longer than WITHIN a match may take to be spoken of as one outside it."""
NEIGHBOURS = 32
"""Situations before and after another one with which it is compared for the nearest pair."""
MOST_COMPARED = 10_000
COMPARISONS = (exp.LT, exp.LTE, exp.GT, exp.GTE, exp.EQ, exp.NEQ)


@dataclass(frozen=True)
class Failures:
    """Says what is missing. around: where all situations of a match at the asked place are."""

    trials: Trials
    plan: SituationPlan
    around: Place
    words: Words

    # ---- single situations -----------------------------------------------------------------------------------

    def situation(self, number: int, definition: SituationDefinition) -> list[Finding]:
        """Is there none, or none of a duration that is allowed?"""
        symbol, place = definition.symbol, self._where()
        all_ = self.trials.runs[number]
        runs = all_.between(self.around.first, self.around.last)
        if len(runs) == 0:
            values, row = self._nearest_value(definition)
            near = (
                f"; nearest: {listed(values)} at {self.words.moment(int(self.words.times[row]))}"
                if row is not None
                else ""
            )
            text = definition.condition.original
            message = f"{symbol} is missing: {text} is never true{place}{near}."
            at = None if row is None else self.words.value_at(row)
            return [Finding("missing", message, definition.condition.span, at, values, 0, {"symbol": symbol})]
        early = runs
        if self.around.first is not None:
            runs = runs.at(runs.start >= self.around.first)
        if len(runs) == 0:
            return [self._too_early(definition, early)]
        at_least, at_most = self.plan.at_least[number], self.plan.at_most[number]
        allowed = runs.long_enough(at_least, at_most)
        if len(allowed) == 0:
            return [self._wrong_duration(number, definition, runs)]
        if (not self.plan.eager or at_most is not None) and allowed.lasting.all():
            run = self.words.situation(symbol, int(allowed.start[0]), int(allowed.end[0]), True)
            message = f"{run}, at the end of the events: it is part of a match only when it has ended."
            return [Finding("unfinished", message, definition.span, self.words.value(int(allowed.start[0])), {}, 1)]
        return []

    def _too_early(self, definition: SituationDefinition, runs: Runs) -> Finding:
        """All situations began more than a window before the place."""
        last = len(runs) - 1
        start, first = int(runs.start[last]), self.around.first
        assert first is not None
        run = self.words.situation(definition.symbol, start, int(runs.end[last]), bool(runs.lasting[last]))
        message = f"{run} began too early for a match at this place, by {self.words.length(first - start)}: WITHIN."
        data: dict[str, object] = {"symbol": definition.symbol, "excess": first - start}
        return Finding("window", message, self.plan.window, self.words.value(start), {}, len(runs), data)

    def _wrong_duration(self, number: int, definition: SituationDefinition, runs: Runs) -> Finding:
        at_least, at_most = self.plan.at_least[number], self.plan.at_most[number]
        duration = runs.end - runs.start
        short = np.zeros(len(runs), np.int64) if at_least is None else np.maximum(at_least - duration, 0)
        long = np.zeros(len(runs), np.int64) if at_most is None else np.maximum(duration - at_most, 0)
        off = np.maximum(short, long)
        nearest = int(np.argmin(off))
        is_short = bool(short[nearest] > 0)
        limit = definition.at_least if is_short else definition.at_most
        assert limit is not None
        run = self.words.situation(
            definition.symbol, int(runs.start[nearest]), int(runs.end[nearest]), bool(runs.lasting[nearest])
        )
        took, by = (self.words.length(int(one)) for one in (duration[nearest], off[nearest]))
        kind, word = ("too short", "AT LEAST") if is_short else ("too long", "AT MOST")
        wanted = self.plan.at_least[number] if is_short else self.plan.at_most[number]
        assert wanted is not None
        message = (
            f"None of {counted(len(runs), False, 'situation')} {definition.symbol} is of a duration that is allowed; "
            f"nearest: {run}, {took}, is {kind} by {by} ({word} {self.words.length(wanted)})."
        )
        data: dict[str, object] = {
            "symbol": definition.symbol, "duration": int(duration[nearest]), "off": int(off[nearest]),
        }  # fmt: skip
        return Finding(kind, message, limit.span, self.words.value(int(runs.start[nearest])), {}, len(runs), data)

    def _where(self) -> str:
        first, last = self.around.first, self.around.last
        times = self.words.times
        if (first is None and last is None) or len(times) == 0:
            return ""
        low = 0 if first is None else int(np.searchsorted(times, first))
        high = len(times) - 1 if last is None else int(np.searchsorted(times, last, side="right")) - 1
        if low > high:
            return " at this place, where there are no events"
        return f" between {self.words.moment(int(times[low]))} and {self.words.moment(int(times[high]))}"

    def _nearest_value(self, definition: SituationDefinition) -> tuple[dict[str, object], int | None]:
        """The values of the event that comes closest to a comparison, and its row."""
        times = self.words.times
        low = 0 if self.around.first is None else int(np.searchsorted(times, self.around.first))
        high = len(times) if self.around.last is None else int(np.searchsorted(times, self.around.last, side="right"))
        tree = definition.condition.tree
        if low >= high or not isinstance(tree, COMPARISONS):
            return {}, None
        table = self.words.table.slice(low, high - low)
        columns = {name.lower(): name for name in table.column_names}
        paths = {name: one.path for name, one in definition.condition.atoms if isinstance(one, SituationColumn)}
        read = {columns[path[0].lower()]: None for path in paths.values() if path[0].lower() in columns}

        def named(node: exp.Expression) -> exp.Expression:
            if isinstance(node, exp.Column) and node.name in paths:
                return exp.column(exp.to_identifier(columns.get(paths[node.name][0].lower(), ""), quoted=True))
            return node

        try:
            sides = [("", Computed(side.copy().transform(named))) for side in (tree.this, tree.expression)]
            found = Projection.compile(sides, table.schema, (), self.words.arguments)(table)
            one, other = (side.cast(pa.float64()).to_numpy() for side in found.columns)
        except (EpisodeError, pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError):
            return {}, None  # sides that are no numbers here have no nearest row; the finding stands without an example
        distance = np.broadcast_to(np.abs(one - other), table.num_rows)
        if np.isnan(distance).all():
            return {}, None
        row = int(np.nanargmin(distance))
        return {name: table.column(name)[row].as_py() for name in read}, low + row

    # ---- relations -------------------------------------------------------------------------------------------

    def relation(self, query: SituationQuery, constraint: Constraint, before: Chosen | None) -> list[Finding]:
        """A constraint with which nothing is left. before: what satisfies those before it."""
        text = self.words.constraint(constraint)
        late = self.outside_window(query, self.around, f" as far as {text}", whole=True)
        if late:
            return late
        near = self._near(query, text)
        mask = allen.mask(constraint.relations)
        a, b = self._pairs(constraint, before)
        count = None if before is None else len(before)
        if len(a[0]) == 0:
            return [
                Finding("relation", f"{text} holds for no pair of situations.", constraint.span, count=count),
                *near,
            ]
        off = distances(mask, a[:2], b[:2])
        off = np.where(off == 0, np.iinfo(np.int64).max, off) if (off > 0).any() else off
        nearest = int(np.argmin(off))
        one, other = ((int(side[0][nearest]), int(side[1][nearest])) for side in (a, b))
        left, right = constraint.left, constraint.right
        described = (
            self.words.situation(left, *one, bool(a[2][nearest])),
            self.words.situation(right, *other, bool(b[2][nearest])),
        )
        if not (distances(mask, a[:2], b[:2]) > 0).any():
            message = f"{text} is not certain: {described[0]}, and {described[1]}."
            return [Finding("unfinished", message, constraint.span, self.words.value(one[0]), count=count), *near]
        miss = miss_of(mask, one, other)
        names = {"a": left, "b": right}
        ends = [f"{names[end[0]]}.{end[2:]}" for end in (miss.one, miss.other)]
        needed = "equal" if miss.how == "=" else "be before"
        message = (
            f"{text} does not hold for any candidate; nearest: {described[0]} is in the relation {miss.actual.value} "
            f"to {described[1]}. For {miss.nearest.value}, {ends[0]} would have to {needed} {ends[1]}; it is off by "
            f"{self.words.length(miss.off)}."
        )
        data: dict[str, object] = {
            "left": [self.words.value(one[0]), self.words.value(one[1])],
            "right": [self.words.value(other[0]), self.words.value(other[1])],
            "actual": miss.actual.value, "nearest": miss.nearest.value, "off": miss.off,
        }  # fmt: skip
        return [Finding("relation", message, constraint.span, self.words.value(one[0]), {}, count, data), *near]

    def _near(self, query: SituationQuery, text: str) -> list[Finding]:
        """What satisfies the constraints outside of where a match at this place could be."""
        if self.plan.within is None or self.around == Place(None, None):
            return []
        found = self.trials.matches(query, self.around.wider(self.plan.within * WIDER), whole=True)
        if len(found) == 0:
            return []
        return [self.words.elsewhere(found, self.around, f"As far as {text}, the")]

    def _pairs(
        self, constraint: Constraint, before: Chosen | None
    ) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Pairs of situations (start, end, does it last) that may be meant: the candidates' with those near them."""
        known = () if before is None else before.symbols
        left, right = self._situations(constraint.left, before), self._situations(constraint.right, before)
        if constraint.left in known and constraint.right in known:
            return left, right
        if constraint.right in known:
            one, other = _neighbours(right, left)
            return other, one
        return _neighbours(left, right)

    def _situations(self, symbol: str, before: Chosen | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the candidates, or all around the place whose duration is allowed."""
        if before is not None and symbol in before.symbols:
            index = before.symbols.index(symbol)
            lasting = before.lasting[:, index]
            end = np.where(lasting, np.maximum(before.detected, before.start[:, index] + 1), before.end[:, index])
            return before.start[:MOST_COMPARED, index], end[:MOST_COMPARED], lasting[:MOST_COMPARED]
        number = self.plan.symbols.index(symbol)
        runs = self.trials.runs[number].between(self.around.first, self.around.last)
        runs = runs if self.around.first is None else runs.at(runs.start >= self.around.first)
        runs = runs.long_enough(self.plan.at_least[number], self.plan.at_most[number])
        return runs.start, np.maximum(runs.end, runs.start + 1), runs.lasting

    # ---- the window ------------------------------------------------------------------------------------------

    def outside_window(self, query: SituationQuery, place: Place, what: str, whole: bool = False) -> list[Finding]:
        """The match that takes least longer than the window. what: of which part of the query."""
        within = self.plan.within
        if query.within is None or within is None or query.within.parameter is not None:
            return []
        wider = replace(query, within=replace(query.within, amount=query.within.amount * WIDER))
        try:
            found = self.trials.matches(wider, place.wider(within * (WIDER - 1)) if whole else place, whole=whole)
        except EpisodeError:
            return []
        if len(found) == 0:
            return []
        took = found.detected - found.began
        shortest = int(np.argmin(took))
        if int(took[shortest]) <= within:
            return []
        excess = self.words.length(int(took[shortest]) - within)
        message = f"Found{what}, but outside WITHIN by {excess}: {self.words.match(found, shortest)}."
        data: dict[str, object] = {
            "duration": int(took[shortest]),
            "within": within,
            "excess": int(took[shortest]) - within,
        }
        at = self.words.value(int(found.began[shortest]))
        return [Finding("window", message, query.within.span, at, {}, len(found), data)]


def _neighbours(
    some: tuple[np.ndarray, np.ndarray, np.ndarray], others: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Each of some situations beside the others that begin nearest to it."""
    start = some[0][:MOST_COMPARED]
    at = np.searchsorted(others[0], start)[:, None] + np.arange(-NEIGHBOURS, NEIGHBOURS)
    mine, theirs = np.nonzero((at >= 0) & (at < len(others[0])))
    which = at[mine, theirs]
    return (
        (some[0][mine], some[1][mine], some[2][mine]),
        (others[0][which], others[1][which], others[2][which]),
    )
