"""Tables of the command line as episode takes them: paths, files and topics as DataFrames, followed as streams."""

from __future__ import annotations

from typing import Any

from episode import cli_inputs


def opened(paths: dict[str, str]) -> dict[str, Any]:
    """Tables as they are now: files by their paths, topics as DataFrames."""
    return {
        name: _topic(path, follow=False) if path.startswith(cli_inputs.KAFKA) else path for name, path in paths.items()
    }


def followed(paths: dict[str, str]) -> dict[str, Any]:
    """Tables as streams."""
    from episode.spark import sources
    from episode.spark.session import session

    spark = session(None)
    sources.fit_for_streams(spark)
    return {
        name: _topic(path, follow=True)
        if path.startswith(cli_inputs.KAFKA)
        else sources.followed_files(spark, path, cli_inputs.kind_of_directory(path))
        for name, path in paths.items()
    }


def _topic(url: str, *, follow: bool) -> Any:
    from episode.spark import sources
    from episode.spark.session import session

    topic = cli_inputs.read_topic(url)
    return sources.topic(session(None), topic.servers, topic.name, topic.schema, topic.options, follow=follow)
