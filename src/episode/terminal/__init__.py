"""Output for people on the terminal: result tables, progress and errors."""
