"""Why there is no match where one was expected: a module for each language."""
