"""Spark SQL as sqlglot reads it here. Importing this module loads sqlglot."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot.dialects.spark import Spark

from episode.lang.lexer import words_of

KNOWN_FUNCTIONS = words_of("""
    ABS BOOLEAN COALESCE DATE DATEADD DATEDIFF DATE_ADD DATE_DIFF DOUBLE EXP FLOAT GREATEST IF IFNULL INT ISNAN LEAST LN
    MOD NULLIF NVL POW POWER SQRT STRING TIMESTAMP TIMESTAMPADD TIMESTAMPDIFF TO_UNIX_TIMESTAMP UNIX_MICROS UNIX_MILLIS
    UNIX_SECONDS UNIX_TIMESTAMP
""")
"""Functions that the machine may evaluate itself, or that take a keyword. Other calls keep the text of the query."""
KEYWORDS = frozenset(word for word in Spark.Tokenizer.KEYWORDS if word.isalpha())
"""Words that may not be a plain name to sqlglot."""


class SparkExpressions(Spark):
    """Spark's SQL without sqlglot's knowledge of functions, which would write some of them in another way."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = (*Spark.Tokenizer.STRING_ESCAPES, "'", '"')

    class Parser(Spark.Parser):
        FUNCTIONS = {name: Spark.Parser.FUNCTIONS[name] for name in KNOWN_FUNCTIONS}  # noqa: RUF012
        ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}  # array(x, y)[0] is an element in Spark, not the array of 0
        COLON_PLACEHOLDER_TOKENS = {  # noqa: RUF012 - any word may be the name of a parameter
            *Spark.Parser.COLON_PLACEHOLDER_TOKENS,
            *(Spark.Tokenizer.KEYWORDS[word] for word in KEYWORDS),
        }
