"""Labels of a match (row patterns), variables (event patterns) or symbols (situations), and sets of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from episode.errors import EpisodeAnalysisError
from episode.lang.source import Source
from episode.lang.syntax import ColumnRef, Scalar, Span


@dataclass(frozen=True)
class Labels:
    """Names in order of first appearance; subsets as sets of labels."""

    names: tuple[str, ...]
    subsets: dict[str, frozenset[str]]

    def members(self, name: str | None) -> frozenset[str] | None:
        """The labels after a name; None for all rows of the match."""
        if name is None:
            return None
        return self.subsets.get(name, frozenset((name,)))


def labels_of_columns(scalars: tuple[Scalar, ...]) -> Iterator[str | None]:
    """The labels that columns carry (None: no label)."""
    for scalar in scalars:
        for _, atom in scalar.atoms:
            if isinstance(atom, ColumnRef):
                yield atom.label


def one_label(source: Source, found: Iterable[str | None], call: str, span: Span) -> str | None:
    """The one label that all columns inside a navigation or aggregate carry (None: no label)."""
    labels = list(dict.fromkeys(found))
    if len(labels) > 1:
        names = " and ".join("no label" if name is None else name for name in labels)
        raise source.error(
            EpisodeAnalysisError,
            f"All columns inside one {call} must carry the same label; here they carry {names}.",
            span,
            "Write one navigation or aggregate per label.",
        )
    return labels[0] if labels else None
