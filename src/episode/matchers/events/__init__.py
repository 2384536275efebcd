"""The Matcher of event patterns."""
