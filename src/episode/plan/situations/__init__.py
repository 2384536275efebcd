"""Situation patterns: from syntax trees to plans, and their cost."""
