"""Numbers by which the search of row patterns and its callers understand each other: modes, skips, statuses, limits."""

from __future__ import annotations

PREFERRED, MAXIMAL, INCREMENTAL, ALL = range(4)
PAST_LAST_ROW, NEXT_ROW, FIRST_LABEL, LAST_LABEL = range(4)
FINE, BUDGET_SPENT, SKIP_TO_FIRST_ROW, SKIP_NOT_FOUND, OUTPUT_FULL, PATHS_FULL, STACK_FULL, MEMORY_NEEDED = range(8)
ALL_BUDGETS_SPENT, WAYS_FULL, TURNS_FULL, SIFTING_SLOW = 8, 9, 10, 11
NO_MEMORY, ATTEMPT_MEMORY, PARTITION_MEMORY = range(3)
NO_WINDOW = -1

MEMORY_AFTER = 256
"""Steps after which an attempt remembers the choices that failed."""
STEPS_PER_ROW = 64
BUDGETS = 20
"""All start rows of a feed together may take so many budgets, beyond the steps that the rows they reach account for."""
STEPS_PER_ROW_READ = 1024
"""Where nothing says how far a start row may look, a row accounts for so many steps of all start rows together, and not
for STEPS_PER_ROW of each start row that reaches it. Rows that a loop takes at once are an eighth of a step."""
LOOKS_AFTER = 8
"""Steps after which a start row is asked whether its window has the labels that every match has."""
SIFTED_PER_ROW, LEAST_SIFTED = 64, 1 << 20
"""At the end of input: start rows that look through more rows than that, for each row, are to be sifted all at once."""
