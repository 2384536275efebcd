"""Compiled loops over NumPy arrays. Nothing here knows of queries, Arrow or Spark."""

from pathlib import Path

from episode.kernels import cache_place

cache_place.choose(Path(__file__).parent)  # before the first kernel is loaded
