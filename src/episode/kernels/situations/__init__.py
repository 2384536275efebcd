"""Compiled loops of situation patterns."""
