"""Sizes of clusters by a cost model of measured parts. It does not need Spark."""
