"""Batch: the input is packed into envelopes, shuffled by shard and matched; lazily, as Spark works."""
