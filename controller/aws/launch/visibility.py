"""Wait until EC2 shows what was launched: it is eventually consistent, and a node needs its instance's DNS name."""

from __future__ import annotations

import threading
from collections.abc import Callable

from controller.aws.launch.instances import STAYING_STATES
from controller.core.cloud import CloudInstance
from controller.errors import CloudError
from controller.runtime.clock import Clock

VISIBLE_DEADLINE_SECONDS = 20.0
"""How long Describe may not know a new instance (EC2: "eventual consistency", usually under a second)."""

FIRST_WAIT_SECONDS = 0.25
MAX_WAIT_SECONDS = 4.0


def wait_until_visible(
    describe: Callable[[], CloudInstance | None], clock: Clock, stop: threading.Event
) -> CloudInstance | None:
    """Describe an instance until it has its node's name or is gone; what EC2 shows at the deadline otherwise.

    Raises CloudErrors, among them one when `stop` is set, as the process ends.
    """
    waited, wait = 0.0, FIRST_WAIT_SECONDS
    while True:
        instance = describe()
        ready = instance is not None and (instance.node_name or instance.state not in STAYING_STATES)
        if ready or waited >= VISIBLE_DEADLINE_SECONDS:
            return instance
        if clock.wait(stop, wait):
            raise CloudError("The controller stops while it waits for EC2 to show an instance; its successor adopts it")
        waited, wait = waited + wait, min(wait * 2, MAX_WAIT_SECONDS)


def named(instance: CloudInstance) -> CloudInstance:
    """Return the instance if its node's name is known: no Node can be created without. Raises CloudError otherwise."""
    if not instance.node_name:
        raise CloudError(
            f"Instance {instance.id} has no private DNS name after {VISIBLE_DEADLINE_SECONDS:.0f} s; it is looked at "
            "again (does its subnet's VPC have DNS host names enabled?)"
        )
    return instance
