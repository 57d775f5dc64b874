"""Each scheduling rule by value: which nodes of one small cluster a pod may go to, and what is said when there is none.

The table holds what kube-scheduler 1.34 does; test_agreement.py asks it when a real one is at hand.
"""

from __future__ import annotations

import pytest

from sandbox.world.scheduling.view import ClusterView
from tests.sandbox.world import cases
from tests.sandbox.world.builders import (
    HOSTNAME,
    ZONE,
    apart,
    claim,
    cluster,
    feasible,
    judge,
    mounts,
    near,
    node,
    pod,
    pod_term,
    spread,
    storage_class,
    volume,
)

FEASIBLE = {
    "anywhere": "a1 b1 bare c1",
    "cpu that one node has left": "c1",
    "cpu exactly what is left": "a1",
    "a millicore too much": "",
    "part of a millicore counts as one": "",
    "cpu and memory that no node has": "",
    "an extended resource": "c2",
    "an extended resource that nobody has": "",
    "disk": "",
    "the greater of init and app": "c1",
    "init containers one after the other": "c1",
    "sidecars add up": "c1",
    "sidecar before init": "c1",
    "selector": "a1",
    "selector of no node": "",
    "In": "b1 c1",
    "NotIn holds without the label": "b1 bare c1",
    "Exists": "a1 b1 c1",
    "DoesNotExist": "bare",
    "Gt ignores what is no integer": "a1",
    "Lt": "c1",
    "terms are ORed": "a1 bare",
    "expressions are ANDed": "c1",
    "an empty term matches nothing": "a1 b1 c1",
    "one node by name": "c1",
    "a cordoned node by name": "",
    "not one node by name": "b1 bare c1",
    "selector and affinity together": "",
    "a taint tolerated by value": "a2",
    "a taint tolerated with another value": "",
    "a taint tolerated by key": "a2",
    "a taint tolerated for another effect": "",
    "every taint tolerated": "c2",
    "cordon tolerated": "b2",
    "PreferNoSchedule keeps nothing away": "c1",
    "a host port in use": "",
    "a host port of another protocol": "a1",
    "a host port on one address, held on all": "",
    "ports of the host's network": "",
    "affinity to pods in a zone": "a1 b1",
    "affinity to pods on a host": "a1 b1",
    "affinity to two kinds": "",
    "affinity to a pod that has both labels": "",
    "affinity to nobody": "",
    "affinity to itself": "a1 b1 bare c1",
    "affinity to itself and to nobody": "",
    "affinity by a label that no node has": "",
    "anti-affinity by zone": "bare c1",
    "anti-affinity by host": "bare c1",
    "anti-affinity of two terms": "bare",
    "repelled by a pod that is there": "a1 b1 bare",
    "repelled, in the zone only": "",
    "spread over zones": "bare c1",
    "spread over hosts": "bare c1",
    "spread with more skew": "a1 b1 bare c1",
    "spread that does not count itself": "a1 b1 bare c1",
    "spread among selected nodes only": "a1 b1",
    "spread among all nodes, affinity ignored": "",
    "spread that honours taints": "a1",
    "spread over more zones than there are": "",
    "spread over as many zones as there are": "a1",
    "spread by a label that no node has": "",
    "spread over zones and hosts": "bare c1",
    "spread by the pod's own label value": "a1 b1 bare c1",
    "a volume in a zone": "a1",
    "volumes in two zones": "",
    "a volume in a zone without room": "",
    "a claim that does not exist": "",
    "a claim that should be bound already": "",
    "a claim for one pod only, in use": "",
    "a class for another zone": "",
    "a local volume elsewhere": "",
}
"""Names of feasible nodes by case of `cases.single_rules`."""


@pytest.fixture(scope="module")
def view() -> ClusterView:
    return cluster(cases.NODES, cases.PLACED, claims=cases.CLAIMS, volumes=cases.VOLUMES, classes=cases.CLASSES)


def test_every_case_has_an_expectation() -> None:
    assert set(FEASIBLE) == set(cases.single_rules())


@pytest.mark.parametrize("rule", FEASIBLE)
def test_feasible_nodes(rule: str, view: ClusterView) -> None:
    """The rule that the case is named after."""
    assert feasible(cases.single_rules()[rule], view) == FEASIBLE[rule].split()


def test_message_counts_each_reason_and_says_whether_preemption_helps(view: ClusterView) -> None:
    """kube-scheduler 1.34's words: reasons sorted as text, then the verdict of a preemption without victims."""
    assert judge(pod(requests={"cpu": "2", "memory": "9Gi"}), view).message == (
        "0/7 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu, 2 node(s) had untolerated "
        "taint(s), "
        "4 Insufficient memory. no new claims to deallocate, preemption: 0/7 nodes are available: "
        "7 Preemption is not helpful for scheduling."
    )


def test_message_of_lack_of_room_that_an_eviction_could_make() -> None:
    """A request below allocatable is resolvable: preemption was tried and found no victims."""
    view = cluster([node("full", cpu="2")], [pod(on="full", requests={"cpu": "1500m"})])
    assert judge(pod(requests={"cpu": "1"}), view).message == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_message_without_nodes() -> None:
    """No node at all has words of its own."""
    assert judge(pod(), cluster([])).message == "no nodes available to schedule pods"


def test_terminal_room_counts_pods() -> None:
    """The pods resource: one more pod than allocatable says is too many."""
    view = cluster([node("small", pods="1")], [pod(on="small")])
    assert judge(pod(), view).rejections["small"].reasons == ("Too many pods",)


def test_affinity_reaches_other_namespaces_by_their_labels() -> None:
    """namespaceSelector selects namespaces; without it a term speaks of the pod's own only."""
    view = cluster(
        [node("here", zone="a"), node("there", zone="b")],
        [pod("other", on="there", namespace="team", labels={"app": "x"})],
        namespaces={"default": {}, "team": {"kind": "shared"}},
    )
    own = pod(affinity=near(pod_term(app="x")))
    wide = pod(affinity=near({**pod_term(app="x"), "namespaceSelector": {"matchLabels": {"kind": "shared"}}}))
    named = pod(affinity=near({**pod_term(app="x"), "namespaces": ["team"]}))
    assert [feasible(candidate, view) for candidate in (own, wide, named)] == [[], ["there"], ["there"]]


def test_a_pod_with_affinity_to_itself_may_start_only_while_it_is_the_first() -> None:
    """Once one pod is there, the next ones must join its domain."""
    nodes = [node("one", zone="a"), node("two", zone="b")]
    itself = pod(labels={"app": "x"}, affinity=near(pod_term(app="x")))
    assert feasible(itself, cluster(nodes)) == ["one", "two"]
    assert feasible(itself, cluster(nodes, [pod(on="two", labels={"app": "x"})])) == ["two"]


def test_mismatch_label_keys_keep_other_tenants_away() -> None:
    """mismatchLabelKeys adds NotIn of the pod's own value."""
    view = cluster(
        [node("one", zone="a"), node("two", zone="b")],
        [pod(on="one", labels={"app": "x", "tenant": "blue"}), pod(on="two", labels={"app": "x", "tenant": "red"})],
    )
    term = {**pod_term(app="x"), "mismatchLabelKeys": ["tenant"]}
    assert feasible(pod(labels={"tenant": "red"}, affinity=apart(term)), view) == ["two"]


def test_spread_counts_neither_terminating_pods_nor_other_namespaces() -> None:
    """Pods that are going, and those of other namespaces, don't skew."""
    going = pod(on="one", labels={"app": "x"})
    going["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    foreign = pod(on="one", labels={"app": "x"}, namespace="team")
    view = cluster([node("one", zone="a"), node("two", zone="b")], [going, foreign])
    candidate = pod(labels={"app": "x"}, topologySpreadConstraints=[spread(labels={"app": "x"})])
    assert feasible(candidate, view) == ["one", "two"]


def test_spread_ignores_nodes_that_lack_a_key_of_another_constraint() -> None:
    """Only nodes with the labels of all hard constraints take part in counting."""
    unlabelled = node("bare", zone="c")
    del unlabelled["metadata"]["labels"][HOSTNAME]
    view = cluster([node("one", zone="a"), unlabelled], [pod(on="one", labels={"app": "x"})])
    both = [spread(ZONE, labels={"app": "x"}), spread(HOSTNAME, 5, {"app": "x"})]
    assert feasible(pod(labels={"app": "x"}, topologySpreadConstraints=both), view) == ["one"]


def test_volume_limits_count_volumes_not_pods() -> None:
    """CSINode allocatable: a second volume is one too many, a second pod with the same volume is not."""
    view = cluster(
        [node("one")],
        [pod(on="one", volumes=mounts("first"))],
        claims=[claim("first", volume_name="v1"), claim("second", volume_name="v2")],
        volumes=[volume("v1", claim="first"), volume("v2", claim="second")],
        volume_limits={"one": {"ebs.csi.aws.com": 1}},
    )
    assert feasible(pod(volumes=mounts("first")), view) == ["one"]
    assert judge(pod(volumes=mounts("second")), view).rejections["one"].reasons == ("node(s) exceed max volume count",)


def test_a_waiting_claim_follows_its_selected_node() -> None:
    """Once provisioning has begun for a node, the pod goes there and nowhere else."""
    chosen = claim("new")
    chosen["metadata"]["annotations"] = {"volume.kubernetes.io/selected-node": "two"}
    view = cluster([node("one"), node("two")], claims=[chosen], classes=[storage_class()])
    assert feasible(pod(volumes=mounts("new")), view) == ["two"]
