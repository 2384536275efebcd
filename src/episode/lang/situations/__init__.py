"""Situation patterns (TPStream): text to syntax trees."""
