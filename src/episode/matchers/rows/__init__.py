"""The Matcher of row patterns."""
