"""LLVM by way of llvmlite: assembly to object code, object code to functions. Nothing else imports llvmlite."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from episode.native.assembly import ENTRY, NOINLINE

LARGE, HUGE = 2_000, 20_000
"""Lines of one function from which on code is not optimised, and from which on registers are not allocated with care.
LLVM takes far more than twice the time for twice the lines: 45 s for 5,000 comparisons in one condition, 0.2 s so."""


def identity() -> str:
    """Everything outside a program on which its object code depends."""
    target = _target()
    return f"{llvmlite.__version__} {llvm.llvm_version_info} {target.triple} {_processor()} {_features()}"


def compile_assembly(text: str) -> bytes:
    """Object code for this processor."""
    lines = lines_together(text)
    machine = _machine(2 if lines < LARGE else 1 if lines < HUGE else 0)
    module = llvm.parse_assembly(text)
    module.verify()
    if lines < LARGE:
        passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
        passes.getModulePassManager().run(module, passes)
    return bytes(machine.emit_object(module))


def lines_together(text: str) -> int:
    """The lines that may become one function: those of the largest one that stays, or of all others."""
    functions = text.split("\ndefine ")
    staying = [one.count("\n") + 1 for one in functions if NOINLINE in one.partition("\n")[0]]
    return max(text.count("\n") - sum(staying), *staying, 0)


def load_object(code: bytes) -> tuple[int, Any]:
    """The address of the entry, and what keeps it in memory."""
    library = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(ENTRY)
    tracker = library.link(_jit(), f"program.{next(_numbers)}")
    return tracker[ENTRY], tracker


_numbers = itertools.count()


@cache
def _target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()


@cache
def _processor() -> str:
    return str(llvm.get_host_cpu_name())


@cache
def _features() -> str:
    return str(llvm.get_host_cpu_features().flatten())


@cache
def _machine(level: int = 2) -> Any:
    return _target().create_target_machine(cpu=_processor(), features=_features(), opt=level, reloc="pic", jit=True)


@cache
def _jit() -> Any:
    return llvm.create_lljit_compiler(_machine(), suppress_errors=True)
