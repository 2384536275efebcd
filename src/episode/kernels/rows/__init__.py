"""Compiled loops of row patterns."""
