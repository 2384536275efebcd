"""Event patterns as machine code: one emitter for each feature of a query."""
