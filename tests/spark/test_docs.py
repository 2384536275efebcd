"""The documents are true: their code runs, and prints what stands below it."""

from __future__ import annotations

import re
import runpy
from itertools import pairwise
from pathlib import Path

import pytest

import episode
from episode import samples

pytestmark = pytest.mark.spark

DOCS = Path(__file__).parents[2] / "docs"
PRICES = {"ACME": [20, 18, 15, 17, 21, 21, 19, 22], "BOLT": [7, 6, 8]}
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: str) -> list[tuple[str, str]]:
    """Language and text of the fenced blocks, in order."""
    return BLOCK.findall((DOCS / document).read_text(encoding="utf-8"))


def queries_with_results(document: str) -> list[tuple[str, str]]:
    """Every sql block that has a text block directly below it."""
    found = blocks(document)
    return [
        (text, below) for (kind, text), (next_kind, below) in pairwise(found) if (kind, next_kind) == ("sql", "text")
    ]


def queries(document: str) -> list[str]:
    return [text for kind, text in blocks(document) if kind == "sql"]


@pytest.fixture(scope="module")
def tables() -> dict[str, object]:
    rows = [
        f"('{symbol}', {tick}, {price})" for symbol, prices in PRICES.items() for tick, price in enumerate(prices, 1)
    ]
    ticks = episode.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS ticks(symbol, tick, price)")
    return {"ticks": ticks, "acme": ticks.where("symbol = 'ACME'").drop("symbol")}


@pytest.mark.parametrize(("query", "expected"), queries_with_results("reference-match-recognize.md"))
def test_reference(query: str, expected: str, tables: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    episode.sql(query, **tables).show(truncate=False)
    assert capsys.readouterr().out.strip() == expected.strip()


def test_tutorial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All Python of the tutorial is one program; its text blocks appear in its output, in order."""
    program = "".join(text for kind, text in blocks("tutorial.md") if kind == "python")
    expected = [text for kind, text in blocks("tutorial.md") if kind == "text"]
    (tmp_path / "tutorial.py").write_text(program.replace("episode-samples", str(tmp_path)))
    runpy.run_path(str(tmp_path / "tutorial.py"))
    output = capsys.readouterr().out
    for text in expected:
        before, found, output = output.partition(text)
        assert found, f"not in the output:\n{text}\nbut:\n{before}"


@pytest.mark.parametrize("query", queries("how-to.md"))
def test_how_to(query: str, samples_directory: Path) -> None:
    ticks, clicks = str(samples_directory / "ticks.parquet"), str(samples_directory / "clicks.parquet")
    assert episode.sql(query, ticks=ticks, clicks=clicks).limit(1).collect()


@pytest.fixture(scope="module")
def samples_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("samples")
    samples.write(directory)
    return directory
