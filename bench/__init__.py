"""Experiments: one command each (`make bench NAME=…`), each writing its table and plot to `bench/results`."""
