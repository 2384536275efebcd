"""The session of the Spark tests, for tests in a browser."""

from __future__ import annotations

from tests.spark.conftest import spark

__all__ = ["spark"]
