"""Nodes of sqlglot's expression trees. sqlglot is loaded when the first of them is named: Spark's workers, which load
plans but parse nothing, start without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot import exp
else:

    class _Nodes:
        def __getattr__(self, name: str) -> Any:
            from sqlglot import exp

            setattr(self, name, getattr(exp, name))
            return getattr(exp, name)

    exp = _Nodes()

__all__ = ["exp"]
