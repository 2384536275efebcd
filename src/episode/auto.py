"""`import episode.auto`: `spark.sql` takes episode's statements in all sessions, existing ones and later ones."""

from __future__ import annotations

from episode.methods import install_everywhere

install_everywhere()
