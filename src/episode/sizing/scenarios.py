"""Costs of a query for the simulated cluster, from the cost model."""

from __future__ import annotations

from episode.sizing.constants import Constants
from episode.sizing.model import MATCH, NANO, ORDER, SHUFFLE, WRITE, Work, work_of
from episode.sizing.profile import QueryProfile
from episode.sizing.simulation import Costs
from episode.sizing.streams import STATE, live_work, micro_batch_work

OF_KEY = (ORDER, MATCH, WRITE, STATE)


def batch_costs(profile: QueryProfile, constants: Constants) -> Costs:
    return _costs(work_of(profile, constants), constants, constants["query"] + constants["commit"])


def micro_batch_costs(profile: QueryProfile, constants: Constants, slots: int) -> Costs:
    floor = constants["batch_floor"] + 2 * slots * constants["dispatch"]
    return _costs(micro_batch_work(profile, constants), constants, floor)


def live_costs(profile: QueryProfile, constants: Constants) -> Costs:
    each = live_work(profile, constants).total * constants["contention"] * NANO
    return Costs(0.0, each, base=constants["live_median"], restore=constants["restart"])


def _costs(work: Work, constants: Constants, fixed: float) -> Costs:
    """Half of the shuffle is read by the task of a key."""
    by_key = sum(work.parts.get(part, 0.0) for part in OF_KEY) + work.parts[SHUFFLE] / 2
    slower = constants["contention"] * NANO
    return Costs((work.total - by_key) * slower, by_key * slower, fixed, restore=constants["restart"])
