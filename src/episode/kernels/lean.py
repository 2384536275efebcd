"""Lean kernels: compiled without what inner loops have no use for.

Indices are never negative. numba would ask at every access whether an index counts from the end, which costs two
instructions and the length of the array: in a large loop one more value to be fetched. (Constant indices are numba's
own business, and may be negative.)

And no references to arrays are counted, so that a function with arrays as arguments costs nothing where it is inlined.
Lean kernels, and those that they call, cannot allocate arrays.
"""

from __future__ import annotations

from typing import Any

from numba import njit, types
from numba.core import ir
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.typed_passes import NopythonRewrites


@register_pass(mutates_CFG=False, analysis_only=False)
class _UnsignedIndices(FunctionPass):
    """Lets indices be taken as unsigned numbers, after types are known."""

    _name = "unsigned_indices"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        for block in state.func_ir.blocks.values():
            for statement in block.body:
                access = statement.value if isinstance(statement, ir.Assign) else statement
                if isinstance(access, ir.SetItem) or (isinstance(access, ir.Expr) and access.op == "getitem"):
                    signature = state.calltypes.pop(access)
                    container, index, *value = signature.args
                    if isinstance(container, types.Array):
                        signature = signature.replace(args=(container, _unsigned(index), *value))
                    state.calltypes[access] = signature
        return True


def _unsigned(index: Any) -> Any:
    if isinstance(index, types.BaseTuple):
        return types.Tuple([_unsigned(one) for one in index])
    return types.uintp if isinstance(index, types.Integer) else index


class NoNegativeIndices(CompilerBase):
    """The compiler of lean kernels, and of larger ones that allocate."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_UnsignedIndices, NopythonRewrites)
        passes.finalize()
        return [passes]


lean = njit(cache=True, nogil=True, _nrt=False, pipeline_class=NoNegativeIndices)
"""Decorates a lean kernel."""
