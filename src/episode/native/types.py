"""Types of values and of the elements of arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Type:
    """kind: "bool", "int" (signed), "uint" or "float". Comparisons, divisions and shifts follow it."""

    name: str
    kind: str
    bits: int

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_signed(self) -> bool:
        return self.kind == "int"

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest whole number of the type."""
        if self.is_signed:
            return -(1 << self.bits - 1), (1 << self.bits - 1) - 1
        return 0, (1 << self.bits) - 1

    @property
    def dtype(self) -> np.dtype:
        """NumPy's type of an array of such elements."""
        return _DTYPES[self.name]

    def __repr__(self) -> str:
        return self.name


BOOL = Type("bool", "bool", 1)
U8 = Type("u8", "uint", 8)
I32 = Type("i32", "int", 32)
U32 = Type("u32", "uint", 32)
I64 = Type("i64", "int", 64)
U64 = Type("u64", "uint", 64)
I128 = Type("i128", "int", 128)
U128 = Type("u128", "uint", 128)
F32 = Type("f32", "float", 32)
F64 = Type("f64", "float", 64)

ELEMENTS = (U8, I32, U32, I64, U64, F32, F64)
"""Types that arrays can have."""

_DTYPES: dict[str, np.dtype] = {
    "u8": np.dtype(np.uint8), "i32": np.dtype(np.int32), "u32": np.dtype(np.uint32), "i64": np.dtype(np.int64),
    "u64": np.dtype(np.uint64), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64),
}  # fmt: skip
