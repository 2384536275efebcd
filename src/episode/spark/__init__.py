"""Runtimes on Apache Spark: direct scans, batch, micro-batches, stream stores, live tasks."""
