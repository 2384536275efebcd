"""Emitters that all languages share: expressions, aggregates, measures, searches."""
