"""Which replicas are nominated to which of the nodes that were planned for them."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle, islice

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import HOSTNAME, ZONE
from controller.core.api.pod import LabelSelector, OwnerReference, Pod, TopologySpreadConstraint
from controller.core.machines.nomination_order import by_turns
from controller.core.machines.on_their_way import ExpectedPod
from controller.core.state.snapshot import Snapshot
from tests import factories

ZONES = ("zone-a", "zone-b", "zone-c")
WEB = OwnerReference("apps/v1", "ReplicaSet", "web", "web")


def spread(key: str = ZONE, when: str = "DoNotSchedule") -> TopologySpreadConstraint:
    return TopologySpreadConstraint(1, key, when, LabelSelector())


def replicas(count: int, *constraints: TopologySpreadConstraint, name: str = "web") -> list[Pod]:
    """kube-scheduler tried them in the order of the list, which is not that of their names."""
    one = factories.pending_pod(name=name)
    spec = replace(one.spec, topology_spread=constraints)
    return [
        replace(one, name=f"{name}-{-n}", uid=f"{name}-{n}", spec=spec, owners=(WEB,), resource_version=f"{95 + n}")
        for n in range(count)
    ]


def cluster(pods: list[Pod], *nodes: tuple[str, str]) -> Snapshot:
    """With nodes of these names and zones."""
    states = {
        name: factories.state_node(node=factories.node(name=name, labels={ZONE: zone, HOSTNAME: name}))
        for name, zone in nodes
    }
    return replace(
        factories.snapshot(), nodes=FrozenMap(states), pods=FrozenMap({pod.key: pod for pod in reversed(pods)})
    )


def order(pods: list[Pod], planned: list[str], snapshot: Snapshot) -> list[str]:
    """The nodes to which the pods are nominated, in the order in which kube-scheduler comes to the pods."""
    expected = {pod.uid: ExpectedPod(pod.key, node) for pod, node in zip(pods, planned, strict=True)}
    found = by_turns(expected, snapshot)
    assert {uid: each.key for uid, each in found.items()} == {uid: each.key for uid, each in expected.items()}
    return [found[pod.uid].node for pod in pods]


def test_spread_replicas_go_to_the_zones_by_turns() -> None:
    pods = replicas(9, spread())
    planned = ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    got = order(pods, planned, cluster(pods, *zip("abc", ZONES, strict=True)))
    assert got == list(islice(cycle("abc"), 9))


def test_replicas_that_are_there_already_count() -> None:
    pods = replicas(7, spread())
    bound = [replace(pod, node_name="a") for pod in pods[:2]] + [replace(pods[2], node_name="b")]
    waiting = pods[3:]
    snapshot = cluster(bound + waiting, *zip("abc", ZONES, strict=True))
    assert order(waiting, ["a", "b", "c", "c"], snapshot) == ["c", "b", "c", "a"]


def test_of_two_constraints_both_go_by_turns() -> None:
    pods = replicas(4, spread(), spread(HOSTNAME))
    snapshot = cluster(pods, ("a1", ZONES[0]), ("a2", ZONES[0]), ("b1", ZONES[1]), ("b2", ZONES[1]))
    assert order(pods, ["a1", "a2", "b1", "b2"], snapshot) == ["a1", "b1", "a2", "b2"]


def test_pods_without_a_required_spread_stay_where_they_were_planned() -> None:
    for constraints in ((), (spread(when="ScheduleAnyway"),)):
        pods = replicas(3, *constraints)
        assert order(pods, ["a", "a", "b"], cluster(pods, *zip("abc", ZONES, strict=True))) == ["a", "a", "b"]


def test_replicas_of_one_owner_do_not_take_anothers_nodes() -> None:
    web, api = replicas(2, spread()), replicas(2, spread(), name="api")
    api = [replace(pod, owners=(replace(WEB, uid="api"),)) for pod in api]
    planned = ["a", "b", "c", "c"]
    assert order(web + api, planned, cluster(web + api, *zip("abc", ZONES, strict=True))) == planned


def test_bound_pods_and_those_that_are_gone_keep_their_entries() -> None:
    first, second = replicas(2, spread())
    snapshot = cluster([replace(first, node_name="a")], *zip("abc", ZONES, strict=True))
    assert order([first, second], ["a", "b"], snapshot) == ["a", "b"]
