"""Nodes that are created cordoned get their pods bound and are opened together, over the API server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.core.api.labels import HOSTNAME, OPENS_WITH, TERMINATION_FINALIZER
from controller.core.deprovisioning.records import COMMAND_ANNOTATION, Record, write_record
from controller.core.machines.binding import Bindings
from controller.core.machines.node_documents import node_document
from controller.core.machines.on_their_way import ExpectedPod, stand_in_name
from controller.core.state.snapshot import Snapshot
from controller.errors import KubeError
from controller.kube.resources import NODES, PODS, Resource
from controller.reconcilers.nodes import opening_reconciler
from controller.reconcilers.nodes.opening_reconciler import (
    BINDING_SECONDS,
    MOVING_SECONDS,
    OPEN_SECONDS,
    STARTUP_SECONDS,
    WORKERS,
    OpeningReconciler,
)
from controller.reconcilers.nodes.termination_reconciler import TerminationReconciler
from tests.core.instances import cloud_instance
from tests.reconcilers.conftest import World

REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", True)


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


def add_replica(world: World, name: str, spec: Mapping[str, Any] | None = None) -> str:
    """A pod of the ReplicaSet web that waits; its uid."""
    found = world.kube.list(REPLICA_SETS, "default")
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    web = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}}
    made = found[0] if found else world.kube.create(REPLICA_SETS, web, "default")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": made["metadata"]["uid"]}
    pod = world.add_pod(name, spec=spec, labels={"app": "web"}, ownerReferences=[{**owner, "controller": True}])
    return str(pod["metadata"]["uid"])


def expect(world: World, pod: str, number: int, spec: Mapping[str, Any] | None = None) -> None:
    """As a plan does, before its node has a name."""
    uid = add_replica(world, pod, spec)
    expected = dict(world.context.planning.expected)
    world.context.planning.expected = {**expected, uid: ExpectedPod(("default", pod), stand_in_name(f"token-{number}"))}


def cordoned(world: World, name: str) -> bool:
    document = world.node(name)
    assert (OPENS_WITH in document["metadata"]["annotations"]) is document["spec"].get("unschedulable", False)
    return OPENS_WITH in document["metadata"]["annotations"]


def home(world: World, pod: str) -> str:
    """The node that the pod is bound to."""
    return str(world.kube.get(PODS, pod, "default")["spec"].get("nodeName", ""))


def all_open(snapshot: Snapshot) -> bool:
    return not any(OPENS_WITH in node.node.annotations for node in snapshot.nodes.values())


def test_pods_are_bound_as_their_node_is_ready_and_the_nodes_open_together(world: World) -> None:
    first, second = two_nodes(world)
    expect(world, "a", 1)
    expect(world, "b", 2)
    loop = OpeningReconciler(world.context)
    world.come_up(first)
    assert loop.reconcile(world.caught_up()) <= OPEN_SECONDS
    assert cordoned(world, first)
    assert (home(world, "a"), home(world, "b")) == (first, "")
    world.come_up(second)
    loop.reconcile(world.caught_up())
    assert not cordoned(world, first)
    assert not cordoned(world, second)
    assert (home(world, "a"), home(world, "b")) == (first, second)


def test_pods_of_a_spread_wait_for_the_nodes_of_the_others(world: World) -> None:
    """Two replicas on the first node alone would be a skew of two. That is told to nobody: the second one waits."""
    selector = {"matchLabels": {"app": "web"}}
    rule = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    first, second = two_nodes(world)
    for number, pod in ((1, "a"), (1, "b"), (2, "c"), (2, "d")):
        expect(world, pod, number, {"topologySpreadConstraints": [rule]})
    loop = OpeningReconciler(world.context)
    with capture_logs() as logs:
        world.come_up(first)
        loop.reconcile(world.caught_up())
        assert (home(world, "a"), home(world, "b")) == (first, "")
        world.come_up(second)
        loop.reconcile(world.caught_up())
    assert [home(world, pod) for pod in "abcd"] == [first, first, second, second]
    assert not [each for each in logs if each["event"] == "Pods are left to kube-scheduler"]


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


def test_bindings_that_take_long_keep_no_node_closed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A webhook for pods that runs on the very nodes, say: its pods wait for them."""
    names = two_nodes(world)
    for number in range(3 * WORKERS):
        expect(world, f"p{number}", 1)
    for name in names:
        world.come_up(name, {"cpu": "99", "memory": "8Gi", "pods": "99"})
    tried, snapshot = list[str](), world.caught_up()

    def slow(_resource: Resource, _binding: Any, *_: Any, name: str = "", **__: Any) -> Any:
        tried.append(name)
        world.clock.ahead_seconds += BINDING_SECONDS
        raise KubeError("failed calling webhook", 500)

    monkeypatch.setattr(world.kube, "create", slow)
    OpeningReconciler(world.context).reconcile(snapshot)
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
    assert home(world, "b") == ""


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
    assert home(world, "a") == first
    world.clock.ahead_seconds = STARTUP_SECONDS + 1.0
    loop.reconcile(world.caught_up())
    assert not cordoned(world, first)
    assert not cordoned(world, second)
    assert world.node(second)["spec"]["taints"] == [taint]


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


def test_nodes_of_many_pods_open_one_lot_after_the_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """kube-scheduler need not wait for the last of thousands of pods to be bound."""
    monkeypatch.setattr(opening_reconciler, "MOST_AT_ONCE", 1)
    names = two_nodes(world)
    for number, pod in ((1, "a"), (2, "b")):
        expect(world, pod, number)
    for name in names:
        world.come_up(name)
    create, patch, written = world.kube.create, world.kube.patch, list[str]()
    snapshot = world.caught_up()

    def created(resource: Resource, document: dict[str, Any], *given: Any, **fields: Any) -> Any:
        if resource == PODS:
            written.append(document["metadata"]["name"])
        return create(resource, document, *given, **fields)

    def patched(resource: Resource, name: str, *given: Any, **fields: Any) -> Any:
        written.append(name)
        return patch(resource, name, *given, **fields)

    monkeypatch.setattr(world.kube, "create", created)
    monkeypatch.setattr(world.kube, "patch", patched)
    OpeningReconciler(world.context).reconcile(snapshot)
    assert written == ["a", names[0], "b", names[1]]


def test_a_pod_that_has_changed_since_it_was_seen_stays_as_it_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """kube-scheduler binds one, another is deleted, and a StatefulSet makes one anew, under the same name."""
    names = two_nodes(world)
    for pod in ("bound", "gone", "anew", "last"):
        expect(world, pod, 1 + (pod > "b"))
    for name in names:
        world.come_up(name, {"cpu": "8", "memory": "8Gi", "pods": "29"})
    create, snapshot = world.kube.create, world.caught_up()
    for pod in ("gone", "anew"):
        world.kube.delete(PODS, pod, "default", grace_period_seconds=0)
    add_replica(world, "anew")
    binding = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": names[1]}}
    create(PODS, {**binding, "metadata": {"name": "bound"}}, "default", subresource="binding", name="bound")
    OpeningReconciler(world.context).reconcile(snapshot)
    assert (home(world, "bound"), home(world, "anew"), home(world, "last")) == (names[1], "", names[1])
    assert not any(cordoned(world, name) for name in names)


def test_pods_that_something_new_keeps_from_their_node_are_left_to_kube_scheduler(world: World) -> None:
    """The log says what it is."""
    names = two_nodes(world)
    for number, pod in ((1, "a"), (2, "b")):
        expect(world, pod, number)
    world.come_up(names[0], {"cpu": "500m", "memory": "8Gi", "pods": "29"})
    world.come_up(names[1])
    with capture_logs() as logs:
        OpeningReconciler(world.context).reconcile(world.caught_up())
    assert (home(world, "a"), home(world, "b")) == ("", names[1])
    assert not any(cordoned(world, name) for name in names)
    left = [(each["subject"], each["rule"]) for each in logs if each["event"] == "Pods are left to kube-scheduler"]
    assert left == [(names[0], "cpu: 1000 used of 500")]


def test_what_keeps_pods_from_a_node_is_logged_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often the node is tried: here the API server refuses to open it."""
    names = two_nodes(world)
    expect(world, "a", 1)
    world.come_up(names[0], {"cpu": "500m", "memory": "8Gi", "pods": "29"})
    world.come_up(names[1])
    refuse(monkeypatch, world, "patch")
    loop = OpeningReconciler(world.context)
    with capture_logs() as logs:
        for _ in range(3):
            loop.reconcile(world.caught_up())
            world.clock.ahead_seconds += 1000.0
    events = [each["event"] for each in logs]
    assert events.count("Node is not opened to pods yet") > 1
    assert events.count("Pods are left to kube-scheduler") == 1


def test_with_the_setting_off_what_is_closed_opens_as_it_is_ready(world: World) -> None:
    first, second = two_nodes(world)
    expect(world, "a", 1)
    world.change_settings(place_as_planned=False)
    world.come_up(first)
    OpeningReconciler(world.context).reconcile(world.caught_up())
    assert not cordoned(world, first)
    assert cordoned(world, second)
    assert home(world, "a") == ""


def moved_to(world: World) -> list[str]:
    """Two Ready replacements of a command that deletes the node `old`, on which the pod `last` still runs."""
    names = two_nodes(world)
    world.kube.create(NODES, {"metadata": {"name": "old", "finalizers": [TERMINATION_FINALIZER]}})
    record = Record("x", "consolidation", "it saves", ("old",), ("token-1", "token-2"), world.clock.now())
    world.kube.patch(NODES, "old", {"metadata": {"annotations": {COMMAND_ANNOTATION: write_record(record)}}})
    world.add_pod("last", node="old")
    for name in names:
        world.come_up(name)
    return names


def test_replacements_stay_closed_until_the_pods_have_left_the_old_nodes_and_take_theirs_meanwhile(
    world: World,
) -> None:
    names = moved_to(world)
    loop = OpeningReconciler(world.context)
    loop.reconcile(world.caught_up())
    assert all(cordoned(world, name) for name in names), "the command is not committed"
    world.kube.delete(NODES, "old")
    expect(world, "a", 1)
    loop.reconcile(world.caught_up())
    assert all(cordoned(world, name) for name in names)
    assert home(world, "a") == names[0]
    world.kube.delete(PODS, "last", "default", grace_period_seconds=0)
    world.context.planning.moving_to = frozenset(names[1:])
    loop.reconcile(world.caught_up())
    assert cordoned(world, names[1]), "the pod that is made for the last one has its place there"
    world.context.planning.moving_to = frozenset()
    expect(world, "b", 2)
    loop.reconcile(world.caught_up())
    assert home(world, "b") == names[1]
    assert not any(cordoned(world, name) for name in names)


def test_a_pod_that_a_rollout_makes_is_bound_to_a_closed_replacement_before_the_command_is_committed(
    world: World,
) -> None:
    """A single replica starts elsewhere before its node goes: waiting for that node would be waiting for each other."""
    names = moved_to(world)
    expect(world, "a", 1)
    OpeningReconciler(world.context).reconcile(world.caught_up())
    assert home(world, "a") == names[0]
    assert all(cordoned(world, name) for name in names)


def test_a_disruption_budget_keeps_replacements_closed_for_a_minute_at_most(world: World) -> None:
    names = moved_to(world)
    world.kube.delete(NODES, "old")
    loop = OpeningReconciler(world.context)
    assert loop.reconcile(world.caught_up()) <= MOVING_SECONDS
    world.clock.ahead_seconds = MOVING_SECONDS - 1.0
    loop.reconcile(world.caught_up())
    assert all(cordoned(world, name) for name in names)
    world.clock.ahead_seconds = MOVING_SECONDS
    loop.reconcile(world.caught_up())
    assert not any(cordoned(world, name) for name in names)


def test_a_replacement_whose_pod_cannot_be_bound_opens_after_ten_seconds(world: World) -> None:
    """Here it has no room for it after all. The other one waits for its pods."""
    names = moved_to(world)
    world.kube.delete(NODES, "old")
    expect(world, "a", 1)
    room = {"cpu": "500m", "memory": "8Gi", "pods": "29"}
    world.kube.patch(NODES, names[0], {"status": {"allocatable": room}}, subresource="status")
    loop = OpeningReconciler(world.context)
    assert loop.reconcile(world.caught_up()) <= OPEN_SECONDS
    world.clock.ahead_seconds = OPEN_SECONDS
    loop.reconcile(world.caught_up())
    assert [cordoned(world, name) for name in names] == [False, True]
    assert home(world, "a") == ""


def test_a_replacement_whose_pods_come_one_after_the_other_stays_closed(world: World) -> None:
    """Each is bound at once, though some pod waits in every pass for more than ten seconds."""
    names = moved_to(world)
    world.kube.delete(NODES, "old")
    loop = OpeningReconciler(world.context)
    for seconds, pod in ((0.0, "a"), (OPEN_SECONDS - 1.0, "b"), (OPEN_SECONDS + 1.0, "c")):
        world.clock.ahead_seconds = seconds
        expect(world, pod, 1)
        room = {"cpu": "8", "memory": "8Gi", "pods": "29"}
        world.kube.patch(NODES, names[0], {"status": {"allocatable": room}}, subresource="status")
        loop.reconcile(world.caught_up())
        assert home(world, pod) != ""
        assert all(cordoned(world, name) for name in names)


def test_with_the_setting_off_replacements_open_as_they_are_ready(world: World) -> None:
    names = moved_to(world)
    world.change_settings(place_as_planned=False)
    OpeningReconciler(world.context).reconcile(world.caught_up())
    assert not any(cordoned(world, name) for name in names)


def refuse(monkeypatch: pytest.MonkeyPatch, world: World, verb: str) -> None:
    """All of the client's calls of a verb fail until the monkeypatch is undone."""

    def failing(resource: Resource, *_: Any, **__: Any) -> Any:
        raise KubeError(f"{resource.kind}: refused", 403)

    monkeypatch.setattr(world.kube, verb, failing)


def test_the_next_leader_opens_what_the_last_one_closed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows no plan: the pods are kube-scheduler's to place. Killed between the bindings and the opening."""
    names = two_nodes(world)
    expect(world, "a", 1)
    for name in names:
        world.come_up(name)
    refuse(monkeypatch, world, "patch")
    OpeningReconciler(world.context).reconcile(world.caught_up())
    monkeypatch.undo()
    assert all(cordoned(world, name) for name in names)
    assert home(world, "a") == names[0]
    world.context.planning.expected = {}
    world.passes(OpeningReconciler(world.context), all_open)


def test_where_pods_cannot_be_bound_the_nodes_open_all_the_same(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ClusterRole is of an earlier release, say."""
    names = two_nodes(world)
    expect(world, "a", 1)
    for name in names:
        world.come_up(name)
    snapshot = world.caught_up()
    refuse(monkeypatch, world, "create")
    OpeningReconciler(world.context).reconcile(snapshot)
    monkeypatch.undo()
    assert not any(cordoned(world, name) for name in names)


def test_whatever_is_wrong_with_bindings_the_nodes_open_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Bindings:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(opening_reconciler, "bindings", broken)
    names = two_nodes(world)
    expect(world, "a", 1)
    for name in names:
        world.come_up(name)
    with capture_logs() as logs:
        OpeningReconciler(world.context).reconcile(world.caught_up())
    assert not any(cordoned(world, name) for name in names)
    assert [entry["error"] for entry in logs if entry["log_level"] == "error"] == ["ZeroDivisionError: a bug"]
