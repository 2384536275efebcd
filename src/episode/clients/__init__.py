"""Statements with episode's clauses from the clients of Spark: `spark.sql`, and those that know nothing of episode."""
