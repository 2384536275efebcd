"""The Matcher of pattern correlation."""
