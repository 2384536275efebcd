"""Row patterns: from syntax trees to plans."""
