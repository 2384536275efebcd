"""`episode studio`: a page on this machine for writing patterns, running them, and looking at what they find."""
