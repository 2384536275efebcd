"""What the log of a Delta table says of its files."""

from __future__ import annotations

import pytest

from episode.spark.snapshots import delta_paths, delta_reason

PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}


@pytest.mark.parametrize(
    ("protocol", "metadata", "reason"),
    [
        (PLAIN, {}, None),
        ({"minReaderVersion": 3, "readerFeatures": ["deletionVectors", "timestampNtz"]}, {}, None),
        ({"minReaderVersion": 3, "readerFeatures": ["typeWidening"]}, {}, "the feature typeWidening"),
        ({"minReaderVersion": 4}, {}, "a newer protocol"),
        (PLAIN, {"configuration": {"delta.columnMapping.mode": "name"}}, "column mapping"),
        (PLAIN, {"configuration": {"delta.columnMapping.mode": "none"}}, None),
        (PLAIN, {"partitionColumns": ["day"]}, "partitioned"),
    ],
)
def test_tables_whose_files_are_not_their_rows(protocol: dict, metadata: dict, reason: str | None) -> None:
    found = delta_reason(protocol, metadata)
    assert found is None if reason is None else found is not None and reason in found


def test_paths() -> None:
    """Relative to the table, or absolute (of a shallow clone); encoded."""
    listed = [{"path": "part%20one.parquet"}, {"path": "file:/other/two.parquet"}, {"path": "file:///z/3.parquet"}]
    assert delta_paths("file:/a%20table", listed) == ("/a table/part one.parquet", "/other/two.parquet", "/z/3.parquet")
    assert delta_paths("file:/t", [{"path": "s3a://bucket/x.parquet"}]) == "the table's files are not local (s3a:)"
    assert delta_paths("hdfs://host/t", [{"path": "x.parquet"}]) == "the table's files are not local (hdfs:)"
    deleted = delta_paths("file:/t", [{"path": "x.parquet", "deletionVector": {"storageType": "u"}}])
    assert deleted == "rows of the Delta table's files are deleted (deletion vectors)"
