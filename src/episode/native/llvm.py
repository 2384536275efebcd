"""LLVM by way of llvmlite: assembly to object code, object code to functions. Nothing else imports llvmlite."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from episode.native.assembly import ENTRY

LARGE = 20_000
"""Lines of assembly above which less is optimised: the time to compile grows with the text."""


def identity() -> str:
    """Everything outside a program on which its object code depends."""
    target = _target()
    return f"{llvmlite.__version__} {llvm.llvm_version_info} {target.triple} {_processor()} {_features()}"


def compile_assembly(text: str) -> bytes:
    """Object code for this processor."""
    machine = _machine()
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=1 if text.count("\n") > LARGE else 2)
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return bytes(machine.emit_object(module))


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
def _machine() -> Any:
    return _target().create_target_machine(cpu=_processor(), features=_features(), opt=2, reloc="pic", jit=True)


@cache
def _jit() -> Any:
    return llvm.create_lljit_compiler(_machine(), suppress_errors=True)
