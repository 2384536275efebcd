"""Constants: complete, with units and where they come from; scaled to another machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from episode.errors import EpisodeError
from episode.sizing import measuring as calibrating
from episode.sizing.constants import OF_PROCESSOR, UNITS, Constants, load_constants
from tests.unit.sizing.fixed import constants, profile


def test_the_stored_ones_are_complete() -> None:
    found = load_constants()
    assert set(UNITS) | set(calibrating.PARTS) == set(found)
    for one in found.known.values():
        assert all((one.how, one.machine, one.date))
    assert found["busy_slot"] > 0
    assert found["contention"] >= 1


def test_they_are_read_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "constants.json"
    path.write_text(constants().to_json(), encoding="utf-8")
    assert load_constants(path) == constants()


def test_one_that_is_missing_is_an_error() -> None:
    known = dict(constants().known)
    del known["transport"]
    with pytest.raises(EpisodeError, match="lack transport in ns/byte"):
        Constants(known)


def test_scaling_changes_what_a_faster_core_does_sooner() -> None:
    scaled = constants().scaled_by(2.0, 1.5, "another", "2026-02-02")
    for name, one in constants().known.items():
        expected = one.value * 2 if one.unit in OF_PROCESSOR else one.value
        assert scaled[name] == (1.5 if name == "contention" else expected), name
    assert scaled.scaled == 2.0
    assert "times 2.00" in scaled.known["pack"].how


def test_calibrating_compares_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    here = {"reference_scan": 40.0, "reference_pack": 20.0, "reference_order": 30.0, "reference_match": 240.0}
    monkeypatch.setattr(calibrating, "reference", profile)
    monkeypatch.setattr(calibrating, "part_costs", lambda _: here)
    monkeypatch.setattr(calibrating, "contention", lambda: 1.3)
    scaled = calibrating.calibrate_constants(constants())
    assert scaled.scaled == pytest.approx((2 * 0.5 * 1 * 4) ** 0.25)
    assert scaled["contention"] == 1.3
