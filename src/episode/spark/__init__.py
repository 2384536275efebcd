"""Runtimes on Apache Spark: scans, envelopes, batch."""
