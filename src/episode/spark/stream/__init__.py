"""Micro-batches: events wait for the watermark, shards keep their state in Spark's state store."""
