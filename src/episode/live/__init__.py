"""Live tasks: a third runtime of the matchers, for answers in milliseconds. What a task does, without Spark."""
