"""Rows of large keys on their way to slices of time."""
