"""Machine code for queries: a small typed IR, a builder, LLVM, and an interpreter that checks every step."""
