"""The code that a pattern is compiled to, as `explain(format="native")` shows it.

The code depends on the input: columns without nulls need no code for nulls. Here the input has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pyarrow as pa

from episode.matchers.protocol import MatcherSpec
from episode.matchers.running import LocalRun
from episode.native.listing import listing
from episode.native.running import Compiled, record_calls

_VALUES: tuple[object, ...] = (0, Decimal(0), False, "", b"", [], {})


def code_lines(spec: MatcherSpec, analyze: bool) -> Iterator[str]:
    """Yield the programs that two events without nulls run through. analyze: also the time to compile them with
    optimization."""
    with record_calls() as calls:
        LocalRun(spec).feed(_sample(spec.input_schema))
    for source in (program.source for program in dict.fromkeys(calls)):
        yield f"  program {source.name}: {source.size} instructions"
        if analyze:
            made = Compiled(source, checked=False, thorough=True, kept=False)
            yield f"  compiled in {made.milliseconds:.1f} ms to {made.size:,} bytes"
        for line in listing(source).splitlines():
            yield f"    {line}"


def _sample(schema: pa.Schema) -> pa.Table:
    return pa.table({field.name: _column(field.type) for field in schema})


def _column(type_: pa.DataType) -> pa.Array:
    """Return two values of the type: the first that it can hold; nulls if it holds none of them."""
    for value in _VALUES:
        try:
            return pa.array([value, value], type_)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError):
            continue
    return pa.nulls(2, type_)
