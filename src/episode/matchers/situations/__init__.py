"""The Matcher of situation patterns."""
