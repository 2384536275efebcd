"""The test for episode's clauses in Java agrees with the one in Python, on the shared texts and on random ones."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from episode.lang.own_clauses import has_own_clauses

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEXTS = tomllib.loads((Path(__file__).parent / "texts.toml").read_text(encoding="utf-8"))["text"]
FRAGMENTS = """
    MATCH_RECOGNIZE match_recognize PATTERN pattern DEFINE EVENTS SITUATIONS OVER WINDOW w AS FROM t SELECT
    ( ) ( ) , . ; ?
    PARTITION BY ORDER ts MEASURES x 1.5 .5 1e-3 5s ' " ` '' \\ \\' -- NEWLINE --} { } {- // /* */
    /*+ r' R" x' $$ $tag$ “ ” ‘ ’
    | > = ² ß ſ ı İ é 𝒳 CREATE STREAM DROP SHOW STREAMS DESC JOIN TABLE BETWEEN
"""


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text["why"])
def test_shared_texts(spark: SparkSession, text: dict[str, object]) -> None:
    assert spark._jvm.io.episode.Clauses.areIn(text["sql"]) is text["ours"]


def test_random_texts(spark: SparkSession) -> None:
    words = [*FRAGMENTS.replace("NEWLINE", "").split(), "\n", "\u00a0", "\u2003"]
    draw = random.Random(29)
    texts = [draw.choice(("", " ")).join(draw.choices(words, k=draw.randrange(2, 16))) for _ in range(4000)]
    texts += [
        f"SELECT {draw.choice(words)} FROM t MATCH_RECOGNIZE ({' '.join(draw.choices(words, k=4))}" for _ in range(500)
    ]
    decided = {text: spark._jvm.io.episode.Clauses.areIn(text) for text in texts}
    assert {text for text, ours in decided.items() if ours != has_own_clauses(text)} == set()
    assert sum(decided.values()) > 50
