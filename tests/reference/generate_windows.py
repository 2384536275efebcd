"""Random SELECTs with one row pattern in a window, as text (hypothesis), over the tables of `generate`."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.reference.generate import (
    COLUMNS,
    MIXED,
    ORDERS,
    PATH_DEPENDENT,
    PATH_INDEPENDENT,
    _definitions,
    _listed,
    _measures,
    _skips,
    _subsets,
    patterns,
)

FRAMES = ["UNBOUNDED FOLLOWING"] * 4 + ["2 FOLLOWING", "3 FOLLOWING", "1 FOLLOWING", "0 FOLLOWING", "CURRENT ROW"]
FUNCTIONS = [
    "count(*)", "count(v)", "sum(v)", "sum(f)", "min(s)", "max(v)", "avg(v)", "array_agg(v)", "collect_list(ts)",
    "first_value(v)", "last_value(s)", "nth_value(v, 2)", "sum(v + 1)", "first_value(ts)", "last_value(ts)",
]  # fmt: skip


@st.composite
def windowed(draw: st.DrawFn) -> str:
    """`SELECT …, call OVER w AS c0, … FROM t WINDOW w AS ( … )`; the calls are c0, c1, …"""
    weights = draw(st.sampled_from([PATH_INDEPENDENT, PATH_DEPENDENT, MIXED]))
    pool = list("ABCDE"[: draw(st.sampled_from([3, 2, 4, 5, 3, 1]))])
    depth = draw(st.sampled_from([2, 3, 2, 1]))
    pattern = draw(patterns(pool, depth=depth, root=True).filter(_has_no_anchor))
    labels = [label for label in pool if label in pattern.labels]
    subsets = draw(_subsets(labels))
    names = labels + list(subsets)
    measures = draw(st.lists(_measures(names).filter(_has_no_number), max_size=3))
    definitions = draw(_definitions(labels, names, weights, numbered=False, numbers=False))
    parts = [
        draw(st.sampled_from(["", "", "PARTITION BY k", "PARTITION BY k", "PARTITION BY s, k"])),
        f"ORDER BY {draw(st.sampled_from([order for order in ORDERS if order]))}",
        _listed("MEASURES", [f"{measure} AS m{i}" for i, measure in enumerate(measures)]),
        f"ROWS BETWEEN CURRENT ROW AND {draw(st.sampled_from(FRAMES))}",
        draw(_skips(names)),
        draw(st.sampled_from(["", "INITIAL", "SEEK", "SEEK"])),
        f"PATTERN ({pattern.text})",
        _listed("SUBSET", [f"{name} = ({', '.join(members)})" for name, members in subsets.items()]),
        _listed("DEFINE", [f"{label} AS {condition}" for label, condition in definitions.items()]),
    ]
    functions = draw(st.lists(st.sampled_from(FUNCTIONS), min_size=0 if measures else 1, max_size=3))
    calls = [*(f"m{i}" for i in range(len(measures))), *functions]
    items = ", ".join([*COLUMNS, *(f"{call} OVER w AS c{i}" for i, call in enumerate(calls))])
    return f"SELECT {items} FROM t WINDOW w AS ({' '.join(part for part in parts if part)})"


def _has_no_anchor(pattern: object) -> bool:
    text = pattern.text  # type: ignore[attr-defined]
    return "^" not in text and "$" not in text


def _has_no_number(measure: str) -> bool:
    return "MATCH_NUMBER" not in measure
