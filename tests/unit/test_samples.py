"""The sample data: reproducible, ordered, and with the shapes in it that it says it has."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from episode import samples


@pytest.fixture(scope="module")
def ticks() -> samples.Sample:
    return samples.stock_ticks(3, symbols=("AAA", "BBB", "CCC"), ticks=5_000)


@pytest.fixture(scope="module")
def clicks() -> samples.Sample:
    return samples.web_clicks(3, users=200)


def of_key(sample: samples.Sample, key_column: str, key: object) -> dict[str, np.ndarray]:
    """The columns of one key's rows, in time order."""
    mask = sample.table[key_column].to_numpy() == key
    return {name: sample.table[name].to_numpy()[mask] for name in sample.table.column_names}


def planted(sample: samples.Sample, *shapes: str) -> list[tuple[str, np.datetime64, np.datetime64]]:
    columns = [sample.planted[name].to_numpy() for name in ("shape", "key", "first_ts", "last_ts")]
    return [(key, first, last) for shape, key, first, last in zip(*columns) if shape in shapes]


def test_the_same_seed_gives_the_same_data(ticks: samples.Sample, clicks: samples.Sample) -> None:
    assert ticks.table.equals(samples.stock_ticks(3, symbols=("AAA", "BBB", "CCC"), ticks=5_000).table)
    assert clicks.table.equals(samples.web_clicks(3, users=200).table)
    assert not clicks.table.equals(samples.web_clicks(4, users=200).table)


def test_ticks_are_in_time_order_with_positive_prices_in_cents(ticks: samples.Sample) -> None:
    assert ticks.table.schema.equals(samples.TICKS)
    assert ticks.table.num_rows == 15_000
    assert np.all(np.diff(ticks.table["ts"].to_numpy()) >= np.timedelta64(0))
    price = ticks.table["price"].to_numpy()
    assert price.min() > 0
    assert np.array_equal(price, np.round(price, 2))
    for symbol in ("AAA", "BBB", "CCC"):
        times = of_key(ticks, "symbol", symbol)["ts"]
        assert len(np.unique(times)) == len(times) == 5_000


@pytest.mark.parametrize(("shape", "signs"), [("fall", [-1]), ("tick", [-1, 1]), ("v", [-1, 1]), ("w", [-1, 1, -1, 1])])
def test_planted_shapes_are_in_the_ticks(ticks: samples.Sample, shape: str, signs: list[int]) -> None:
    places = planted(ticks, shape)
    assert len(places) == ticks.count(shape) > 0
    for symbol, first, last in places:
        rows = of_key(ticks, "symbol", symbol)
        start, end = np.searchsorted(rows["ts"], [first, last])
        moves = np.sign(np.diff(np.round(rows["price"] * 100)))
        inside = moves[start:end]
        turns = inside[np.concatenate([[True], np.diff(inside) != 0])]
        assert turns.tolist() == signs
        assert moves[start - 1] == 0
        assert moves[end] == 0
        if shape == "tick":
            assert rows["price"][end] > rows["price"][start]


def test_only_planted_legs_are_long(ticks: samples.Sample) -> None:
    """Eight falls and then eight rises in a row are planted; this is what the demo's V query counts."""
    found = 0
    for symbol in ("AAA", "BBB", "CCC"):
        moves = np.sign(np.diff(np.round(of_key(ticks, "symbol", symbol)["price"] * 100)))
        starts = np.flatnonzero(np.concatenate([[True], np.diff(moves) != 0]))
        lengths = np.diff(np.concatenate([starts, [len(moves)]]))
        signs = moves[starts]
        found += np.count_nonzero((signs[:-1] < 0) & (signs[1:] > 0) & (lengths[:-1] >= 8) & (lengths[1:] >= 8))
    assert found == ticks.count("v") + 2 * ticks.count("w")


def test_clicks_are_in_time_order_and_name_their_page(clicks: samples.Sample) -> None:
    assert clicks.table.schema.equals(samples.CLICKS)
    assert np.all(np.diff(clicks.table["ts"].to_numpy()) >= np.timedelta64(0))
    for action, url in zip(clicks.table["action"].to_pylist()[:200], clicks.table["url"].to_pylist()[:200]):
        assert url.startswith(f"/{action}")


def test_sessions_lie_half_an_hour_apart(clicks: samples.Sample) -> None:
    limit = np.timedelta64(int(samples.SESSION_GAP), "s")
    found = set()
    for user in range(1, 201):
        times = of_key(clicks, "user_id", user)["ts"]
        new = np.concatenate([[True], np.diff(times) > limit])
        firsts, lasts = times[new], times[np.concatenate([new[1:], [True]])]
        found |= {(str(user), first, last) for first, last in zip(firsts, lasts)}
    assert found == set(planted(clicks, "session"))


def test_funnels_are_as_fast_or_slow_as_planted(clicks: samples.Sample) -> None:
    limit = np.timedelta64(int(samples.FUNNEL_LIMIT), "s")
    assert clicks.count("purchase") > 0
    for shape, done, fast in [("purchase", True, True), ("slow", True, False), ("abandoned", False, None)]:
        for user, first, last in planted(clicks, shape):
            rows = of_key(clicks, "user_id", int(user))
            inside = (rows["ts"] >= first) & (rows["ts"] <= last)
            steps = [action for action in rows["action"][inside] if action in samples.FUNNEL[1:]]
            assert steps == list(samples.FUNNEL[1:] if done else samples.FUNNEL[1:3])
            assert rows["action"][inside][0] == "view"
            if fast is not None:
                assert (last - first <= limit) == fast
    actions = clicks.table["action"].to_numpy()
    assert np.count_nonzero(actions == "purchase") == clicks.count("purchase") + clicks.count("slow")


def test_write_leaves_three_parquet_files(tmp_path) -> None:
    files = samples.write(tmp_path / "data")
    assert pq.read_table(files.ticks_path).equals(files.ticks.table)
    assert pq.read_table(files.clicks_path).num_rows == files.clicks.table.num_rows > 100_000
    assert pq.read_table(tmp_path / "data" / "planted.parquet").num_rows == len(files.ticks.planted) + len(
        files.clicks.planted
    )
