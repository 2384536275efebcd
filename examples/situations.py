"""Situation patterns in one file: aggressive drivers among cars, over a table and over a stream of the same events.

The query is that of the TPStream paper (Körber, Glombiewski, Seeger, EDBT 2018, listing 1), as printed there.

Run it: python examples/situations.py
"""

import os
import random
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import episode
from episode import Options
from episode.spark.startup.session import session

AGGRESSIVE = """
FROM   CarSensors CS PARTITION BY CS.car_id
DEFINE A AS CS.accel > 8m/s2 at least 5s,
       B AS CS.speed > 70 mph between 4s AND 30s,
       C AS CS.accel < -9m/s2 at least 3s
PATTERN A meets B; A overlaps B; A starts B; A during B
        AND C during B; B finishes C; B overlaps C; B meets C
        AND A before C
WITHIN 5 MINUTES
RETURN first(B.car_id) AS id,
        avg(B.speed) AS avg_speed;
"""
COLUMNS = "car_id int, ts timestamp, speed int, accel double"
BEGIN = datetime(2026, 1, 1)
CARS, SECONDS, FILES, SEED = 6, 300, 5, 4

Reading = tuple[int, datetime, int, float]


def readings() -> list[Reading]:
    """(car_id, ts, speed, accel) once a second; the same drives every time. Two of the drivers are in a hurry."""
    chance = random.Random(SEED)
    drives = [drive(car, car % 3 == 0, chance) for car in range(1, CARS + 1)]
    return sorted((row for rows in drives for row in rows), key=lambda row: (row[1], row[0]))


def drive(car: int, hurried: bool, chance: random.Random) -> list[Reading]:
    rows: list[Reading] = []
    speed = 30.0
    while len(rows) < SECONDS:
        if hurried and speed < 50 and chance.random() < 0.2:
            phases = [(8.5, 6), (0.0, chance.randint(3, 20)), (-9.5, chance.randint(3, 5))]
        else:
            phases = [(chance.choice([-4.0, 0.0, 0.0, 3.0]), chance.randint(3, 9))]
        for accel, seconds in phases:
            for _ in range(seconds):
                rows.append((car, BEGIN + timedelta(seconds=len(rows)), round(speed), accel))
                speed = min(120.0, max(10.0, speed + 2.237 * accel))
    return rows[:SECONDS]


def follow(spark: SparkSession, rows: list[Reading], directory: Path) -> DataFrame:
    """The same rows as a stream of files, the last one of a day later: the watermark passes all others."""
    place = directory / "in"
    place.mkdir()
    size = len(rows) // FILES
    parts = [rows[at : at + size] for at in range(0, len(rows), size)]
    for number, part in enumerate([*parts, [(0, BEGIN + timedelta(days=1), 0, 0.0)]]):
        lines = [f"{car},{ts},{speed},{accel}" for car, ts, speed, accel in part]
        file = place / f"{number:03}.csv"
        file.write_text("\n".join(lines) + "\n")
        os.utime(file, (number + 1, number + 1))  # Spark takes files in the order of their times
    live = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).csv(str(place))
    found = episode.sql(AGGRESSIVE, CarSensors=live, options=Options(watermark="10 seconds"))
    query = (
        found.writeStream.format("parquet")
        .option("path", f"{directory}/out")
        .option("checkpointLocation", f"{directory}/state")
        .start()
    )
    query.processAllAvailable()
    query.stop()
    return spark.read.parquet(f"{directory}/out")


def main() -> None:
    spark = session()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    rows = readings()
    batch = episode.sql(AGGRESSIVE, CarSensors=spark.createDataFrame(rows, COLUMNS))
    batch.orderBy("match_start", "id", "detected_at").show(50, truncate=False)
    with tempfile.TemporaryDirectory() as directory:
        stream = follow(spark, rows, Path(directory))
        stream.orderBy("match_start", "id", "detected_at").show(50, truncate=False)
        print("The stream found the same:", sorted(stream.collect()) == sorted(batch.collect()))


if __name__ == "__main__":
    main()
