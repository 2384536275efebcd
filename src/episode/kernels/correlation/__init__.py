"""Compiled loops of pattern correlation."""
