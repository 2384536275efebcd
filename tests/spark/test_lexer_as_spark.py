"""Texts are cut as Spark's own lexer cuts them: what is a string, a comment or a hint for one is so for the other.

If they differed, a text that was checked as one query could run as another.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from episode.errors import EpisodeSyntaxError
from episode.lang.lexer import Kind, tokenize

pytestmark = pytest.mark.spark

FRAGMENTS = [
    "'", '"', "`", "''", '""', "``", "\\", "\\'", "\\\n", "\n", "\r", "\r\n", "--", "-- '", "/*", "/* '",
    "*/", "/*+", "'*/'", "*", "/", "+", "-", "r'", 'R"', "x'", "r", "1", "12", ".", "1.", ".5", "1e", "1e+5",
    "1.5", "1.5e3", "e3", "E", "F", "BD", "L", "a", "b_", "é", "ß", "ı", "ſ", "𝒜", "😀", "½", "Ⅷ", "٣", "\0",
    "\u2028", "\u2029", "\x85", "\x1c", "\xa0", "\u200b", "\t", " ", " ", "(", ")", ",", ";", "{", "}", "$",
    "$$", "$a$", "$A$", "$1$", "<", ">", ">>", "=", "|>", ":", "::", "?", "@", "reflect", "SELECT",
]  # fmt: skip
OWN = re.compile(r"//|[‘’“”⁰¹²³⁴⁵⁶⁷⁸⁹]|\{--\}")
"""What only episode reads: Spark refuses texts with it."""
QUOTED = ("STRING_LITERAL", "DOUBLEQUOTED_STRING", "BACKQUOTED_IDENTIFIER")
REFUSED = ("UNRECOGNIZED", "BRACKETED_COMMENT", "HENT_START", "HENT_END", "BEGIN_DOLLAR_QUOTED_STRING")
"""Tokens at which a text can be wrong already for a lexer."""


@dataclass(frozen=True)
class SparkToken:
    name: str
    hidden: bool
    start: int
    end: int


class SparkLexer:
    """Spark's lexer. All tokens come as one text, because calls into Java take longer than reading it."""

    def __init__(self, spark: SparkSession) -> None:
        jvm = spark.sparkContext._jvm
        parser = jvm.org.apache.spark.sql.catalyst.parser
        self.made, self.upper = parser.SqlBaseLexer, parser.UpperCaseCharStream
        self.stream = jvm.org.antlr.v4.runtime.CharStreams.fromString
        names = self._lexer("").getVocabulary()
        self.names = [str(names.getSymbolicName(number)) for number in range(names.getMaxTokenType() + 1)]

    def _lexer(self, text: str) -> Any:
        lexer = self.made(self.upper(self.stream(text)))
        lexer.removeErrorListeners()
        return lexer

    def tokens(self, text: str) -> Iterator[SparkToken]:
        """The tokens, which follow each other without a gap: `[@-1,0:5='SELECT',<123>,1:0], …`."""
        written, at, position = str(self._lexer(text).getAllTokens().toString()), 0, 0
        while position < len(text):
            head = re.compile(rf"\[@-1,{position}:(\d+)=").search(written, at)
            assert head is not None
            end = int(head[1]) + 1
            at = written.find(f"[@-1,{end}:", head.end()) if end < len(text) else len(written)
            tail = re.search(r"',<(\d+)>,(channel=1,)?\d+:\d+\](, |\])?$", written[head.end() : at])
            assert tail is not None
            yield SparkToken(self.names[int(tail[1])], tail[2] is not None, position, end)
            position = end


def differences(lexer: SparkLexer, text: str) -> list[str]:
    """In what the two lexers differ on a text."""
    theirs = list(lexer.tokens(text))
    try:
        ours = tokenize(text)[:-1]
    except EpisodeSyntaxError as error:
        place = next(number for number, one in enumerate(theirs) if one.start <= (error.position or 0) < one.end)
        odd_quote = theirs[place].name in QUOTED and theirs[place + 1].name == "UNRECOGNIZED"  # 'a''
        return [] if odd_quote or theirs[place].name in REFUSED else [f"refused: {error.message}"]
    seen, quoted, hint, dollars = [], set(), False, 0
    for one in theirs:
        hint = hint or one.name == "HENT_START"
        if not hint and not one.hidden:
            seen.append(one)
        hint = hint and one.name != "HENT_END"
    for one in seen:
        dollars = one.start if one.name == "BEGIN_DOLLAR_QUOTED_STRING" else dollars
        if one.name in QUOTED or one.name == "END_DOLLAR_QUOTED_STRING":
            quoted.add((one.start if one.name in QUOTED else dollars, one.end))
    found = []
    if {at for one in seen for at in range(one.start, one.end)} != {at for t in ours for at in range(t.start, t.end)}:
        found.append("other characters are comments, hints or white space")
    if quoted != {(t.start + (t.text[0] in "xX"), t.end) for t in ours if t.kind in (Kind.STRING, Kind.QUOTED)}:
        found.append("other strings")
    edges = {edge for one in theirs for edge in (one.start, one.end)}
    if any(t.start not in edges or t.end not in edges for t in ours if t.kind is not Kind.SYMBOL):
        found.append("a token ends inside of one of Spark's")
    return found


def random_text(draw: random.Random) -> str:
    text = "".join(draw.choice(FRAGMENTS) for _ in range(draw.randint(1, 14)))
    try:
        tokenize(text)
    except EpisodeSyntaxError as error:
        closing = re.search(r"^Close it with (.*?)\.$", error.hint or "")
        if closing is not None and draw.random() < 0.8:
            text += closing[1] + draw.choice(FRAGMENTS) + draw.choice(FRAGMENTS)
    return text


def test_random_texts_are_cut_alike(spark: SparkSession) -> None:
    lexer, draw = SparkLexer(spark), random.Random(20261118)
    texts = [text for text in (random_text(draw) for _ in range(3000)) if not OWN.search(text)]
    assert [(text, found) for text in texts if (found := differences(lexer, text))] == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT /*+ x('*/') */ reflect('a') -- '",
        "SELECT 1 -- a\r, reflect('a')",
        "SELECT 1 -- a\\\n, reflect('a')",
        "SELECT 2 */*'*/ reflect('a') -- '",
        "SELECT 1e+5r'\\', reflect('a'), '",
        "SELECT 'a' /* /*+ */ , reflect('a') -- */",
        "SELECT $a$ ' $A$ ' $a$",
    ],
)
def test_texts_that_were_once_cut_in_two_ways(spark: SparkSession, text: str) -> None:
    assert differences(SparkLexer(spark), text) == []


@pytest.mark.parametrize("own", ["//", "‘", "”", "a²", "{--}", "a://b", "$$x$$", "x*/"])
@pytest.mark.parametrize("around", ["SELECT {} '\n', 1", "SELECT 1 {}", "SELECT /*+ h({}) */ 1", "SELECT 'a' {} 'b'"])
def test_spark_refuses_what_only_episode_reads(spark: SparkSession, own: str, around: str) -> None:
    """So no text with it is one thing for episode and another for Spark."""
    if (own, around) == ("{--}", "SELECT 1 {}"):
        own = "{--}\n"
    with pytest.raises(ParseException):
        spark._jsparkSession.sessionState().sqlParser().parsePlan(around.replace("{}", own))
