"""Compiled loops over NumPy arrays. Nothing here knows of queries, Arrow or Spark."""
