"""Headroom under kube-scheduler itself: an empty node that stays, takes a pod at once, and is made up."""

from __future__ import annotations

import time

from e2e.cluster import labels
from e2e.placement import bound_to
from e2e.scenario import Scenario
from e2e.workloads import deployment

HEADROOM = "karpenter.sh/headroom"
EMPTY_SECONDS = 2
"""A node is removed when it was empty for so long, if nobody is expected on it."""
STAYS_SECONDS = 15.0
"""Headroom is looked after every ten seconds."""


def test_headroom_is_kept_free_takes_a_pod_at_once_and_is_made_up(world: Scenario) -> None:
    cluster, owner = world.cluster, world.namespace
    world.provisioner(ttlSecondsAfterEmpty=EMPTY_SECONDS)
    cluster.kubectl("annotate", "provisioner", owner, f'{HEADROOM}=[{{"cpu": "1500m", "count": 1}}]')
    cluster.until(lambda: _up(world), "a node for nobody")
    (room,) = _up(world)
    since = time.monotonic()
    cluster.until(lambda: time.monotonic() - since > STAYS_SECONDS, "well past the time for empty nodes")
    assert _up(world) == [room]
    launched = len(cluster.instances())
    world.deploy(deployment("web", 1))
    (pod,) = world.running("web", 1)
    assert bound_to(pod) == room, "kube-scheduler had a place for it, and it waited for no node"
    cluster.until(lambda: len(_up(world)) == 2, "the room is made up")
    assert len(cluster.instances()) == launched + 1
    cluster.kubectl("annotate", "provisioner", owner, f"{HEADROOM}-")
    cluster.until(lambda: _up(world) == [room], "nobody asks for it any more: the empty node goes")


def _up(world: Scenario) -> list[str]:
    """Names of the scenario's nodes that are initialized and stay."""
    nodes = world.cluster.nodes(world.namespace)
    stay = [each for each in nodes if "deletionTimestamp" not in each["metadata"]]
    return [each["metadata"]["name"] for each in stay if labels(each).get("karpenter.sh/initialized") == "true"]
