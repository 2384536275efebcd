"""Labels and subsets of a clause, and what its pattern says about them."""

from __future__ import annotations

from collections import Counter

from episode.lang.rows.pattern import labels_of
from episode.lang.rows.syntax import Classifier, Concatenation, Label, MatchRecognize, Pattern
from episode.lang.source import Source
from episode.lang.syntax import ColumnRef, Scalar, Span
from episode.plan.labels import Labels, one_label
from episode.plan.rows.program import length_bounds


def labels_in(clause: MatchRecognize) -> Labels:
    return Labels(
        tuple(labels_of(clause.pattern)), {subset.name: frozenset(subset.labels) for subset in clause.subsets}
    )


def known_names(clause: MatchRecognize) -> tuple[str, ...]:
    """What may stand before a column: labels and subsets."""
    return (*labels_of(clause.pattern), *(subset.name for subset in clause.subsets))


def common_label(source: Source, scalars: tuple[Scalar, ...], call: str, span: Span) -> str | None:
    """The one label that columns and CLASSIFIER inside a navigation or aggregate carry (None: no label)."""
    atoms = [atom for scalar in scalars for _, atom in scalar.atoms]
    return one_label(source, [atom.label for atom in atoms if isinstance(atom, (ColumnRef, Classifier))], call, span)


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
