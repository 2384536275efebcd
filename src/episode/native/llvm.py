"""LLVM by way of llvmlite: assembly to object code, object code to functions. Nothing else imports llvmlite."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from episode.native.assembly import ENTRY, NOINLINE

SMALL, LARGE = 500, 8_000
"""Lines of assembly: smaller programs, most of which are loops over columns, get all that LLVM can do for loops; larger
ones, which are full of branches, get few passes, which is as good and three times as fast; and programs that are larger
still get none. LLVM takes far more than twice the time for twice the lines of one block: 45 s for 5,000 comparisons in
one condition, 0.2 s without passes."""
PASSES = ("sroa", "simplify_cfg", "instruction_combine", "jump_threading", "loop_rotate", "simplify_cfg",
          "instruction_combine")  # fmt: skip


def identity() -> str:
    """Everything outside a program on which its object code depends."""
    cpu, features = _host()
    return f"{llvmlite.__version__} {llvm.llvm_version_info} {_target().triple} {cpu} {features}"


def compile_quickly(text: str) -> bytes:
    """Object code for this processor, as soon as possible."""
    return bytes(_machine(0).emit_object(_module(text)))


def compile_thoroughly(text: str) -> bytes:
    """Object code for this processor that runs fast."""
    lines = lines_together(text)
    if lines >= LARGE:
        return compile_quickly(text)
    module, machine = _module(text), _machine(2)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes = builder.getModulePassManager() if lines < SMALL else llvm.create_new_module_pass_manager()
    for name in PASSES if lines >= SMALL else ():
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)
    return bytes(machine.emit_object(module))


def _module(text: str) -> Any:
    module = llvm.parse_assembly(text)
    module.verify()
    return module


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
def _host() -> tuple[str, str]:
    """The processor and its features."""
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def _machine(level: int = 2) -> Any:
    cpu, features = _host()
    return _target().create_target_machine(cpu=cpu, features=features, opt=level, reloc="pic", jit=True)


@cache
def _jit() -> Any:
    return llvm.create_lljit_compiler(_machine(), suppress_errors=True)
