"""What every test shares: property tests have no deadline (no test is timed), and CI replays the same examples."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("heavy", deadline=None, max_examples=3000)
settings.load_profile("ci" if os.environ.get("CI") else "local")
