"""Two replicas, one of which acts; whatever happens to it, the other goes on, and nothing is launched twice."""

from __future__ import annotations

from datetime import UTC, datetime

from e2e.cluster import LEASE, Cluster, condition
from e2e.scenario import Scenario
from e2e.workloads import deployment
from sandbox.environment import NAMESPACE
from sandbox.world.resources import LEASES, Obj

LEASE_SECONDS = 15
TAKEOVER_SECONDS = LEASE_SECONDS + 5
"""By when the standby acts: the lease runs out, and is looked at every 2 s."""


def test_the_leader_is_killed_in_the_middle_of_a_launch(world: Scenario) -> None:
    """SIGKILL after CreateFleet, before the nodes join: the standby finds what was launched, and adds none."""
    cluster = world.cluster
    world.provisioner()
    _both_stand(cluster)
    world.deploy(deployment("web", 4))
    cluster.until(cluster.instances, "an instance is launched")
    first = cluster.leader()
    logged = cluster.replicas.mark()
    cluster.replicas.take_away(first)
    try:
        cluster.until(lambda: _acts(cluster, logged, other_than=first), "the standby acts", TAKEOVER_SECONDS)
        world.running("web", 4)
        _nothing_twice(world)
    finally:
        cluster.replicas.bring_back(first)


def test_the_leader_is_killed_and_restarts_at_once(world: Scenario) -> None:
    """SIGKILL, and the kubelet starts it again within its lease: it goes on where it was, nothing is launched twice."""
    cluster = world.cluster
    world.provisioner()
    _both_stand(cluster)
    world.deploy(deployment("web", 4))
    cluster.until(cluster.instances, "an instance is launched")
    first = cluster.leader()
    cluster.replicas.by_name[first].child.kill()
    world.running("web", 4)
    _nothing_twice(world)
    assert cluster.replicas.by_name[first].exits[-1] == -9


def test_the_lease_is_lost(world: Scenario) -> None:
    """Another took the lease: the leader ends at once, and does no harm; when that one is silent, ours lead again."""
    cluster = world.cluster
    world.provisioner()
    _both_stand(cluster)
    first = cluster.leader()
    exits = len(cluster.replicas.by_name[first].exits)
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    stolen = {"holderIdentity": "somebody-else", "renewTime": now, "leaseDurationSeconds": LEASE_SECONDS}
    cluster.http.patch(LEASES.path(NAMESPACE, LEASE), {"spec": stolen}).ok()
    cluster.until(lambda: len(cluster.replicas.by_name[first].exits) > exits, "the leader ends", 15)
    assert cluster.replicas.by_name[first].exits[-1] == 1
    world.deploy(deployment("web", 2))  # before it has noticed, it would rightly launch for them
    marked = "kube-scheduler has tried both pods"
    cluster.until(lambda: sum(map(_unschedulable, cluster.pods(world.namespace))) == 2, marked, LEASE_SECONDS)
    assert cluster.leader() == "somebody-else"
    assert not cluster.nodes(world.namespace), "nobody acts while somebody else has the lease"
    cluster.until(lambda: cluster.leader() in cluster.replicas.by_name, "a replica leads again", 2 * LEASE_SECONDS)
    world.running("web", 2)
    _nothing_twice(world)


def _unschedulable(pod: Obj) -> bool:
    return condition(pod, "PodScheduled") == "False"


def _both_stand(cluster: Cluster) -> None:
    """Wait until one leads and the other stands by."""
    cluster.until(lambda: cluster.leader() in cluster.replicas.by_name, "a replica leads")
    logs = [replica.child.log for replica in cluster.replicas.by_name.values()]
    cluster.until(lambda: all("Cluster state is synced" in log.read_text() for log in logs), "both have synced")


def _acts(cluster: Cluster, logged: dict[str, int], other_than: str) -> bool:
    lines = cluster.replicas.lines(logged)
    return any(line["message"] == "Acts" and line["replica"] != other_than for line in lines)


def _nothing_twice(world: Scenario) -> None:
    """As many instances as nodes, each with a node, and no more than the plans asked for."""
    cluster = world.cluster
    nodes = cluster.nodes()
    assert sorted(node["spec"]["providerID"].rsplit("/", 1)[1] for node in nodes) == sorted(
        each["instanceId"] for each in cluster.instances()
    )
    used = {pod["spec"]["nodeName"] for pod in cluster.pods(world.namespace)}
    assert used == {node["metadata"]["name"] for node in nodes}, "every node has pods: none was launched twice"
