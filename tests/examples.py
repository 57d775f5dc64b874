"""How many examples a property test tries: few in `make test`, many with `--hypothesis-profile=heavy`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

HEAVY = 3000


def examples(few: int) -> settings:
    """A property test's settings: `few` examples, always the same, unless the heavy profile asks for many.

    For tests whose every example is a cluster that is solved or replayed; no deadline, as no test is timed.
    """
    heavy = settings.get_current_profile_name() == "heavy"
    return settings(
        max_examples=HEAVY if heavy else few,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
