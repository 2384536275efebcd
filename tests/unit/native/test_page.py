"""The example of docs/dev/native.md works as it is printed."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[3] / "docs" / "dev" / "native.md"


def test_the_example_finds_falls(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    example = tmp_path / "example.py"
    example.write_text(code, encoding="utf-8")
    prices, out = np.array([3.0, 2.0, 2.5, 1.0]), np.zeros(4, np.int64)
    names = runpy.run_path(str(example), {"prices": prices, "out": out})
    assert names["count"] == 2
    assert list(out[:2]) == [1, 3]
    run = names["compile_program"](names["falls"](may_be_null=True))
    assert run([prices, out, np.array([1, 1, 1, 0], np.uint8)]) == 1
