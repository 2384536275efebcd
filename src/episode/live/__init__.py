"""Live tasks: a third runtime of the matchers, for answers in milliseconds. Nothing here needs Spark."""
