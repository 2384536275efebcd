"""Machine code for queries: a small typed IR, a builder, and LLVM."""
