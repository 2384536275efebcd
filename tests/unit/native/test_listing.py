"""Programs in words."""

from __future__ import annotations

import re

from episode.native.builder import Program
from episode.native.ir import F64, I64
from episode.native.listing import listing


def test_every_kind_of_line() -> None:
    program = Program("dear")
    f = program.function("run")
    price, out, limit = f.array("price", F64), f.array("out", I64, writable=True), f.scalar("limit", F64)
    found = f.variable("found", 0)
    with f.loop(0, price.length) as row:
        with f.when(price[row] > limit):
            out[found] = row
            found.set(found + 1)
    last, other = f.block("last"), f.block("other")
    f.switch(found, {3: last}, other)
    for block in (last, other):
        f.at(block)
        f.give(found)
    text = re.sub("%[0-9]+", "%", listing(program))
    assert text.startswith("function run(price: f64[] (read), out: i64[], limit: f64) -> i64\n  entry.0:\n")
    for line in (
        "found = 0", "%: i64 = length price", "%: f64 = price[%]", "%: bool = gt %, limit", "out[%] = %",
        "switch % {3: last.6, otherwise: other.7}", "if % jump body.2 else after.3", "jump loop.1", "return %",
    ):  # fmt: skip
        assert f"    {line}\n" in text + "\n", line
