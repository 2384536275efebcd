"""Random MATCH_RECOGNIZE clauses, as text, and random tables for them (hypothesis).

`clauses()` draws the inside of the parentheses; every text is valid, though AFTER MATCH SKIP may fail at run time.
`tables()` draws rows with the columns COLUMNS. Which conditions appear in DEFINE is a matter of weights:

    clauses(PATH_INDEPENDENT)    # states may be merged, failures remembered
    clauses(PATH_DEPENDENT)      # the labels taken so far decide
    clauses()                    # one of these, or both kinds mixed

Numbers are chosen so that sums of doubles are exact and no threshold falls on a rounded value: two right
implementations agree bit for bit on every condition.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

COLUMNS = ["k", "ts", "v", "f", "s"]
NUMBERS = ["b", "m", "w", "z"]
"""Further columns: bigint near its limits, decimal(12,2), decimal(30,18), and decimal(38,18) near its limits."""


@dataclass(frozen=True)
class Weights:
    """How often each class of condition is drawn, relative to the others; 0 is never."""

    row_local: int = 3  # A.v > 2
    offset: int = 2  # B.v < PREV(B.v)
    relating: int = 2  # C.v <= A.v, FIRST(A.v), PREV(LAST(B.v, 1), 2)
    aggregate: int = 2  # sum(A.v) < 10
    naming: int = 1  # CLASSIFIER(), MATCH_NUMBER()
    combined: int = 2  # AND, OR, NOT, CASE, IS NULL over the others


MIXED = Weights()
PATH_INDEPENDENT = Weights(relating=0, aggregate=0, naming=0)
PATH_DEPENDENT = Weights(row_local=1, offset=0, relating=4, aggregate=3, naming=2)


# ---- tables ---------------------------------------------------------------------------------------


@st.composite
def tables(draw: st.DrawFn, max_rows: int = 8, *, numbers: bool = False) -> list[dict[str, Any]]:
    """Rows in order of arrival: mostly in order of ts, with equal times, sometimes shuffled. numbers: with NUMBERS."""
    row = one_row(numbers=numbers)
    fewest = draw(st.sampled_from([max_rows - 3, max_rows // 2, max_rows // 2, 0]))
    rows = draw(st.lists(row, min_size=fewest, max_size=max_rows))
    if draw(st.sampled_from([True, True, True, False])):
        rows.sort(key=lambda row: row["ts"])
    return rows


def one_row(*, numbers: bool = False) -> st.SearchStrategy[dict[str, Any]]:
    """A row with COLUMNS. numbers: with NUMBERS."""
    further = {
        "b": st.sampled_from([2**62, 1, -(2**62), 2**63 - 1, -(2**63), 0, 2**62, None]),
        "m": _decimals(["1.00", "2.50", "-0.01", "0.00", "9999999999.99", "2.00"]),
        "w": _decimals(["1.000000000000000001", "2.000000000000000000", "0.999999999999999999",
                        "-3.000000000000000007", "987654321098.765432109876543210"]),
        "z": _decimals(["99999999999999999999.999999999999999999", "1.000000000000000000",
                        "-99999999999999999999.999999999999999999", "-2.500000000000000000"]),
    }  # fmt: skip
    return st.fixed_dictionaries(
        {
            **(further if numbers else {}),
            "k": st.sampled_from([1, 1, 1, 1, 2, None]),
            "ts": st.integers(0, 12),
            "v": st.sampled_from([1, 2, 3, 0, 4, 2, 5, 3, -1, None]),
            "f": st.sampled_from([0.5, 1.5, 2.0, -0.25, 0.0, -0.0, 3.0, None, math.nan, math.inf]),
            "s": st.sampled_from(["a", "b", "ab", "", None]),
        }
    )


def _decimals(texts: list[str]) -> st.SearchStrategy[Decimal | None]:
    return st.sampled_from([*map(Decimal, texts), None])


# ---- clauses --------------------------------------------------------------------------------------

ROWS_PER_MATCH = [
    "ONE ROW PER MATCH",
    "ALL ROWS PER MATCH",
    "ALL ROWS PER MATCH SHOW EMPTY MATCHES",
    "ALL ROWS PER MATCH OMIT EMPTY MATCHES",
    "ALL ROWS PER MATCH WITH UNMATCHED ROWS",
]
ORDERS = ["ts", "ts", "ts", "ts ASC, v", "ts, f DESC NULLS LAST", "ts DESC", "v NULLS LAST, ts", "f DESC", "s, ts", ""]


@dataclass(frozen=True)
class Given:
    """What the clauses of a clause are drawn from."""

    rows: Sequence[str] = ("", *ROWS_PER_MATCH)
    modes: Sequence[str] = ("", "", "", "MAXIMAL MATCH", "INCREMENTAL MATCH", "ALL MATCHES")
    orders: Sequence[str] = tuple(ORDERS)
    partitions: Sequence[str] = ("", "", "", "PARTITION BY k", "PARTITION BY k", "PARTITION BY s, k")


@st.composite
def clauses(
    draw: st.DrawFn, weights: Weights | None = None, *, numbers: bool = False, given: Given | None = None
) -> str:
    """The inside of MATCH_RECOGNIZE ( … ). numbers: many conditions and measures are on NUMBERS."""
    given = given or Given()
    if weights is None:
        weights = draw(st.sampled_from([PATH_INDEPENDENT, PATH_DEPENDENT, MIXED]))
    rows = draw(st.sampled_from(given.rows))
    mode = draw(st.sampled_from(given.modes))
    order = draw(st.sampled_from(given.orders))

    pool = list("ABCDE"[: draw(st.sampled_from([3, 2, 4, 5, 3, 1]))])
    # Exclusion and unmatched rows do not go together.
    pattern = draw(
        patterns(pool, exclusion="UNMATCHED" not in rows, depth=draw(st.sampled_from([2, 3, 2, 1])), root=True)
    )
    labels = [label for label in pool if label in pattern.labels]
    subsets = draw(_subsets(labels))
    names = labels + list(subsets)

    # One row per match needs something to show; all rows show the input's columns.
    fewest = draw(st.sampled_from([3, 2, 1, 1, 0 if rows.startswith("ALL") else 1]))
    measures = draw(st.lists(_measures(names, numbers=numbers), min_size=fewest, max_size=4))
    within = [f"WITHIN {draw(st.sampled_from([6, 3, 9, 1, 0]))}{draw(st.sampled_from(['', '', ' units']))}"]
    timed_out = [] if mode or "UNMATCHED" in rows else [f"{within[0]} EMIT TIMED OUT MATCHES"]
    definitions = draw(_definitions(labels, names, weights, numbered=mode != "INCREMENTAL MATCH", numbers=numbers))

    parts = [
        draw(st.sampled_from(given.partitions)),
        f"ORDER BY {order}" if order else "",
        _listed("MEASURES", [f"{measure} AS m{i}" for i, measure in enumerate(measures)]),
        rows,
        draw(_skips(names)),
        mode,
        f"PATTERN ({pattern.text})",
        draw(st.sampled_from(["", "", *within, *timed_out])) if order.startswith("ts") else "",  # the event time
        _listed("SUBSET", [f"{name} = ({', '.join(members)})" for name, members in subsets.items()]),
        _listed("DEFINE", [f"{label} AS {condition}" for label, condition in definitions.items()]),
    ]
    return " ".join(part for part in parts if part)


def _listed(keyword: str, items: list[str]) -> str:
    return f"{keyword} {', '.join(items)}" if items else ""


@st.composite
def _skips(draw: st.DrawFn, names: list[str]) -> str:
    forms = ["", "PAST LAST ROW", "TO NEXT ROW", "TO NEXT ROW"]
    if names:
        # Any label of the pattern or union variable; whether the match has it shows at run time.
        forms += [f"TO {draw(st.sampled_from(['', 'FIRST ', 'LAST ']))}{draw(st.sampled_from(names))}"]
    form = draw(st.sampled_from(forms))
    return f"AFTER MATCH SKIP {form}" if form else ""


@st.composite
def _subsets(draw: st.DrawFn, labels: list[str]) -> dict[str, list[str]]:
    if not labels:
        return {}
    members = st.lists(st.sampled_from(labels), min_size=1, max_size=3, unique=True)
    return draw(st.dictionaries(st.sampled_from(["U", "W"]), members, max_size=2))


# ---- patterns -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PatternText:
    """`binds`: 3 stands alone, 2 has a quantifier, 1 is a concatenation, 0 an alternation."""

    text: str
    labels: frozenset[str]
    binds: int

    def within(self, binds: int) -> str:
        """The text where something that binds at least so tightly must stand."""
        return self.text if self.binds >= binds else f"({self.text})"


LEAVES = ["label"] * 8 + ["empty", "anchor"]
BRANCHES = ["loop"] * 5 + ["label"] * 3 + ["then"] * 3 + ["or"] * 3 + ["permute", "exclusion"]
ROOTS = ["then"] * 9 + ["or"] * 2 + ["loop"] * 2 + ["permute"] * 2 + ["exclusion", "label"]


@st.composite
def patterns(
    draw: st.DrawFn, pool: list[str], *, exclusion: bool = True, depth: int = 3, root: bool = False
) -> PatternText:
    """Nested patterns over the labels of the pool, with every operator; a root is mostly a concatenation."""

    def part() -> PatternText:
        return draw(patterns(pool, exclusion=exclusion, depth=depth - 1))

    kinds = (ROOTS if root else BRANCHES) if depth else LEAVES
    kind = draw(st.sampled_from([kind for kind in kinds if exclusion or kind != "exclusion"]))
    if kind == "label":
        name = draw(st.sampled_from(pool))
        return PatternText(name, frozenset([name]), 3)
    if kind == "empty":
        return PatternText("()", frozenset(), 3)
    if kind == "anchor":
        return PatternText(draw(st.sampled_from(["^", "$"])), frozenset(), 3)
    if kind == "loop":
        inner = part()
        return PatternText(inner.within(3) + draw(_quantifiers()), inner.labels, 2)
    if kind == "exclusion":
        inner = part()
        return PatternText(f"{{- {inner.text} -}}", inner.labels, 3)

    # PERMUTE of two parts is an alternation of two; from three on, orders have beginnings in common.
    counts = [3, 3, 2] if kind == "permute" else [3, 2, 4] if root and kind == "then" else [2, 2, 3]
    parts = [part() for _ in range(draw(st.sampled_from(counts)))]
    labels = frozenset[str]().union(*(inner.labels for inner in parts))
    if kind == "permute":
        return PatternText(f"PERMUTE({', '.join(inner.text for inner in parts)})", labels, 3)
    if kind == "or":
        return PatternText(" | ".join(inner.within(1) for inner in parts), labels, 0)
    return PatternText(" ".join(inner.within(2) for inner in parts), labels, 1)


@st.composite
def permutations(draw: st.DrawFn, pool: list[str]) -> tuple[str, str]:
    """PERMUTE of parts that mostly match in several ways, alone or within more; and its orders written out."""

    def part() -> str:
        if draw(st.sampled_from([False, False, True])):
            return draw(patterns(pool, depth=draw(st.sampled_from([1, 2])))).text
        return draw(st.sampled_from(FLEXIBLE)).format(*draw(st.lists(st.sampled_from(pool), min_size=2, max_size=2)))

    parts = [part() for _ in range(draw(st.sampled_from([3, 3, 4])))]
    orders = (" ".join(f"({part})" for part in order) for order in itertools.permutations(parts))
    form = draw(st.sampled_from(["{}", "{}", "{}", "({})+", "({}) A", "({})?? A", "PERMUTE(A, ({}))"]))
    return form.format(f"PERMUTE({', '.join(parts)})"), form.format(" | ".join(orders))


FLEXIBLE = ["{0}", "{0}", "{0}?", "{0}??", "{0}*", "{0}+", "{0}*?", "{0} {1}??", "{0} {1}?", "{0} | {1}", "{0}{{1,2}}",
            "PERMUTE({0}, {1}?)", "{0}{{2}}", "({0} | {1} {0})+?"]  # fmt: skip


@st.composite
def _quantifiers(draw: st.DrawFn) -> str:
    # {0}, {,0} and {5,1} are errors.
    least = draw(st.integers(0, 2))
    most = draw(st.integers(max(1, least), 3))
    forms = ["*", "+", "+", "?", f"{{{most}}}", f"{{{least},}}", f"{{{least},{most}}}", f"{{,{most}}}", "{,}"]
    return draw(st.sampled_from(forms)) + draw(st.sampled_from(["", "", "?"]))


# ---- conditions -----------------------------------------------------------------------------------

COMPARISONS = ["<=", ">=", "<", ">", "<>", "=", "<=>"]


@st.composite
def _definitions(
    draw: st.DrawFn, labels: list[str], names: list[str], weights: Weights, *, numbered: bool, numbers: bool
) -> dict[str, str]:
    """A condition for most labels; the others take any row."""
    defined = [label for label in labels if draw(st.sampled_from([True, False, True]))]
    return {label: draw(conditions(label, names, weights, numbered=numbered, numbers=numbers)) for label in defined}


@st.composite
def conditions(
    draw: st.DrawFn, label: str, names: list[str], weights: Weights = MIXED, *, numbered: bool = True, depth: int = 2,
    numbers: bool = False,
) -> str:  # fmt: skip
    """A condition for `label`; `names` are the labels and union variables it may mention.

    numbered: MATCH_NUMBER() may appear (INCREMENTAL numbers its matches only afterwards).
    """
    kinds = {name: weight for name, weight in vars(weights).items() if depth or name != "combined"}
    kind = draw(st.sampled_from([name for name, weight in kinds.items() for _ in range(weight)]))
    if kind == "combined":
        parts = [
            draw(conditions(label, names, weights, numbered=numbered, depth=depth - 1, numbers=numbers))
            for _ in range(3)
        ]
        return draw(_combinations(*parts))
    words = draw(_words(label, names))
    templates = {"row_local": ROW_LOCAL, "offset": OFFSET, "relating": RELATING, "aggregate": AGGREGATE}
    usable = templates.get(kind) or [text for text in NAMING if numbered or "MATCH_NUMBER" not in text]
    if numbers and kind in ON_NUMBERS and draw(st.sampled_from([True, True, False])):
        usable = ON_NUMBERS[kind]
    return draw(st.sampled_from(usable)).format(**words)


@st.composite
def _combinations(draw: st.DrawFn, first: str, second: str, third: str) -> str:
    """Three-valued logic over conditions."""
    forms = [
        f"({first}) AND ({second})",
        f"({first}) OR ({second})",
        f"NOT ({first})",
        f"({first}) IS NULL",
        f"({first}) IS NOT NULL AND ({second})",
        f"({first}) <=> ({second})",
        f"COALESCE({first}, TRUE)",
        f"IF({first}, {second}, {third})",
        f"CASE WHEN {first} THEN {second} ELSE {third} END",
    ]
    return draw(st.sampled_from(forms))


@st.composite
def _words(draw: st.DrawFn, label: str, names: list[str]) -> dict[str, str]:
    """What fills the templates.

    q: the current row's label with its dot, or nothing; x: any name with its dot, or nothing; X, Y: any name;
    o: a comparison; n: an integer; d: a number; i: an offset; w: a string; z: a name as a string.
    """
    any_name = st.sampled_from(names)
    return {
        "q": draw(st.sampled_from([f"{label}.", ""])),
        "X": draw(any_name),
        "Y": draw(any_name),
        "x": draw(st.sampled_from([f"{name}." for name in names] + [""])),
        "o": draw(st.sampled_from(COMPARISONS)),
        "n": str(draw(st.sampled_from([2, 1, 3, 0, 4]))),
        "d": draw(st.sampled_from(["0.5", "1.5", "2e0", "-0.25", "1"])),
        "i": str(draw(st.integers(0, 2))),
        "w": draw(st.sampled_from(["'a'", "'b'", "'ab'"])),
        "z": f"'{draw(any_name)}'",
    }


ROW_LOCAL = [
    "{q}v {o} {n}",
    "{q}v <= {n}",
    "{q}v >= {n}",
    "{q}v <> {n}",
    "{q}v > 1",
    "{q}f {o} {d}",
    "{q}s {o} {w}",
    "{q}v IS NULL",
    "{q}v IS NOT NULL",
    "{q}v BETWEEN 1 AND {n}",
    "{q}v IN (1, {n})",
    "{q}v NOT IN (1, NULL)",
    "{q}v % 2 = 0",
    "{q}v + {q}ts > {n}",
    "{q}f {o} {q}v",
    "ABS({q}v - 2) <= 1",
    "-{q}v < {n}",
    "{q}v / ({q}v - 1) > 1",
    "{q}f % 1.5e0 {o} {d}",
    "{q}v * 4611686018427387904 > {n}",
    "COALESCE({q}v, {n}) > 1",
    "LEAST({q}v, {q}f) < {n}",
    "GREATEST({q}v, {q}ts, {n}) > 3",
    "{q}s || 'b' = 'ab'",
    "CASE {q}v WHEN 1 THEN TRUE WHEN 2 THEN FALSE END",
    "TRUE",
    "FALSE",
]

OFFSET = [
    "{q}v {o} PREV({q}v)",
    "{q}v < PREV({q}v)",
    "{q}v > PREV({q}v)",
    "{q}v {o} PREV({q}v, {i})",
    "NEXT({q}v) {o} {q}v",
    "NEXT({q}v, {i}) IS NULL",
    "PREV({q}v, 2) IS NULL",
    "PREV({q}v + {q}ts) {o} {q}v",
    "PREV({q}s) {o} {q}s",
    "NEXT({q}f) > {d}",
    "PREV(COALESCE({q}v, 3)) >= {n}",
    "PREV({q}v) + NEXT({q}v) >= 2 * {q}v",
    "{q}ts - PREV({q}ts) <= {n}",
]

RELATING = [
    "{q}v {o} {X}.v",
    "{q}v <= {X}.v",
    "{q}v = {X}.v",
    "{q}v >= FIRST({X}.v)",
    "{q}v {o} LAST({X}.v, 1)",
    "{q}v {o} RUNNING LAST({X}.v, {i})",
    "PREV(LAST({X}.v), 1) {o} {q}v",
    "PREV(LAST({X}.v, 1), {i}) {o} {q}v",
    "NEXT(FIRST({X}.v, {i}), 2) {o} {q}v",
    "PREV({X}.v) {o} v",
    "NEXT({X}.v) {o} {q}v",
    "FIRST(v) {o} v",
    "LAST(v, 1) {o} v",
    "FIRST({q}v, {i}) {o} {n}",
    "{q}ts - FIRST({x}ts) <= {n}",
    "{X}.v IS NULL OR {q}v > {X}.v",
    "{X}.v IS NULL",
    "COALESCE({X}.v, {Y}.v, 0) + 1 > {q}v",
    "{X}.v + {Y}.v {o} {q}v",
    "{q}s {o} {X}.s",
    "{q}f >= FIRST({X}.f + {X}.v)",
    "LAST({x}v % 2, {i}) = {q}v % 2",
]

AGGREGATE = [
    "sum({x}v) < 10",
    "sum({x}v) {o} {n}",
    "sum({x}v * 2 + 1) <= 12",
    "sum({x}f) <= 4",
    "sum({X}.v) IS NULL",
    "count({X}.*) <= 2",
    "count({X}.*) {o} count({Y}.*)",
    "count(*) <= {n} + 1",
    "count({x}v) < 3",
    "RUNNING count({X}.*) < 3",
    "avg({x}v) {o} {d}",
    "{q}v >= avg({x}v)",
    "avg({x}f) < 2",
    "{q}v = max({x}v)",
    "min({x}v) {o} {n}",
    "max({x}f) > {d}",
    "min({x}s) {o} {w}",
    "max({x}v) - min({x}v) <= {n}",
    "stddev_pop({x}v) < 0.77",
    "COALESCE(var_samp({x}v), 0.0) < 1.13",
    "count_if({x}v > 1) < 2",
    "bool_and({x}v > 0)",
    "bool_or({x}v > 3)",
    "max_by({x}v, {x}ts) {o} {n}",
    "min_by({x}ts, {x}v) {o} {q}ts",
]

ON_NUMBERS = {
    "row_local": ["{q}b {o} {q}v", "{q}m {o} {n}", "{q}w {o} {n}", "{q}w {o} {q}m", "{q}z < {q}w", "{q}b + {q}b > 0",
                  "{q}m + {q}w <= {n}", "-{q}w {o} {n}", "{q}w {o} {q}b", "{q}z IN (1, 2.5)"],
    "offset": ["{q}w {o} PREV({q}w)", "PREV({q}m) + {q}m {o} {n}", "PREV({q}b) + {q}b > 0", "{q}z {o} NEXT({q}z)",
               "PREV({q}w) - {q}w < {n}", "NEXT({q}w) {o} {q}m"],
    "relating": ["{q}w {o} {X}.w", "{X}.w - {q}w < {n}", "{q}b {o} {X}.b", "{X}.w {o} {q}m", "FIRST({X}.z) {o} {q}z",
                 "{q}b - {X}.b >= 0", "{X}.m + {q}w > {n}", "COALESCE({X}.w, {q}w) {o} {n}"],
    "aggregate": ["sum({x}b) > 0", "sum({x}b) IS NULL", "sum({x}b) {o} {q}b", "sum({x}m) {o} {n}", "sum({x}w) {o} {n}",
                  "sum({x}z) {o} {n}", "sum({x}z) IS NULL", "avg({x}w) {o} {q}w", "avg({x}m) {o} {n}",
                  "avg({x}z) {o} {n}", "max({x}w) - min({x}w) <= {n}", "sum({x}w) {o} sum({x}m)", "min({x}b) {o} {q}b",
                  "max({x}z) {o} {n}", "count({x}w) <= {n}", "sum(-{x}w) {o} {n}", "avg({x}b) > 0",
                  "max_by({x}w, {x}z) {o} {n}", "sum(COALESCE({x}w, {x}w)) {o} {n}"],
}  # fmt: skip

NAMING = [
    "CLASSIFIER() = {z}",
    "CLASSIFIER() <> {z} OR v > {n}",
    "PREV(CLASSIFIER()) = {z}",
    "PREV(CLASSIFIER(), {i}) {o} {z}",
    "COALESCE(PREV(CLASSIFIER()), {z}) = {z}",
    "LAST(CLASSIFIER(), 1) <> {z}",
    "NEXT(CLASSIFIER()) IS NULL",
    "CLASSIFIER({X}) = {z}",
    "CLASSIFIER({X}) IS NULL",
    "FIRST(CLASSIFIER({X})) {o} {z}",
    "PREV(FIRST(CLASSIFIER()), 1) IS NULL",
    "count_if(CLASSIFIER() = {z}) <= 2",
    "max(CLASSIFIER()) = {z}",
    "MATCH_NUMBER() % 2 = 1",
    "v {o} MATCH_NUMBER()",
    "sum(MATCH_NUMBER()) <= 4",
]


# ---- measures -------------------------------------------------------------------------------------


@st.composite
def _measures(draw: st.DrawFn, names: list[str], *, numbers: bool = False) -> str:
    """An expression of any kind; m, M are RUNNING, FINAL or nothing, p a label with its dot or nothing, c a column."""
    mode = st.sampled_from(["", "RUNNING ", "FINAL "])
    words = {
        "m": draw(mode),
        "M": draw(mode),
        "p": draw(st.sampled_from([f"{name}." for name in names] + [""])),
        "c": draw(st.sampled_from(NUMBERS if numbers else COLUMNS)),
        "i": str(draw(st.integers(0, 2))),
        "j": str(draw(st.integers(0, 2))),
        "a": draw(st.sampled_from(NUMERIC_AGGREGATES)),
    }
    kinds = [NAVIGATIONS, AGGREGATIONS, NAMINGS, SCALARS, *([OF_NUMBERS] * (2 * numbers))]
    if names:
        words |= {"X": draw(st.sampled_from(names)), "z": f"'{draw(st.sampled_from(names))}'"}
        kinds += [LABELLED, LABELLED]
    return draw(st.sampled_from(draw(st.sampled_from(kinds)))).format(**words)


NUMERIC_AGGREGATES = [
    "sum",
    "avg",
    "min",
    "max",
    "count",
    "stddev",
    "stddev_samp",
    "stddev_pop",
    "variance",
    "var_samp",
    "var_pop",
    "array_agg",
    "collect_list",
]

NAVIGATIONS = [
    "{p}{c}",
    "{m}FIRST({p}{c})",
    "{m}LAST({p}{c})",
    "{m}FIRST({p}{c}, {i})",
    "{m}LAST({p}{c}, {i})",
    "PREV({p}{c})",
    "PREV({p}{c}, {i})",
    "NEXT({p}{c}, {i})",
    "PREV({m}FIRST({p}{c}, {i}), {j})",
    "PREV({m}LAST({p}{c}, {i}), {j})",
    "NEXT({m}FIRST({p}{c}, {i}), {j})",
    "NEXT({m}LAST({p}{c}), {j})",
    "{m}LAST({p}v + {p}ts, {i})",
    "PREV(COALESCE({p}v, 9), {i})",
]

AGGREGATIONS = [
    "{m}count(*)",
    "{m}{a}({p}v)",
    "{m}{a}({p}v)",
    "{m}sum({p}f)",
    "{m}avg({p}f)",
    "{m}min({p}f)",
    "{m}max({p}{c})",
    "{m}min({p}{c})",
    "{m}count({p}{c})",
    "{m}array_agg({p}{c})",
    "{m}sum({p}v * 2 + {p}ts)",
    "{m}max_by({p}s, {p}v)",
    "{m}min_by({p}v, {p}f)",
    "{m}bool_and({p}v > 1)",
    "{m}bool_or({p}v > 3)",
    "{m}every({p}v IS NOT NULL)",
    "{m}count_if({p}v >= 2)",
]

OF_NUMBERS = ["{m}sum({p}b)", "{m}avg({p}b)", "{m}avg({p}m)", "{m}avg({p}w)", "{m}avg({p}z)", "{m}max({p}z)",
              "{m}min({p}w)", "{m}max_by({p}z, {p}w)"]  # fmt: skip

NAMINGS = [
    "MATCH_NUMBER()",
    "CLASSIFIER()",
    "{m}FIRST(CLASSIFIER(), {i})",
    "{m}LAST(CLASSIFIER(), {i})",
    "PREV(CLASSIFIER(), {i})",
    "NEXT(CLASSIFIER(), {i})",
    "NEXT({m}FIRST(CLASSIFIER()), {i})",
    "{m}array_agg(CLASSIFIER())",
    "{m}sum(MATCH_NUMBER())",
]

LABELLED = [
    "{m}count({X}.*)",
    "CLASSIFIER({X})",
    "{m}LAST(CLASSIFIER({X}), {i})",
    "PREV(CLASSIFIER({X}), {i})",
    "{m}array_agg(CLASSIFIER({X}))",
    "{m}count_if(CLASSIFIER() = {z})",
    "{m}max_by(CLASSIFIER({X}), {X}.v)",
    "{X}.v > 1 AND {p}v < 3",
    "{m}LAST({X}.v) - {M}FIRST({X}.v)",
]

SCALARS = [
    "7",
    "{m}count(*) + {M}count(*)",
    "COALESCE({m}sum({p}v), 0) + 1",
    "{p}v > PREV({p}v)",
    "{p}v / 2",
    "{p}s || 'x'",
    "CASE WHEN {p}v IS NULL THEN MATCH_NUMBER() ELSE {M}count(*) END",
    "{m}max({p}v) - {M}min({p}v)",
    "ABS({m}FIRST({p}v) - {M}LAST({p}v))",
]
