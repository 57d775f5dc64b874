"""One scenario: a namespace and Provisioners of its own, and what must hold after it whatever it did.

After each one: no request of the controller was forbidden, none of its replicas logged a stack trace, every pod that a
plan named is bound (to the node of the plan, or a fact explains another), and EC2 has no instance without a Node.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.audit import never_granted
from e2e.cluster import PROVISIONER_NAME, PROVISIONERS, Cluster, labels
from e2e.placement import REFUSED, Placement, placements
from sandbox.world.resources import EVENTS, NAMESPACES, NODES, PODS, Obj

NAMESPACE_ENDS = "because it is being terminated"
"""A refusal that no role could prevent."""
STACKS_PROVISIONER = "default"
"""Of stacks/Pulumi.local.yaml; scenarios leave it."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a test works with."""

    cluster: Cluster
    namespace: str

    def provisioner(self, name: str = "", **spec: Any) -> None:
        """A Provisioner that is preferred to the stack's, on-demand unless `requirements` say otherwise."""
        body = {"providerRef": {"name": "default"}, "weight": 50, **spec}
        self.cluster.apply(provisioner(name or self.namespace, body))

    def deploy(self, *documents: Obj) -> None:
        """Apply objects into the scenario's namespace."""
        self.cluster.apply(*({**d, "metadata": {**d["metadata"], "namespace": self.namespace}} for d in documents))

    def scale(self, workload: str, replicas: int) -> None:
        """`kubectl scale`; `workload` as kind/name."""
        self.cluster.kubectl("scale", workload, "--replicas", str(replicas), "--namespace", self.namespace)

    def running(self, app: str, replicas: int) -> list[Obj]:
        """Wait until that many pods of an app run, and none waits."""
        return self.cluster.running(self.namespace, app, replicas)

    def placements(self) -> list[Placement]:
        """What became of every nomination."""
        cluster = self.cluster
        events = cluster.all(EVENTS, self.namespace)
        return placements(events, cluster.all(PODS, self.namespace), cluster.all(NODES))


def provisioner(name: str, spec: Obj) -> Obj:
    """The document."""
    return {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": name}, "spec": spec}


@contextmanager
def scenario(cluster: Cluster, name: str) -> Iterator[Scenario]:
    """Set up and, when the test has passed, judge; clean up in any case."""
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    asked, logged = cluster.audit.mark(), cluster.replicas.mark()
    try:
        found = Scenario(cluster, name)
        yield found
        _judge(found, asked, logged)
    finally:
        _clean(cluster, name)


def _judge(found: Scenario, asked: int, logged: dict[str, int]) -> None:
    cluster = found.cluster
    requests = cluster.audit.since(asked)
    lacking = never_granted(requests, lambda: cluster.audit.since(0))
    missing = sorted({str(each) for each in lacking if NAMESPACE_ENDS not in each.why})
    assert not missing, f"the stack's RBAC lacks a verb: {', '.join(missing)}"
    traces = [line for line in cluster.replicas.lines(logged) if "exception" in line or "Traceback" in line["message"]]
    assert not traces, f"the controller was surprised: {traces}"
    wrong = [str(placement) for placement in found.placements() if placement.verdict in REFUSED]
    assert not wrong, "\n".join(wrong)


def _clean(cluster: Cluster, name: str) -> None:
    """Everything that the scenario made, and every node that was made for it."""
    if cluster.get(NAMESPACES, name) is not None:
        cluster.kubectl("delete", "namespace", name, "--wait=false")
    for each in cluster.all(PROVISIONERS):
        if each["metadata"]["name"] != STACKS_PROVISIONER:
            cluster.kubectl("delete", "provisioner", each["metadata"]["name"], "--wait=false")
    cluster.until(lambda: not cluster.pods(name), f"the pods of namespace {name} are on their way out")
    cluster.kubectl("delete", "nodes", "--selector", PROVISIONER_NAME, "--wait=false")
    cluster.until(lambda: not cluster.nodes(), "the scenario's nodes are gone")
    cluster.until(lambda: not cluster.instances(), "no instance is left", 30)
    cluster.until(lambda: cluster.get(NAMESPACES, name) is None, f"namespace {name} is gone")


def zone_of(node: Obj) -> str:
    """A node's zone."""
    return labels(node)["topology.kubernetes.io/zone"]
