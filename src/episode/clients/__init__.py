"""Statements with episode's clauses in the clients of Spark that know nothing of episode."""
