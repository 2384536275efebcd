"""The messages of the documents are those of the language."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from episode.errors import EpisodeError
from episode.lang.situations.parser import parse_situation_query

REFERENCE = Path(__file__).parents[4] / "docs" / "reference-situations.md"
ROW = re.compile(r"^\| (DEFINE|PATTERN|WITHIN|RETURN) \| `(.+?)` \| (.+) \|$", re.MULTILINE)
AROUND = {
    "DEFINE": "DEFINE {} PATTERN A meets B",
    "PATTERN": "DEFINE A AS x > 1, B AS y, C AS z PATTERN {}",
    "WITHIN": "DEFINE A AS x > 1, B AS y PATTERN A meets B WITHIN {}",
    "RETURN": "DEFINE A AS x > 1, B AS y PATTERN A meets B RETURN {}",
}
REFUSED = ROW.findall(REFERENCE.read_text(encoding="utf-8"))


def test_there_are_some() -> None:
    assert {clause for clause, _, _ in REFUSED} == set(AROUND)


@pytest.mark.parametrize(("clause", "text", "message"), REFUSED)
def test_refused(clause: str, text: str, message: str) -> None:
    with pytest.raises(EpisodeError) as raised:
        parse_situation_query(AROUND[clause].format(text))
    assert raised.value.message == message
