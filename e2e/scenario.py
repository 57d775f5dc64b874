"""One scenario: its own namespace and Provisioners, and the checks that every scenario ends with.

After each scenario: no request of the controller was forbidden, no replica logged a stack trace, every planned pod is
bound (to the planned node, or a fact explains why to another), and EC2 has no instance without a Node.
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
"""Part of the API server's refusal to write into a terminating namespace; no role prevents it."""
CLEAN_SECONDS = 200.0
"""A deadline for the end of many nodes and pods: kube-controller-manager looks at a namespace ever less often."""
STACKS_PROVISIONER = "default"
"""The Provisioner of stacks/Pulumi.local.yaml, which scenarios do not delete."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster and the scenario's namespace in it."""

    cluster: Cluster
    namespace: str

    def provisioner(self, name: str = "", **spec: Any) -> None:
        """Apply a Provisioner with a higher weight than the stack's; on-demand unless `requirements` say otherwise."""
        body = {"providerRef": {"name": "default"}, "weight": 50, **spec}
        self.cluster.apply(provisioner(name or self.namespace, body))

    def deploy(self, *documents: Obj) -> None:
        """Apply objects into the scenario's namespace."""
        self.cluster.apply(*({**d, "metadata": {**d["metadata"], "namespace": self.namespace}} for d in documents))

    def scale(self, workload: str, replicas: int) -> None:
        """Run `kubectl scale`; `workload` is KIND/NAME."""
        self.cluster.kubectl("scale", workload, "--replicas", str(replicas), "--namespace", self.namespace)

    def running(self, app: str, replicas: int) -> list[Obj]:
        """Wait until exactly `replicas` pods of an app exist and all are Ready; return them."""
        return self.cluster.running(self.namespace, app, replicas)

    def placements(self) -> list[Placement]:
        """Return the placement of every nominated pod of the namespace."""
        cluster = self.cluster
        events = cluster.all(EVENTS, self.namespace)
        return placements(events, cluster.all(PODS, self.namespace), cluster.all(NODES))


def provisioner(name: str, spec: Obj) -> Obj:
    """Return a Provisioner as JSON."""
    return {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": name}, "spec": spec}


@contextmanager
def scenario(cluster: Cluster, name: str) -> Iterator[Scenario]:
    """Set up a scenario; check it when its test has passed, and clean up in any case."""
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    asked, logged = cluster.audit.mark(), cluster.replicas.mark()
    try:
        started = Scenario(cluster, name)
        yield started
        _judge(started, asked, logged)
    finally:
        _clean(cluster, name)


def _judge(judged: Scenario, asked: int, logged: dict[str, int]) -> None:
    cluster = judged.cluster
    requests = cluster.audit.since(asked)
    lacking = never_granted(requests, lambda: cluster.audit.since(0))
    missing = sorted({str(each) for each in lacking if NAMESPACE_ENDS not in each.why})
    assert not missing, f"the stack's RBAC lacks a verb: {', '.join(missing)}"
    traces = [line for line in cluster.replicas.lines(logged) if "exception" in line or "Traceback" in line["message"]]
    assert not traces, f"the controller logged a stack trace: {traces}"
    wrong = [str(placement) for placement in judged.placements() if placement.verdict in REFUSED]
    assert not wrong, "\n".join(wrong)


def _clean(cluster: Cluster, name: str) -> None:
    """Delete what the scenario made and every node that was launched for it, and wait until all is gone."""
    if cluster.get(NAMESPACES, name) is not None:
        cluster.kubectl("delete", "namespace", name, "--wait=false")
    for each in cluster.all(PROVISIONERS):
        if each["metadata"]["name"] != STACKS_PROVISIONER:
            cluster.kubectl("delete", "provisioner", each["metadata"]["name"], "--wait=false")
    cluster.until(lambda: not cluster.pods(name), f"the pods of namespace {name} are on their way out")
    cluster.kubectl("delete", "nodes", "--selector", PROVISIONER_NAME, "--wait=false")
    cluster.until(lambda: not cluster.nodes(), "the scenario's nodes are gone", CLEAN_SECONDS)
    cluster.until(lambda: not cluster.instances(), "no instance is left", 30)
    cluster.until(lambda: cluster.get(NAMESPACES, name) is None, f"namespace {name} is gone", CLEAN_SECONDS)


def zone_of(node: Obj) -> str:
    """Return the zone in the node's label."""
    return labels(node)["topology.kubernetes.io/zone"]
