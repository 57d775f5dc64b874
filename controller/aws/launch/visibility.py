"""Waiting until EC2 shows what was launched: it is eventually consistent, and a node needs its instance's DNS name."""

from __future__ import annotations

import threading
from collections.abc import Callable

from controller.aws.launch.instances import STAYING_STATES, Instances
from controller.core.cloud import CloudInstance
from controller.errors import CloudError
from controller.runtime.clock import Clock

SEEN_DEADLINE_SECONDS = 20.0
"""How long Describe may not know a new instance (EC2: "eventual consistency", usually under a second)."""

FIRST_WAIT_SECONDS = 0.25
MAX_WAIT_SECONDS = 4.0


class Sight:
    """Looks again and again, with longer and longer pauses. Safe for many threads."""

    def __init__(self, instances: Instances, clock: Clock, stop: threading.Event) -> None:
        """`stop` ends every wait with a CloudError: the process is to end."""
        self._instances = instances
        self._clock = clock
        self._stop = stop

    def instance(self, instance_id: str) -> CloudInstance | None:
        """The instance once EC2 shows it with its node's name (or gone); what EC2 shows at the deadline otherwise.

        Raises CloudErrors.
        """
        return self._wait_for(lambda: self._instances.find(instance_id))

    def of_token(self, token: str) -> CloudInstance | None:
        """The same for the instance that was launched for a token. Raises CloudErrors."""
        return self._wait_for(lambda: self._instances.by_token(token))

    def _wait_for(self, look: Callable[[], CloudInstance | None]) -> CloudInstance | None:
        waited, wait = 0.0, FIRST_WAIT_SECONDS
        while True:
            found = look()
            if found is not None and (found.node_name or found.state not in STAYING_STATES):
                return found
            if waited >= SEEN_DEADLINE_SECONDS:
                return found
            if self._clock.wait(self._stop, wait):
                raise CloudError("The controller stops while EC2 is asked for a new instance; the next one finds it")
            waited, wait = waited + wait, min(wait * 2, MAX_WAIT_SECONDS)


def named(instance: CloudInstance) -> CloudInstance:
    """The instance, if its node's name is known: without it there is no Node to make, nor a second launch.

    Raises CloudError otherwise.
    """
    if not instance.node_name:
        raise CloudError(
            f"Instance {instance.id} has no private DNS name after {SEEN_DEADLINE_SECONDS:.0f} s; it is looked at "
            "again (does its subnet's VPC have DNS host names enabled?)"
        )
    return instance
