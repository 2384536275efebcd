"""What the log of a Delta table says of its files, and where Iceberg says that files are."""

from __future__ import annotations

import pytest

from episode.spark.classic import Refused
from episode.spark.scan.lakehouse import local_path, reason_of_log, whole

PLAIN = {"minReaderVersion": 1, "minWriterVersion": 2}


@pytest.mark.parametrize(
    ("protocol", "metadata", "file", "reason"),
    [
        (PLAIN, {}, {}, None),
        ({"minReaderVersion": 3, "readerFeatures": ["deletionVectors", "timestampNtz"]}, {}, {}, None),
        ({"minReaderVersion": 3, "readerFeatures": ["typeWidening"]}, {}, {}, "the feature typeWidening"),
        ({"minReaderVersion": 4}, {}, {}, "a newer protocol"),
        (PLAIN, {"configuration": {"delta.columnMapping.mode": "name"}}, {}, "column mapping"),
        (PLAIN, {"configuration": {"delta.columnMapping.mode": "none"}}, {}, None),
        (PLAIN, {}, {"deletionVector": {"storageType": "u"}}, "deletion vectors"),
    ],
)
def test_tables_whose_files_are_not_their_rows(protocol: dict, metadata: dict, file: dict, reason: str | None) -> None:
    found = reason_of_log(protocol, metadata, [{"path": "a.parquet"}, {"path": "b.parquet", **file}])
    assert found is None if reason is None else found is not None and reason in found


def test_locations() -> None:
    """They are not encoded."""
    for location in ("/a b/50%20.parquet", "file:/a b/50%20.parquet", "file:///a b/50%20.parquet"):
        assert local_path(location, True) == "/a b/50%20.parquet"
    for location, local in (("/a.parquet", False), ("s3://bucket/a.parquet", True)):
        with pytest.raises(Refused, match="not local"):
            local_path(location, local)


def test_whole_files() -> None:
    assert whole([(0, 90)], 90)
    assert whole([(50, 90), (4, 50)], 90)
    assert not whole([(4, 50)], 90)
    assert not whole([(50, 90)], 90)
    assert not whole([(4, 50), (60, 90)], 90)
    assert not whole([(4, 50), (4, 50), (50, 90)], 90)
