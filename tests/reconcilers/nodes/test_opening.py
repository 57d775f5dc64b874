"""Nodes that are created cordoned are opened together, with their pods nominated, over the API server."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.core.api.labels import OPENS_WITH
from controller.core.machines.node_documents import node_document
from controller.core.machines.on_their_way import ExpectedPod, stand_in_name
from controller.core.state.snapshot import Snapshot
from controller.errors import KubeError
from controller.kube.resources import NODES, PODS, Resource
from controller.reconcilers.nodes import opening_reconciler
from controller.reconcilers.nodes.opening_reconciler import (
    KEPT_SECONDS,
    MOST_NOMINATIONS,
    NOMINATING_SECONDS,
    OPEN_SECONDS,
    RENEWAL_SECONDS,
    STARTUP_SECONDS,
    WORKERS,
    OpeningReconciler,
)
from controller.reconcilers.nodes.termination_reconciler import TerminationReconciler
from tests.core.instances import cloud_instance
from tests.reconcilers.conftest import World


def launched(world: World, number: int, group: str = "plan") -> str:
    """A cordoned node as a launch leaves it; its name."""
    instance = world.cloud.add(cloud_instance(number=number))
    provisioner = world.informers.snapshot().provisioners["default"]
    document = node_document(instance, provisioner, token=f"token-{number}", marks={OPENS_WITH: group})
    world.add_node(document, ready=False)
    return instance.node_name


def two_nodes(world: World) -> list[str]:
    world.add_provisioner()
    return [launched(world, number) for number in (1, 2)]


def expect(world: World, pod: str, number: int, spec: dict[str, Any] | None = None) -> None:
    """As a plan does, before its node has a name."""
    uid = world.add_pod(pod, spec=spec)["metadata"]["uid"]
    expected = dict(world.context.planning.expected)
    world.context.planning.expected = {**expected, uid: ExpectedPod(("default", pod), stand_in_name(f"token-{number}"))}


def cordoned(world: World, name: str) -> bool:
    document = world.node(name)
    assert (OPENS_WITH in document["metadata"]["annotations"]) is document["spec"].get("unschedulable", False)
    return OPENS_WITH in document["metadata"]["annotations"]


def nomination(world: World, pod: str) -> str:
    status = world.kube.get(PODS, pod, "default")["status"]
    return str(status.get("nominatedNodeName", ""))


def bind(world: World, pod: str, node: str) -> None:
    binding = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": node}}
    world.kube.create(PODS, {**binding, "metadata": {"name": pod}}, "default", subresource="binding", name=pod)


def all_open(snapshot: Snapshot) -> bool:
    return not any(OPENS_WITH in node.node.annotations for node in snapshot.nodes.values())


def test_they_open_when_all_are_ready_and_pods_are_nominated_before(world: World) -> None:
    first, second = two_nodes(world)
    expect(world, "a", 1)
    expect(world, "b", 2)
    loop = OpeningReconciler(world.context)
    world.come_up(first)
    assert loop.reconcile(world.caught_up()) <= OPEN_SECONDS
    assert cordoned(world, first)
    assert nomination(world, "a") == "", "kube-scheduler would clear it: the node is cordoned"
    world.come_up(second)
    loop.reconcile(world.caught_up())
    assert not cordoned(world, first)
    assert not cordoned(world, second)
    assert (nomination(world, "a"), nomination(world, "b")) == (first, second)


def test_the_taint_of_the_cordon_goes_with_it_and_no_other(world: World) -> None:
    """kube-scheduler need not wait for the node controller, which takes it off later."""
    (first, _) = two_nodes(world)
    world.come_up(first)
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-11-23T12:00:00Z"}
    own = {"key": "dedicated", "value": "web", "effect": "NoSchedule"}
    world.kube.patch(NODES, first, {"spec": {"taints": [cordon, own]}})
    world.change_settings(place_as_planned=False)
    OpeningReconciler(world.context).reconcile(world.caught_up())
    assert not cordoned(world, first)
    assert world.node(first)["spec"]["taints"] == [own]


def test_a_node_that_changes_meanwhile_is_looked_at_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another leader opens it and a user cordons it, the moment before it would be uncordoned: his cordon stays."""
    names = two_nodes(world)
    for name in names:
        world.come_up(name)
    patch, changes = world.kube.patch, dict.fromkeys(names, True)

    def late(resource: Resource, name: str, *given: Any, **fields: Any) -> Any:
        if resource == NODES and changes.pop(name, False):
            patch(NODES, name, {"metadata": {"labels": {"changed": "meanwhile"}}})
            if name == names[0]:
                patch(NODES, name, {"metadata": {"annotations": {OPENS_WITH: None}}, "spec": {"unschedulable": True}})
        return patch(resource, name, *given, **fields)

    monkeypatch.setattr(world.kube, "patch", late)
    seen = world.passes(OpeningReconciler(world.context), all_open)
    assert not changes
    assert [seen.nodes[name].node.unschedulable for name in names] == [True, False]
    assert all(world.node(name)["metadata"]["labels"]["changed"] == "meanwhile" for name in names)


def test_nominations_that_take_long_keep_no_node_closed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A webhook for pods that runs on the very nodes, say: its pods wait for them."""
    names = two_nodes(world)
    for number in range(3 * WORKERS):
        expect(world, f"p{number}", 1)
    for name in names:
        world.come_up(name)
    patch, tried = world.kube.patch, list[str]()

    def slow(resource: Resource, name: str, *given: Any, **fields: Any) -> Any:
        if resource == PODS:
            tried.append(name)
            world.clock.ahead_seconds += NOMINATING_SECONDS
            raise KubeError("failed calling webhook", 500)
        return patch(resource, name, *given, **fields)

    monkeypatch.setattr(world.kube, "patch", slow)
    OpeningReconciler(world.context).reconcile(world.caught_up())
    assert 0 < len(tried) <= WORKERS, "those that had begun"
    assert not any(cordoned(world, name) for name in names)


def test_a_node_that_does_not_come_holds_the_others_up_for_ten_seconds(world: World) -> None:
    first, second = two_nodes(world)
    expect(world, "b", 2)
    loop = OpeningReconciler(world.context)
    world.come_up(first)
    loop.reconcile(world.caught_up())
    world.clock.ahead_seconds = OPEN_SECONDS
    loop.reconcile(world.caught_up())
    assert not cordoned(world, first)
    assert cordoned(world, second)
    assert nomination(world, "b") == ""


def test_nodes_stay_closed_until_their_startup_taints_are_gone(world: World) -> None:
    """An agent takes them off some time after a node is Ready, and no pod can run there before. Where they stay, it
    opens all the same: the agent may be a pod that waits for it."""
    taint = {"key": "node.cilium.io/agent-not-ready", "effect": "NoExecute"}
    world.add_provisioner(startupTaints=[taint])
    first, second = (launched(world, number) for number in (1, 2))
    expect(world, "a", 1)
    loop = OpeningReconciler(world.context)
    for name in (first, second):
        world.come_up(name)
        world.kube.patch(NODES, name, {"spec": {"taints": [taint]}})
    assert loop.reconcile(world.caught_up()) <= STARTUP_SECONDS
    world.clock.ahead_seconds = STARTUP_SECONDS - 1.0
    world.kube.patch(NODES, first, {"spec": {"taints": None}})
    loop.reconcile(world.caught_up())
    assert cordoned(world, first), "it waits for the other"
    assert nomination(world, "a") == ""
    world.clock.ahead_seconds = STARTUP_SECONDS + 1.0
    loop.reconcile(world.caught_up())
    assert not cordoned(world, first)
    assert not cordoned(world, second)
    assert world.node(second)["spec"]["taints"] == [taint]
    assert nomination(world, "a") == first


def test_a_node_that_is_deleted_is_neither_opened_nor_waited_for(world: World) -> None:
    first, second = two_nodes(world)
    world.come_up(first)
    world.kube.delete(NODES, second)
    world.until(lambda snapshot: snapshot.nodes[second].leaving)
    OpeningReconciler(world.context).reconcile(world.caught_up())
    assert not cordoned(world, first)
    assert cordoned(world, second)


def test_a_node_that_is_deleted_before_it_opens_is_cordoned_once_and_stays_closed(world: World) -> None:
    name, _ = two_nodes(world)
    world.add_pod("daemon", node=name)
    world.kube.delete(NODES, name)
    world.until(lambda snapshot: snapshot.nodes[name].leaving)
    loop = TerminationReconciler(world.context)
    with capture_logs() as logs:
        for _ in range(5):
            loop.reconcile(world.caught_up())
    assert len([entry for entry in logs if entry["event"] == "Cordoned node"]) == 1
    assert world.node(name)["spec"]["unschedulable"] is True
    assert OPENS_WITH not in world.node(name)["metadata"]["annotations"]


def test_a_nomination_that_kube_scheduler_cleared_is_renewed_and_no_other(world: World) -> None:
    names = two_nodes(world)
    for pod, number in (("a", 1), ("bound", 1), ("b", 2)):
        expect(world, pod, number)
    for name in names:
        world.come_up(name)
    loop = OpeningReconciler(world.context)
    loop.reconcile(world.caught_up())
    bind(world, "bound", names[1])
    for _ in range(MOST_NOMINATIONS + 2):
        cleared = {"status": {"nominatedNodeName": None}}
        world.kube.patch(PODS, "a", cleared, namespace="default", subresource="status")
        world.clock.ahead_seconds += RENEWAL_SECONDS
        loop.reconcile(world.caught_up())
        bound = world.kube.get(PODS, "bound", "default")["metadata"]["resourceVersion"]
    assert world.kube.get(PODS, "bound", "default")["metadata"]["resourceVersion"] == bound
    assert nomination(world, "a") == "", "kube-scheduler never agreed: it may place the pod elsewhere"
    assert nomination(world, "b") == names[1]


def test_each_pod_is_nominated_once_where_nodes_open_one_lot_after_the_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The snapshot of the pass does not have what was written for the lots before."""
    monkeypatch.setattr(opening_reconciler, "MOST_AT_ONCE", 1)
    names = two_nodes(world)
    for number, pod in ((1, "a"), (2, "b")):
        expect(world, pod, number)
    for name in names:
        world.come_up(name)
    patch, written = world.kube.patch, list[str]()

    def counted(resource: Resource, name: str, *given: Any, **fields: Any) -> Any:
        written.append(name)
        return patch(resource, name, *given, **fields)

    monkeypatch.setattr(world.kube, "patch", counted)
    OpeningReconciler(world.context).reconcile(world.caught_up())
    assert written == ["a", names[0], "b", names[1]]


def test_no_pod_is_nominated_again_to_a_node_that_is_being_deleted(world: World) -> None:
    names = two_nodes(world)
    for number, pod in ((1, "a"), (2, "b")):
        expect(world, pod, number)
    for name in names:
        world.come_up(name)
    loop = OpeningReconciler(world.context)
    loop.reconcile(world.caught_up())
    world.kube.delete(NODES, names[0])
    world.until(lambda snapshot: snapshot.nodes[names[0]].leaving)
    for pod in ("a", "b"):
        cleared = {"status": {"nominatedNodeName": None}}
        world.kube.patch(PODS, pod, cleared, namespace="default", subresource="status")
    world.clock.ahead_seconds += RENEWAL_SECONDS
    loop.reconcile(world.caught_up())
    assert (nomination(world, "a"), nomination(world, "b")) == ("", names[1])


def test_nominations_that_kube_scheduler_neither_follows_nor_clears_are_taken_back(world: World) -> None:
    """It would leave the room to these pods for ever. Those of others, and of pods that are bound, are left alone."""
    names = two_nodes(world)
    for number, pod in enumerate(("stuck", "elsewhere", "bound")):
        expect(world, pod, 1 + number % 2)
    for name in names:
        world.come_up(name)
    loop = OpeningReconciler(world.context)
    loop.reconcile(world.caught_up())
    preempts = {"status": {"nominatedNodeName": "preempted"}}
    world.kube.patch(PODS, "elsewhere", preempts, namespace="default", subresource="status")
    bind(world, "bound", names[0])
    bound = world.kube.get(PODS, "bound", "default")["metadata"]["resourceVersion"]
    world.clock.ahead_seconds = KEPT_SECONDS - 1.0
    loop.reconcile(world.caught_up())
    assert nomination(world, "stuck") == names[0]
    world.clock.ahead_seconds += RENEWAL_SECONDS
    loop.reconcile(world.caught_up())
    assert nomination(world, "stuck") == ""
    assert nomination(world, "elsewhere") == "preempted"
    assert world.kube.get(PODS, "bound", "default")["metadata"]["resourceVersion"] == bound
    world.clock.ahead_seconds += RENEWAL_SECONDS
    assert loop.reconcile(world.caught_up()) > RENEWAL_SECONDS, "nothing is left to be done"


def test_with_the_setting_off_what_is_closed_opens_as_it_is_ready(world: World) -> None:
    first, second = two_nodes(world)
    expect(world, "a", 1)
    world.change_settings(place_as_planned=False)
    world.come_up(first)
    OpeningReconciler(world.context).reconcile(world.caught_up())
    assert not cordoned(world, first)
    assert cordoned(world, second)
    assert nomination(world, "a") == ""


def refuse(world: World, monkeypatch: pytest.MonkeyPatch, refused: Resource) -> None:
    """Patches of a kind fail until the monkeypatch is undone."""
    patch = world.kube.patch

    def failing(resource: Resource, name: str, *given: Any, **fields: Any) -> Any:
        if resource == refused:
            raise KubeError(f"{resource.kind} {name}: refused", 403)
        return patch(resource, name, *given, **fields)

    monkeypatch.setattr(world.kube, "patch", failing)


def test_the_next_leader_opens_what_the_last_one_closed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows no plan: the pods are kube-scheduler's to place. Killed between the nominations and the opening."""
    names = two_nodes(world)
    expect(world, "a", 1)
    for name in names:
        world.come_up(name)
    refuse(world, monkeypatch, NODES)
    OpeningReconciler(world.context).reconcile(world.caught_up())
    monkeypatch.undo()
    assert all(cordoned(world, name) for name in names)
    assert nomination(world, "a") == names[0]
    world.context.planning.expected = {}
    world.passes(OpeningReconciler(world.context), all_open)


def test_where_pods_cannot_be_nominated_the_nodes_open_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ClusterRole is of an earlier release, say."""
    names = two_nodes(world)
    expect(world, "a", 1)
    for name in names:
        world.come_up(name)
    refuse(world, monkeypatch, PODS)
    OpeningReconciler(world.context).reconcile(world.caught_up())
    monkeypatch.undo()
    assert not any(cordoned(world, name) for name in names)


def test_whatever_is_wrong_with_nominations_the_nodes_open_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> dict[str, ExpectedPod]:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(opening_reconciler, "by_turns", broken)
    names = two_nodes(world)
    expect(world, "a", 1)
    for name in names:
        world.come_up(name)
    with capture_logs() as logs:
        OpeningReconciler(world.context).reconcile(world.caught_up())
    assert not any(cordoned(world, name) for name in names)
    assert [entry["error"] for entry in logs if entry["log_level"] == "error"] == ["ZeroDivisionError: a bug"]


def test_pods_whose_place_depends_on_others_are_nominated_once(world: World) -> None:
    """kube-scheduler may be right to refuse: the other zones have too few of the spread's pods yet."""
    names = two_nodes(world)
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    expect(world, "a", 1, {"topologySpreadConstraints": [spread]})
    for name in names:
        world.come_up(name)
    loop = OpeningReconciler(world.context)
    loop.reconcile(world.caught_up())
    assert nomination(world, "a") == names[0]
    cleared = {"status": {"nominatedNodeName": None}}
    world.kube.patch(PODS, "a", cleared, namespace="default", subresource="status")
    world.clock.ahead_seconds += RENEWAL_SECONDS
    loop.reconcile(world.caught_up())
    assert nomination(world, "a") == ""
