"""Plots matches in the sample data, as SVG: a row pattern, an event pattern, situations and a correlation.

Run it: python docs/images/plot_matches.py [directory]
"""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import episode
from episode.samples import machine_readings, stock_ticks, web_clicks
from episode.spark.startup.session import local_session

HERE = Path(__file__).parent / "plots"

HESITANT = """
    PATTERN SEQ(search s, view+ v[], ~help h, cart c, purchase p)
    WHERE skip-till-next-match
    WITHIN 30 minutes
"""
AIRED = """
    DEFINE hot AS temperature > 80 AT LEAST 1 minute, open AS door = 'open'
    PATTERN hot overlaps open; hot contains open
    WITHIN 1 hour
"""


def demo_query(name: str) -> str:
    """A query of `make demo`."""
    return files("episode.demo_queries").joinpath(f"{name}.sql").read_text(encoding="utf-8")


def main(directory: Path = HERE) -> None:
    spark = local_session("episode plots", {"spark.log.level": "ERROR", "spark.sql.session.timeZone": "UTC"}, cores=2)
    ticks, clicks, readings = stock_ticks().table, web_clicks().table, machine_readings().table
    results = {
        "rows": episode.sql(demo_query("w_shape"), spark=spark, ticks=ticks),
        "events": episode.match(clicks, HESITANT, time="ts", key="user_id", type_column="action", spark=spark),
        "situations": episode.match(readings, AIRED, time="ts", key="machine", spark=spark),
        "correlation": episode.sql(demo_query("recency"), spark=spark, ticks=ticks),
    }
    for name, result in results.items():
        chart = episode.plot(result, width=680)
        (directory / f"{name}.svg").write_text(chart.to_svg() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
