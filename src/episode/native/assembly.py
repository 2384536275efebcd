"""Programs as LLVM assembly: one line for most instructions.

Every function takes, for each of its arrays, a pointer and a length, then its scalars. The entry takes one array of
64-bit words with all of these, so that it can be called in one way from anywhere.

With checks, every index, divisor, shift and conversion is tested first: what is wrong is written to an array of error
words (which check failed, where, on what), and all functions return at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from episode.native import ir
from episode.native.builder import Function, Program
from episode.native.ir import BOOL, F32, F64, Array, Block, Type, Value

ENTRY = "entry"
NOINLINE = "noinline"
INDEX, DIVISOR, SHIFT, RANGE, CASE = range(1, 6)
CHECKS = {INDEX: "index", DIVISOR: "divisor", SHIFT: "shift", RANGE: "range", CASE: "case"}

_WHOLE = ("add", "sub", "mul", "and", "or", "xor", "shl")
_SIGNED = {"div": "sdiv", "rem": "srem", "shr": "ashr"}
_UNSIGNED = {"div": "udiv", "rem": "urem", "shr": "lshr"}
_INTRINSIC = {"sqrt": "sqrt", "abs": "fabs", "floor": "floor", "ceil": "ceil"}
_OF_C = ("exp", "log", "pow")
"""Functions of C's library, which Python calls as well. LLVM must not know them: its x * x is not always pow(x, 2)."""


def assembly_of(program: Program, checked: bool = False) -> str:
    """The text of a program, which ends with the declarations of what it calls."""
    declared: set[str] = set()
    lines = [line for function in program.functions for line in _Writer(function, checked, declared).function()]
    return "\n".join([*lines, *_entry(program.entry, checked), *sorted(declared), ""])


def _entry(function: Function, checked: bool) -> Iterator[str]:
    yield f"define i64 @{ENTRY}(ptr %words, ptr %error) {{"
    given, at = [], 0
    for _ in function.arrays:
        yield f"  %p{at} = getelementptr i64, ptr %words, i64 {at}"
        yield f"  %a{at} = load ptr, ptr %p{at}"
        yield f"  %q{at} = getelementptr i64, ptr %words, i64 {at + 1}"
        yield f"  %n{at} = load i64, ptr %q{at}"
        given += [f"ptr %a{at}", f"i64 %n{at}"]
        at += 2
    for scalar in function.scalars:
        name = _name(scalar.type)
        yield f"  %p{at} = getelementptr i64, ptr %words, i64 {at}"
        yield f"  %s{at} = load {'i8' if scalar.type is BOOL else name}, ptr %p{at}"
        if scalar.type is BOOL:
            yield f"  %b{at} = trunc i8 %s{at} to i1"
        given.append(f"{name} %{'b' if scalar.type is BOOL else 's'}{at}")
        at += 1
    if checked:
        given.append("ptr %error")
    yield f"  %result = call i64 @f.{function.name}({', '.join(given)})"
    yield "  ret i64 %result"
    yield "}"


def _name(type_: Type) -> str:
    if type_.is_float:
        return "float" if type_ is F32 else "double"
    return f"i{type_.bits}"


def _constant(value: Value) -> str:
    (number,) = value.args
    if value.type is F64 or value.type is F32:
        as_type = struct.unpack("<f", struct.pack("<f", number))[0] if value.type is F32 else number
        return f"0x{struct.unpack('<Q', struct.pack('<d', as_type))[0]:016X}"
    return str(int(number))


class _Writer:
    """Writes one function."""

    def __init__(self, function: Function, checked: bool, declared: set[str]) -> None:
        self.f, self.checked, self.declared = function, checked, declared
        self.lines: list[str] = []
        self.names: dict[Value, str] = {scalar: f"%s{at}" for at, scalar in enumerate(function.scalars)}
        self.slots = {variable: f"%v{at}" for at, variable in enumerate(function.variables)}
        self.arrays = {array: at for at, array in enumerate(function.arrays)}
        self.parts = 0

    def function(self) -> list[str]:
        arrays = [
            part
            for array, at in self.arrays.items()
            for part in (f"ptr noalias {'' if array.writable else 'readonly '}%a{at}", f"i64 %n{at}")
        ]
        scalars = [f"{_name(scalar.type)} {self.names[scalar]}" for scalar in self.f.scalars]
        error = ["ptr %error"] if self.checked else []
        linkage = f"define internal {_name(self.f.result)} @f.{self.f.name}"
        stays = f"{NOINLINE} " if self.f.size > self.f.program.most_inlined else ""
        self.lines.append(f"{linkage}({', '.join([*arrays, *scalars, *error])}) {stays}{{")
        self.lines.append("slots:")
        self.lines += [f"  {slot} = alloca {_name(variable.type)}" for variable, slot in self.slots.items()]
        self.lines.append(f"  br label %{self._label(self.f.blocks[0])}")
        for block in self.f.blocks:
            self._block(block)
        self.lines.append("}")
        return self.lines

    def _label(self, block: Block) -> str:
        return f'"{block.name}"'

    def _put(self, line: str) -> None:
        self.lines.append("  " + line)

    def _block(self, block: Block) -> None:
        if block.end is None:
            raise ValueError(f"The block {block.name} of {self.f.name} has no end.")
        self.lines.append(f"{self._label(block)}:")
        for value in block.body:
            target = f"%t{value.number}"
            self.names[value] = getattr(self, f"_{value.op}", self._operation)(value, target) or target
        self._end(block.end)

    def _end(self, end: ir.End) -> None:
        if isinstance(end, ir.Jump):
            self._put(f"br label %{self._label(end.to)}")
        elif isinstance(end, ir.Branch):
            yes, no = self._label(end.yes), self._label(end.no)
            self._put(f"br i1 {self._use(end.condition)}, label %{yes}, label %{no}")
        elif isinstance(end, ir.Return):
            self._put(f"ret {_name(self.f.result)} {self._use(end.value)}")
        else:
            on = self._use(end.on)
            default = self._label(end.default) if end.default else self._new_label()
            cases = " ".join(f"i64 {case}, label %{self._label(to)}" for case, to in end.cases.items())
            self._put(f"switch i64 {on}, label %{default} [{cases}]")
            if end.default is None:
                self.lines.append(f"{default}:")
                if self.checked:
                    self._leave((CASE, 0, on))
                else:
                    self._put("unreachable")

    # ---- values --------------------------------------------------------------------------------------------

    def _use(self, value: Value) -> str:
        return _constant(value) if value.op == "constant" else self.names[value]

    def _operation(self, value: Value, target: str) -> None:
        """Operations of one or two operands of one type."""
        first = value.args[0]
        type_, name, op = first.type, _name(first.type), value.op
        operands = ", ".join(self._use(one) for one in value.args)
        if op in _INTRINSIC:
            self._put(f"{target} = {self._intrinsic(name, f'{_INTRINSIC[op]}.f{type_.bits}', value.args)}")
        elif op in _OF_C:
            given = ", ".join(f"double {self._use(one)}" for one in value.args)
            self.declared.add(f"declare double @{op}({', '.join('double' for _ in value.args)}) nounwind memory(none)")
            self._put(f"{target} = call double @{op}({given}) nobuiltin")
        elif op in ir.OVERFLOWS:
            intrinsic = f"{'s' if type_.is_signed else 'u'}{op.removesuffix('_overflows')}.with.overflow.{name}"
            pair = f"{{{name}, i1}}"
            self._put(f"{target}.pair = {self._intrinsic(pair, intrinsic, value.args)}")
            self._put(f"{target} = extractvalue {pair} {target}.pair, 1")
        elif op in ir.COMPARISONS:
            self._put(f"{target} = {_comparison(op, type_)} {name} {operands}")
        elif type_.is_float:
            self._put(f"{target} = f{op} {name} {operands}")
        else:
            if self.checked and op in (*_SIGNED, "shl"):
                self._check_operands(value)
            word = op if op in _WHOLE else (_SIGNED if type_.is_signed else _UNSIGNED)[op]
            self._put(f"{target} = {word} {name} {operands}")

    def _intrinsic(self, result: str, intrinsic: str, operands: tuple[Value, ...]) -> str:
        types = ", ".join(_name(one.type) for one in operands)
        self.declared.add(f"declare {result} @llvm.{intrinsic}({types})")
        given = ", ".join(f"{_name(one.type)} {self._use(one)}" for one in operands)
        return f"call {result} @llvm.{intrinsic}({given})"

    def _neg(self, value: Value, target: str) -> None:
        (operand,) = value.args
        name = _name(operand.type)
        self._put(f"{target} = {f'fneg {name}' if operand.type.is_float else f'sub {name} 0,'} {self._use(operand)}")

    def _not(self, value: Value, target: str) -> None:
        (operand,) = value.args
        self._put(f"{target} = xor {_name(operand.type)} {self._use(operand)}, -1")

    def _trailing_zeros(self, value: Value, target: str) -> None:
        (operand,) = value.args
        name = _name(operand.type)
        self.declared.add(f"declare {name} @llvm.cttz.{name}({name}, i1)")
        self._put(f"{target} = call {name} @llvm.cttz.{name}({name} {self._use(operand)}, i1 false)")

    def _select(self, value: Value, target: str) -> None:
        condition, yes, no = (self._use(one) for one in value.args)
        name = _name(value.type)
        self._put(f"{target} = select i1 {condition}, {name} {yes}, {name} {no}")

    def _cast(self, value: Value, target: str) -> str | None:
        (operand,) = value.args
        source, result = operand.type, value.type
        if not source.is_float and not result.is_float and source.bits == result.bits:
            return self._use(operand)
        if source.is_float and not result.is_float and self.checked:
            self._check_range(value)
        operation = _conversion(source, result)
        self._put(f"{target} = {operation} {_name(source)} {self._use(operand)} to {_name(result)}")
        return None

    def _bitcast(self, value: Value, target: str) -> str | None:
        (operand,) = value.args
        if operand.type.is_float == value.type.is_float:
            return self._use(operand)
        self._put(f"{target} = bitcast {_name(operand.type)} {self._use(operand)} to {_name(value.type)}")
        return None

    # ---- memory --------------------------------------------------------------------------------------------

    def _read(self, value: Value, target: str) -> None:
        (variable,) = value.args
        self._put(f"{target} = load {_name(value.type)}, ptr {self.slots[variable]}")

    def _write(self, value: Value, target: str) -> None:
        variable, new = value.args
        self._put(f"store {_name(value.type)} {self._use(new)}, ptr {self.slots[variable]}")

    def _length(self, value: Value, target: str) -> str:
        (array,) = value.args
        return f"%n{self.arrays[array]}"

    def _load(self, value: Value, target: str) -> None:
        array, index = value.args
        self._place(array, index, target)
        self._put(f"{target} = load {_name(value.type)}, ptr {target}.at")

    def _store(self, value: Value, target: str) -> None:
        array, index, new = value.args
        self._place(array, index, target)
        self._put(f"store {_name(value.type)} {self._use(new)}, ptr {target}.at")

    def _place(self, array: Array, index: Value, target: str) -> None:
        number, at = self.arrays[array], self._use(index)
        if self.checked:
            self._put(f"{target}.in = icmp ult i64 {at}, %n{number}")
            self._leave_unless(f"{target}.in", (INDEX, number, at))
        self._put(f"{target}.at = getelementptr inbounds {_name(array.type)}, ptr %a{number}, i64 {at}")

    def _call(self, value: Value, target: str) -> None:
        function, arrays, scalars = value.args
        given = [part for one in arrays for part in (f"ptr %a{self.arrays[one]}", f"i64 %n{self.arrays[one]}")]
        given += [f"{_name(one.type)} {self._use(one)}" for one in scalars]
        given += ["ptr %error"] if self.checked else []
        self._put(f"{target} = call {_name(value.type)} @f.{function.name}({', '.join(given)})")
        if self.checked:
            self._put(f"{target}.code = load i64, ptr %error")
            self._put(f"{target}.fine = icmp eq i64 {target}.code, 0")
            self._leave_unless(f"{target}.fine")

    # ---- checks --------------------------------------------------------------------------------------------

    def _next(self) -> int:
        self.parts += 1
        return self.parts

    def _new_label(self) -> str:
        return f'"part.{self._next()}"'

    def _leave_unless(self, holds: str, failure: tuple[int, int, str] | None = None) -> None:
        """Return at once if a condition does not hold, with the error words of a failure that is new."""
        failed, fine = self._new_label(), self._new_label()
        self._put(f"br i1 {holds}, label %{fine}, label %{failed}")
        self.lines.append(f"{failed}:")
        self._leave(failure)
        self.lines.append(f"{fine}:")

    def _leave(self, failure: tuple[int, int, str] | None) -> None:
        if failure is not None:
            check, place, culprit = failure
            for at, word in enumerate((check, self.f.program.functions.index(self.f), place, culprit)):
                slot = f"%e{self._next()}"
                self._put(f"{slot} = getelementptr i64, ptr %error, i64 {at}")
                self._put(f"store i64 {word}, ptr {slot}")
        self._put(f"ret {_name(self.f.result)} {'0.0' if self.f.result.is_float else '0'}")

    def _check_operands(self, value: Value) -> None:
        """Divisors that are not zero (nor -1 for the least number), shifts by less than the width."""
        first, second = value.args
        type_, name, at = second.type, _name(second.type), f"%c{self._next()}"
        if value.op in ("shl", "shr"):
            self._put(f"{at} = icmp ult {name} {self._use(second)}, {type_.bits}")
            self._leave_unless(at, (SHIFT, value.number, "0"))
            return
        self._put(f"{at} = icmp ne {name} {self._use(second)}, 0")
        self._leave_unless(at, (DIVISOR, value.number, "0"))
        if type_.is_signed:
            self._put(f"{at}.one = icmp ne {name} {self._use(second)}, -1")
            self._put(f"{at}.least = icmp ne {name} {self._use(first)}, {type_.bounds[0]}")
            self._put(f"{at}.fits = or i1 {at}.one, {at}.least")
            self._leave_unless(f"{at}.fits", (DIVISOR, value.number, "-1"))

    def _check_range(self, value: Value) -> None:
        """Floats that fit into a whole number once they are cut."""
        (operand,) = value.args
        name, at = _name(operand.type), f"%c{self._next()}"
        least, most = value.type.bounds
        below = self.f.constant(float(least), operand.type)
        above = self.f.constant(float(most + 1), operand.type)
        self._put(f"{at}.whole = {self._intrinsic(name, f'trunc.f{operand.type.bits}', (operand,))}")
        self._put(f"{at}.low = fcmp oge {name} {at}.whole, {_constant(below)}")
        self._put(f"{at}.high = fcmp olt {name} {at}.whole, {_constant(above)}")
        self._put(f"{at} = and i1 {at}.low, {at}.high")
        self._leave_unless(at, (RANGE, value.number, "0"))


def _comparison(op: str, type_: Type) -> str:
    if type_.is_float:
        return f"fcmp {'une' if op == 'ne' else 'o' + op}"
    return f"icmp {op if op in ('eq', 'ne') else ('s' if type_.is_signed else 'u') + op}"


def _conversion(source: Type, result: Type) -> str:
    if source.is_float and result.is_float:
        return "fpext" if result.bits > source.bits else "fptrunc"
    if source.is_float:
        return "fptosi" if result.is_signed else "fptoui"
    if result.is_float:
        return "sitofp" if source.is_signed else "uitofp"
    if result.bits < source.bits:
        return "trunc"
    return "sext" if source.is_signed else "zext"
