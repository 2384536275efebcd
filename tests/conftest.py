"""Shared by all tests: how much hypothesis tries, and from which seed.

Profiles, picked by EPISODE_TEST_PROFILE: `ci` (the default) is the same on every run. So are those of the long run:
`full` has the same tests with more examples, `few` with fewer, `long` is for tests at full size. `explore` draws new
examples each time, to look for what the fixed ones miss.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture.providers import HypothesisProvider
from hypothesis.internal.constants_ast import Constants

from tests.support import plan_fuzzer

plan_fuzzer.install()

# Code that is compiled makes the first example slow, and data generation is slow by nature: neither is a fault.
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}

# Hypothesis mixes in constants of the modules that happen to be loaded: examples would depend on the tests before.
HypothesisProvider._local_constants = Constants()

settings.register_profile("ci", derandomize=True, max_examples=60, **COMMON)
settings.register_profile("few", derandomize=True, max_examples=15, **COMMON)
settings.register_profile("full", derandomize=True, max_examples=300, **COMMON)
settings.register_profile("long", derandomize=True, max_examples=2_000, **COMMON)
settings.register_profile("explore", max_examples=1_000, **COMMON)
settings.load_profile(os.environ.get("EPISODE_TEST_PROFILE", "ci"))
