"""What tests share: patterns run in process, listings of the papers, streams."""
