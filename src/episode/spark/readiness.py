"""Kernels compiled where a query is planned, if that is where its workers are."""

from __future__ import annotations

from pyspark.sql import SparkSession

from episode.matchers.compiled import ensure_compiled, groups_of
from episode.matchers.protocol import MatcherSpec
from episode.spark import classic


def compile_here(spark: SparkSession, spec: MatcherSpec, *more: str) -> None:
    """Where the workers are on this machine, have the kernels of a query, and more groups, compiled before they all ask
    for them.

    On other machines the first worker that asks compiles, and the others there wait for it.
    """
    if classic.is_local(spark):
        ensure_compiled([*groups_of(spec), *more])
