"""Queries behind the public functions: from texts and tables to DataFrames."""
