"""A query in one line: how it is broken does not matter, what stands in quotes does."""

from __future__ import annotations

from episode.matchers.state import fingerprint, one_line


def test_space_between_words_does_not_count() -> None:
    assert one_line("  SELECT  a,\n\tb -- it's  all  \nFROM t /* what's\n more */ ") == (
        "SELECT a, b -- it's all FROM t /* what's more */"
    )


def test_space_in_quotes_counts() -> None:
    assert one_line("a  = 'x  y'  AND `c  d`  = \"e\n f\" AND g = 'it''s  h'") == (
        "a = 'x  y' AND `c  d` = \"e\n f\" AND g = 'it''s  h'"
    )
    assert fingerprint("a = 'x y'") != fingerprint("a = 'x  y'")
    assert fingerprint("a =  'x y'") == fingerprint("a\n= 'x y'")
