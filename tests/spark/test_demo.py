"""The demo's queries find what was planted in the sample data."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from episode import demo, samples

pytestmark = pytest.mark.spark

Results = dict[str, pa.Table]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> samples.SampleFiles:
    return samples.write(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def results(data: samples.SampleFiles) -> Results:
    return {scene.name: demo.matches(scene, data) for scene in demo.SCENES}


def test_every_falling_tick_ends_a_fall(data: samples.SampleFiles, results: Results) -> None:
    found = results["price_fall"]
    table = data.ticks.table
    falling = 0
    for symbol in samples.SYMBOLS:
        price = table["price"].to_numpy()[table["symbol"].to_numpy() == symbol]
        falling += np.count_nonzero(np.diff(price) < 0)
    assert found.num_rows == falling
    assert found["falls"][0].as_py() >= 20


def test_tick_shapes_have_one_match_for_each_start(data: samples.SampleFiles, results: Results) -> None:
    found = results["tick_shape"].to_pandas()
    assert not found.duplicated(["symbol", "began"]).any()
    assert (found["low_price"] < found["init_price"]).all()
    assert (found["max_price"] > found["init_price"]).all()
    starts = set(zip(found["symbol"], found["began"].dt.tz_convert("UTC")))
    planted = data.ticks.planted.to_pandas()
    assert set(zip(*planted.loc[planted["shape"] == "tick", ["key", "first_ts"]].to_numpy().T)) <= starts


def test_falls_come_at_most_half_an_hour_after_the_tick_shapes_before_them(
    data: samples.SampleFiles, results: Results
) -> None:
    found = results["recency"].to_pandas()
    assert len(found) > 0
    assert (found["ended"] - found["began"]).dt.total_seconds().between(0, 1800, inclusive="right").all()
    shapes = results["tick_shape"].to_pandas()
    assert set(zip(found["symbol"], found["began"])) <= set(zip(shapes["symbol"], shapes["began"]))
    falls = results["price_fall"].to_pandas()
    falls = falls[falls["falls"] == 20]
    assert set(zip(found["symbol"], found["ended"])) <= set(zip(falls["symbol"], falls["fell_at"]))


def test_v_and_w_shapes_are_the_planted_ones(data: samples.SampleFiles, results: Results) -> None:
    planted = data.ticks.planted.to_pandas()
    for name, shapes, least in [("w_shape", ["w"], data.ticks.count("w")), ("v_shape", ["v"], data.ticks.count("v"))]:
        found = results[name].to_pandas()
        places = set(zip(found["symbol"], found["began"].dt.tz_convert("UTC"), found["ended"].dt.tz_convert("UTC")))
        wanted = planted.loc[planted["shape"].isin(shapes), ["key", "first_ts", "last_ts"]]
        assert set(wanted.itertuples(index=False, name=None)) <= places
        assert len(found) == least + (2 * data.ticks.count("w") if name == "v_shape" else 0)


def test_sessions_are_the_planted_ones(data: samples.SampleFiles, results: Results) -> None:
    found = results["sessions"]
    assert found.num_rows == data.clicks.count("session")
    assert found["clicks"].to_numpy().sum() == data.clicks.table.num_rows


def test_funnels_are_the_fast_purchases(data: samples.SampleFiles, results: Results) -> None:
    found = results["funnel"]
    assert found.num_rows == data.clicks.count("purchase")
    assert found["minutes"].to_numpy().max() <= 30


def test_the_demo_tells_its_story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, results: Results) -> None:
    monkeypatch.setattr(demo, "matches", lambda scene, data: results[scene.name])
    console = Console(width=100, record=True, file=StringIO())
    demo.run(console, tmp_path, tmp_path / "reports" / "demo.html")
    shown = console.export_text()
    for scene in demo.SCENES:
        assert scene.title in shown
        assert f"{results[scene.name].num_rows:,}" in shown
    assert "Seven queries" in shown
    assert str(tmp_path) in shown
    assert str(tmp_path / "reports" / "demo.html") in shown.replace("\n", "")
    assert f"found {results['v_shape'].num_rows:,} times" in (tmp_path / "reports" / "demo.html").read_text()
