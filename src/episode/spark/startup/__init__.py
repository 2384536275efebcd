"""Starting: the session that queries run in, and Python workers that have episode loaded."""
