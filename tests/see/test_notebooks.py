"""The notebooks of the examples run from their first cell to their last, and show what they say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.see, pytest.mark.spark]

NOTEBOOKS = Path(__file__).parents[2] / "examples" / "notebooks"
NAMES = ("market_shapes", "clickstream_funnels", "machine_monitoring")


def test_there_is_a_test_for_every_notebook() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(NAMES)


@pytest.fixture
def executed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A notebook after it has run in a kernel of its own."""
    import nbformat
    from nbclient import NotebookClient

    source = Path(__file__).parents[2] / "src"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PYTHONWARNINGS", "default")
    notebook = nbformat.read(NOTEBOOKS / f"{request.param}.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs before it is committed"
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    return notebook


def html_of(cell: Any) -> str:
    return "".join(output.get("data", {}).get("text/html", "") for output in cell.outputs)


@pytest.mark.filterwarnings("ignore")  # those of Jupyter's own packages
@pytest.mark.parametrize("executed", NAMES, indirect=True, ids=str)
def test_notebooks(executed: Any) -> None:
    code = [cell for cell in executed.cells if cell.cell_type == "code"]
    queries = [cell for cell in code if cell.source.startswith("%%episode") and "--explain" not in cell.source]
    assert len(queries) >= 2
    for cell in queries:
        shown = html_of(cell)
        assert "<table>" in shown, cell.source
        assert " rows" in shown or "1 row" in shown
        assert ("<svg" in shown) == ("--plot" in cell.source), cell.source
    answers = [html_of(cell) for cell in code if "why_not" in cell.source]
    assert answers
    assert all("<pre" in answer or "<p" in answer or "<div" in answer for answer in answers)
    for cell in code:
        assert not [output for output in cell.outputs if output.output_type == "error"]
        assert not any("No plot" in output.get("data", {}).get("text/html", "") for output in cell.outputs), cell.source
