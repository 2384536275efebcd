"""A stream in one file: a generator writes files of sensor readings, a query follows them and reports overheating.

Run it: python examples/stream.py
"""

import tempfile
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path

import episode
from episode import Options, StreamOptions
from episode.spark.startup.session import session

OVERHEATING = """
SELECT * FROM readings MATCH_RECOGNIZE (
  PARTITION BY sensor ORDER BY ts
  MEASURES FIRST(RISE.ts) AS since, count(RISE.*) AS readings, LAST(RISE.degrees) AS degrees
  PATTERN (RISE{3,} COOL) WITHIN 10 minutes
  DEFINE
    RISE AS degrees > 80 AND (PREV(degrees) IS NULL OR degrees >= PREV(degrees)),
    COOL AS degrees < PREV(degrees))
"""
BEGIN = datetime(2026, 1, 1)
DEGREES = {"north": [70, 81, 85, 90, 78, 70, 70, 70], "south": [60, 82, 84, 70, 81, 86, 88, 75]}


def generate(place: Path) -> None:
    """One file a minute (of event time), and one much later, so that the watermark passes all of them."""
    for minute in range(len(DEGREES["north"])):
        rows = [f"{sensor},{BEGIN + timedelta(minutes=minute)},{DEGREES[sensor][minute]}" for sensor in DEGREES]
        _write(place, minute, rows)
        time.sleep(0.3)
    _write(place, 99, [f"north,{BEGIN + timedelta(days=1)},0"])


def _write(place: Path, number: int, rows: list[str]) -> None:
    hidden = place / f"_{number:03}"
    hidden.write_text("\n".join(rows) + "\n")
    hidden.rename(place / f"{number:03}.csv")


def main() -> None:
    spark = session()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory) / "in"
        place.mkdir()
        generator = threading.Thread(target=generate, args=(place,))
        generator.start()
        readings = spark.readStream.schema("sensor string, ts timestamp, degrees int").csv(str(place))
        found = episode.sql(
            OVERHEATING,
            readings=readings,
            options=Options(watermark="30 seconds", stream=StreamOptions(end="2026-01-01 12:00:00")),
        )
        query = (
            found.writeStream.format("parquet")
            .option("path", f"{directory}/out")
            .option("checkpointLocation", f"{directory}/state")
            .start()
        )
        generator.join()
        query.processAllAvailable()
        query.stop()
        spark.read.parquet(f"{directory}/out").orderBy("since").show()


if __name__ == "__main__":
    main()
