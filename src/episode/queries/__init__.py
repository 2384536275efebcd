"""Queries beneath the public functions: from texts and tables to DataFrames."""
