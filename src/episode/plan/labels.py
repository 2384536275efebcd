"""Labels and subsets of a clause, and what the atoms of an expression say about them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from episode.errors import EpisodeAnalysisError
from episode.lang.rows.pattern import labels_of
from episode.lang.syntax import (
    Aggregate,
    Atom,
    Classifier,
    ColumnRef,
    Concatenation,
    Label,
    MatchRecognize,
    Navigation,
    Pattern,
    Scalar,
    Span,
)
from episode.plan.rows.program import length_bounds


@dataclass(frozen=True)
class Labels:
    """Names in order of first appearance; subsets as sets of labels."""

    names: tuple[str, ...]
    subsets: dict[str, frozenset[str]]

    def members(self, name: str | None) -> frozenset[str] | None:
        """The labels behind a name; None for all rows of the match."""
        if name is None:
            return None
        return self.subsets.get(name, frozenset((name,)))


def labels_in(clause: MatchRecognize) -> Labels:
    return Labels(
        tuple(labels_of(clause.pattern)), {subset.name: frozenset(subset.labels) for subset in clause.subsets}
    )


def common_label(clause: MatchRecognize, scalars: tuple[Scalar, ...], call: str, span: Span) -> str | None:
    """The one label that all columns inside a navigation or aggregate carry (None: no label)."""
    found: dict[str | None, Atom] = {}
    for scalar in scalars:
        for _, atom in scalar.atoms:
            if isinstance(atom, (ColumnRef, Classifier)):
                found.setdefault(atom.label, atom)
    if len(found) > 1:
        names = " and ".join("no label" if name is None else name for name in found)
        raise EpisodeAnalysisError(
            f"All columns inside one {call} must carry the same label; here they carry {names}.",
            source=clause.source,
            position=span.start,
            length=span.end - span.start,
            hint="Write one navigation or aggregate per label.",
        )
    return next(iter(found), None)


def pinned_labels(pattern: Pattern) -> frozenset[str]:
    """Labels whose row is fixed by the start row: once in the pattern, not optional, after parts of fixed length."""
    parts = pattern.parts if isinstance(pattern, Concatenation) else (pattern,)
    parts_with = Counter(name for part in parts for name in labels_of(part))
    pinned: set[str] = set()
    for part in parts:
        if isinstance(part, Label) and parts_with[part.name] == 1:
            pinned.add(part.name)
        low, high = length_bounds(part)
        if low != high:
            break
    return frozenset(pinned)


def is_plain_column(scalar: Scalar) -> ColumnRef | None:
    """The column, if the scalar is nothing but one column."""
    if (
        len(scalar.atoms) == 1
        and scalar.text.strip() == scalar.atoms[0][0]
        and isinstance(scalar.atoms[0][1], ColumnRef)
    ):
        return scalar.atoms[0][1]
    return None


def call_name(atom: Navigation | Aggregate) -> str:
    return "navigation" if isinstance(atom, Navigation) else "aggregate"
