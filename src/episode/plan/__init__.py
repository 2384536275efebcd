"""Binding, typing and choosing: from syntax trees to physical plans."""
