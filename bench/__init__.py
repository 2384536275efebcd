"""Experiments: one command each (`make bench-…`), each writing its table and plot to `bench/results`."""
