"""Nodes that go while something holds them: budgets, StatefulSets, Jobs, a namespace that ends in the middle."""

from __future__ import annotations

from e2e.cluster import condition
from e2e.placement import bound_to
from e2e.scenario import Scenario
from e2e.workloads import budget, deployment, job, stateful_set
from sandbox.world.resources import EVENTS, JOBS, NAMESPACES, NODES, Obj


def test_a_budget_blocks_a_drain_and_lets_go(world: Scenario) -> None:
    """The node waits, cordoned, and says for which budget; when the budget allows, the pod goes to a new node."""
    cluster = world.cluster
    world.provisioner()
    world.deploy(deployment("web", 1), budget("web", minAvailable=1))
    (pod,) = world.running("web", 1)
    home = bound_to(pod)
    cluster.kubectl("delete", "node", home, "--wait=false")
    told = "The disruption budget web needs 1 healthy pods and has 1 currently"
    cluster.until(lambda: told in _events(world, "FailedDraining"), "the node says what it waits for")
    held = cluster.get(NODES, home)
    assert held is not None
    assert held["spec"]["unschedulable"]
    assert [each["metadata"]["uid"] for each in cluster.pods(world.namespace)] == [pod["metadata"]["uid"]]
    world.deploy(budget("web", minAvailable=0))
    cluster.until(lambda: cluster.has_left(held), "the node goes")
    (again,) = world.running("web", 1)
    assert again["metadata"]["uid"] != pod["metadata"]["uid"]


def test_consolidation_moves_stateful_sets_and_jobs(world: Scenario) -> None:
    """Cheaper nodes take what is left; identities stay, and a Job's pod that may not be evicted keeps its node."""
    cluster = world.cluster
    world.provisioner(consolidation={"enabled": True})
    kept = job("kept", cpu="1500m", container={"command": ["sleep", "600"]})
    kept["spec"]["template"]["metadata"]["annotations"] = {"karpenter.sh/do-not-evict": "true"}
    moved = job("moved", container={"command": ["sleep", "600"]})
    world.deploy(kept)
    (keeper,) = world.running("kept", 1)
    world.deploy(stateful_set("db", 2), moved, deployment("filler", 9))
    before = world.running("db", 2)
    for app, replicas in (("moved", 1), ("filler", 9)):
        world.running(app, replicas)
    dear = _price(world)
    world.scale("deployment/filler", 0)
    cluster.until(lambda: 0 < _price(world) < 0.7 * dear, "consolidation has made it cheaper", 150)
    cluster.until(lambda: _settled(world), "every pod runs again and no node is on its way out")
    after = world.running("db", 2)
    assert {pod["metadata"]["name"] for pod in after} == {pod["metadata"]["name"] for pod in before} == {"db-0", "db-1"}
    (still,) = world.running("kept", 1)
    assert still["metadata"]["uid"] == keeper["metadata"]["uid"]
    assert bound_to(still) == bound_to(keeper)
    world.running("moved", 1)
    moved_job = cluster.get(JOBS, "moved", world.namespace)
    assert moved_job is not None
    assert condition(moved_job, "Failed") != "True"


def test_a_namespace_ends_while_its_nodes_come(world: Scenario) -> None:
    """The launched nodes stand empty and go; none is launched for pods that end with their namespace."""
    cluster = world.cluster
    world.provisioner(ttlSecondsAfterEmpty=1)
    world.deploy(deployment("web", 4))
    cluster.until(lambda: cluster.nodes(world.namespace), "a node is on its way")
    launched = {each["instanceId"] for each in cluster.environment.instances()}
    cluster.kubectl("delete", "namespace", world.namespace, "--wait=false")
    cluster.until(lambda: cluster.get(NAMESPACES, world.namespace) is None, "the namespace is gone")
    cluster.until(lambda: not cluster.nodes(world.namespace), "its nodes are gone")
    assert {each["instanceId"] for each in cluster.environment.instances()} == launched


def test_a_node_drains_while_a_namespace_ends(world: Scenario) -> None:
    """The API server forbids evictions there: no error, for the pods go all the same; and no node takes them in."""
    cluster = world.cluster
    world.provisioner()
    world.deploy(deployment("web", 2))
    homes = {bound_to(pod) for pod in world.running("web", 2)}
    launched = {each["instanceId"] for each in cluster.environment.instances()}
    logged = cluster.replicas.mark()
    cluster.kubectl("delete", "namespace", world.namespace, "--wait=false")
    cluster.kubectl("delete", "node", *homes, "--wait=false")
    cluster.until(lambda: not cluster.nodes(world.namespace), "the nodes go")
    cluster.until(lambda: cluster.get(NAMESPACES, world.namespace) is None, "the namespace is gone")
    troubles = [line for line in cluster.replicas.lines(logged) if line.get("level") in ("ERROR", "WARNING")]
    assert not troubles
    assert not _events(world, "FailedDraining")
    assert {each["instanceId"] for each in cluster.environment.instances()} == launched


def _events(world: Scenario, reason: str) -> str:
    """The messages of all events of a reason that name the scenario's namespace."""
    messages = [each["message"] for each in world.cluster.all(EVENTS) if each["reason"] == reason]
    return "\n".join(message for message in messages if f"{world.namespace}/" in message)


def _price(world: Scenario) -> float:
    """$/hour of all that runs in EC2."""
    return sum(float(each["pricePerHour"]) for each in world.cluster.instances())


def _settled(world: Scenario) -> bool:
    nodes: list[Obj] = world.cluster.nodes()
    pods = world.cluster.pods(world.namespace)
    leaving = [node for node in nodes if node["metadata"].get("deletionTimestamp") or node["spec"].get("unschedulable")]
    return not leaving and all(condition(pod, "Ready") == "True" for pod in pods)
