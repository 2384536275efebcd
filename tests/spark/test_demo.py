"""The demo's queries find what was planted in the sample data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from episode import demo, samples

pytestmark = pytest.mark.spark

SCENES = {scene.name: scene for scene in demo.SCENES}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> samples.SampleFiles:
    return samples.write(tmp_path_factory.mktemp("demo"))


def test_every_falling_tick_ends_a_fall(data: samples.SampleFiles) -> None:
    found = demo.matches(SCENES["price_fall"], data)
    table = data.ticks.table
    falling = 0
    for symbol in samples.SYMBOLS:
        price = table["price"].to_numpy()[table["symbol"].to_numpy() == symbol]
        falling += np.count_nonzero(np.diff(price) < 0)
    assert found.num_rows == falling
    assert found["falls"][0].as_py() >= 20


def test_tick_shapes_have_one_match_for_each_start(data: samples.SampleFiles) -> None:
    found = demo.matches(SCENES["tick_shape"], data).to_pandas()
    assert not found.duplicated(["symbol", "began"]).any()
    assert (found["low_price"] < found["init_price"]).all()
    assert (found["max_price"] > found["init_price"]).all()
    starts = set(zip(found["symbol"], found["began"].dt.tz_convert("UTC")))
    planted = data.ticks.planted.to_pandas()
    assert set(zip(*planted.loc[planted["shape"] == "tick", ["key", "first_ts"]].to_numpy().T)) <= starts


def test_v_and_w_shapes_are_the_planted_ones(data: samples.SampleFiles) -> None:
    planted = data.ticks.planted.to_pandas()
    for name, shapes, least in [("w_shape", ["w"], data.ticks.count("w")), ("v_shape", ["v"], data.ticks.count("v"))]:
        found = demo.matches(SCENES[name], data).to_pandas()
        places = set(zip(found["symbol"], found["began"].dt.tz_convert("UTC"), found["ended"].dt.tz_convert("UTC")))
        wanted = planted.loc[planted["shape"].isin(shapes), ["key", "first_ts", "last_ts"]]
        assert set(wanted.itertuples(index=False, name=None)) <= places
        assert len(found) == least + (2 * data.ticks.count("w") if name == "v_shape" else 0)


def test_sessions_are_the_planted_ones(data: samples.SampleFiles) -> None:
    found = demo.matches(SCENES["sessions"], data)
    assert found.num_rows == data.clicks.count("session")
    assert found["clicks"].to_numpy().sum() == data.clicks.table.num_rows


def test_funnels_are_the_fast_purchases(data: samples.SampleFiles) -> None:
    found = demo.matches(SCENES["funnel"], data)
    assert found.num_rows == data.clicks.count("purchase")
    assert found["minutes"].to_numpy().max() <= 30


def test_the_demo_tells_its_story(tmp_path: Path) -> None:
    console = Console(width=160, record=True, quiet=True)
    demo.run(console, tmp_path)
    shown = console.export_text()
    for scene in demo.SCENES:
        assert scene.title in shown
    assert "Six queries" in shown
