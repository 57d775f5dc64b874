"""Whether the plan of closed replacements still holds, and which pods have a place on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import INITIALIZED, OPENS_WITH
from controller.core.api.node import Taint
from controller.core.api.pod import PodKey
from controller.core.cloud import InstanceType
from controller.core.deprovisioning.records import COMMAND_ANNOTATION, Record, recorded_commands, write_record
from controller.core.deprovisioning.removal_simulation import Outcome
from controller.core.deprovisioning.sets.planned_moves import (
    MOST_CLOSED,
    as_planned,
    kept_closed,
    places_on_closed_nodes,
    takes_moved_pods,
    to_close,
)
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.core.machines.on_their_way import stand_in_name
from controller.core.machines.opening import closing_taint
from controller.core.provisioning.plan import ExistingPlacement, SchedulingPlan, SolvedProblem
from controller.core.provisioning.problem import build
from controller.core.state.snapshot import Snapshot, StateNode
from tests import factories
from tests.core.deprovisioning.builders import GPU, MARKET, NOW, owner, parts, standing

LARGE, SMALL = {"cpu": "3", "memory": "1Gi"}, {"cpu": "1500m", "memory": "1Gi"}
RECORD = Record("x", "consolidation", "it saves", ("old",), ("one", "two"), NOW)
PLANNED = {
    stand_in_name("one"): (("default", "old-0"),),
    stand_in_name("two"): (("default", "old-1"),),
    "open": (("default", "old-2"),),
}
"""The large pod of the old node on one replacement, a small one on the other, a third on a node that was there."""


def marked(node: StateNode, **annotations: str) -> StateNode:
    keys = {"token": LAUNCH_TOKEN, "closed": OPENS_WITH, "record": COMMAND_ANNOTATION}
    named = {keys[name]: value for name, value in annotations.items()}
    return replace(node, node=replace(node.node, annotations=FrozenMap({**node.node.annotations, **named})))


def closed(name: str, kind: str, *requests: dict[str, str], types: Iterable[InstanceType] = MARKET) -> StateNode:
    """A replacement that lacks nothing but being opened."""
    node = marked(standing(name, kind, *requests, types=types), token=name, closed="one")
    own = {key: value for key, value in node.node.labels.items() if key != INITIALIZED}
    return replace(node, node=replace(node.node, labels=FrozenMap(own)))


OLD = marked(standing("old", "c5.2xlarge", LARGE, SMALL, SMALL), record=write_record(RECORD))
ONE, TWO, OPEN = closed("one", "c5.xlarge"), closed("two", "c5.large"), standing("open", "c5.large")


def outcome(*nodes: StateNode, planned: Mapping[str, Sequence[PodKey]] = PLANNED) -> tuple[Outcome | None, Snapshot]:
    view = factories.snapshot(nodes=nodes, provisioners=[owner()])
    (command,) = recorded_commands(view)
    return as_planned(planned, [view.nodes["old"]], command, parts(view)[1]), view


def test_a_plan_that_holds_is_carried_out_and_its_closed_nodes_have_places() -> None:
    found, view = outcome(OLD, ONE, TWO, OPEN)
    assert found is not None
    assert found.targets == ("one", "open", "two")
    assert not found.problem
    assert not found.replacements
    places = places_on_closed_nodes(found, [view.nodes["old"]], view)
    assert {pod.name: place.node for pod, place in places} == {"old-0": "one", "old-1": "two"}, "others are left alone"


OPENED = marked(standing("two", "c5.large"), token="two")
MORE = marked(standing("old", "c5.2xlarge", LARGE, SMALL, SMALL, SMALL), record=write_record(RECORD))


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param((OLD, ONE, OPENED, OPEN), id="a replacement is open"),
        pytest.param((OLD, ONE, TWO), id="a node that takes pods is gone"),
        pytest.param((OLD, ONE, TWO, standing("open", "c5.large", SMALL)), id="its room was taken"),
        pytest.param((OLD, ONE, closed("two", "c5.large", SMALL), OPEN), id="a replacement's room was taken"),
        pytest.param((MORE, ONE, TWO, OPEN), id="a pod has come since"),
    ],
)
def test_a_plan_that_does_not_hold_any_more_is_not_carried_out(nodes: tuple[StateNode, ...]) -> None:
    assert outcome(*nodes)[0] is None


def test_a_pod_that_is_gone_leaves_its_place_free() -> None:
    fewer = marked(standing("old", "c5.2xlarge", LARGE), record=write_record(RECORD))
    found, _ = outcome(fewer, ONE, TWO, OPEN)
    assert found is not None
    assert found.targets == ("one",)


def test_a_process_that_did_not_launch_them_knows_no_plan() -> None:
    assert outcome(OLD, ONE, TWO, OPEN, planned={})[0] is None


def committed(node: StateNode) -> StateNode:
    return replace(node, node=replace(node.node, deleted_at=NOW))


EMPTY_OLD = marked(standing("old", "c5.2xlarge"), record=write_record(RECORD))


@pytest.mark.parametrize(
    ("nodes", "kept"),
    [
        ((OLD, ONE, TWO), {"one": False, "two": False}),
        ((committed(OLD), ONE, TWO), {"one": True, "two": True}),
        ((committed(OLD), ONE, marked(standing("two", "c5.large"), token="two")), {"one": True}),
        ((committed(EMPTY_OLD), ONE, TWO), {}),  # all pods have moved
        ((ONE, TWO), {}),  # the last node with the record is gone
    ],
)
def test_replacements_are_kept_closed_until_the_pods_have_left_the_old_nodes(
    nodes: Iterable[StateNode], kept: dict[str, bool]
) -> None:
    assert kept_closed(factories.snapshot(nodes=nodes, provisioners=[owner()])) == kept


def shut(node: StateNode, command: str = RECORD.id) -> StateNode:
    """A node in service that this command has closed."""
    return replace(node, node=replace(node.node, taints=(closing_taint(command),)))


@pytest.mark.parametrize(
    ("old", "taken", "kept"),
    [
        (committed(OLD), shut(OPEN), True),
        (replace(OLD, marked_for_deletion=True), shut(OPEN), True),  # it is closed before the old node is deleted
        (OLD, shut(OPEN), False),  # the process died in between, or may not delete the node after all
        (committed(EMPTY_OLD), shut(OPEN), False),
        (committed(OLD), shut(OPEN, "another"), False),
        (committed(OLD), OPEN, False),
    ],
    ids=["its pods move", "is about to be deleted", "not begun", "its pods have moved", "another command's", "open"],
)
def test_nodes_in_service_are_kept_closed_while_the_pods_leave_the_old_nodes(
    old: StateNode, taken: StateNode, *, kept: bool
) -> None:
    assert kept_closed(factories.snapshot(nodes=[old, taken], provisioners=[owner()])) == (
        {"open": True} if kept else {}
    )


def closing(old: StateNode, *taking: StateNode) -> list[str]:
    """Names of the nodes that are closed when the pods of the old one move to these, one to each, the rest to the
    last."""
    view = factories.snapshot(nodes=[old, *taking], provisioners=[owner()])
    keys = [pod.key for pod in old.pods]
    shares = [keys[i : i + 1] for i in range(len(taking) - 1)] + [keys[len(taking) - 1 :]]
    placed = tuple(ExistingPlacement(node.name, tuple(pods), "") for node, pods in zip(taking, shares, strict=True))
    solved = SolvedProblem(build(view, {}, old.pods), SchedulingPlan(existing=placed))
    return [node.name for node in to_close(Outcome(solved=solved), [old], view)]


def leaving(*requests: dict[str, str], scheduler: str = "default-scheduler") -> StateNode:
    """A node with a pod of a ReplicaSet for each of these."""
    web = factories.replica_set_owner()
    pods = [
        factories.running_pod(node="old", name=f"old-{n}", owner=web, requests=each, scheduler_name=scheduler)
        for n, each in enumerate(requests)
    ]
    return standing("old", "c5.2xlarge", pods=pods)


ROOMY = tuple(standing(f"room-{n}", "c5.2xlarge") for n in range(MOST_CLOSED + 1))
UNREADY = replace(ROOMY[1], node=replace(ROOMY[1].node, ready=False))
FOREIGN = standing("foreign", "c5.2xlarge", provisioner="")


def test_nodes_in_service_that_take_pods_of_several_sizes_are_closed_meanwhile() -> None:
    assert closing(leaving(LARGE, SMALL), *ROOMY[:2]) == ["room-0", "room-1"]


@pytest.mark.parametrize(
    ("old", "taking", "closed_ones"),
    [
        pytest.param(leaving(LARGE, SMALL), ROOMY[:1], [], id="all to one node"),
        pytest.param(leaving(SMALL, SMALL), ROOMY[:2], [], id="pods of one size"),
        pytest.param(leaving(LARGE, SMALL), (FOREIGN, ROOMY[0]), ["room-0"], id="a node of nobody's Provisioner"),
        pytest.param(leaving(LARGE, SMALL), (UNREADY, ROOMY[0]), ["room-0"], id="a node that is not Ready"),
        pytest.param(leaving(LARGE, SMALL), (shut(ROOMY[1]), ROOMY[0]), ["room-0"], id="closed already"),
        pytest.param(leaving(LARGE, SMALL, scheduler="volcano"), ROOMY[:2], [], id="pods of another scheduler"),
        pytest.param(leaving(LARGE, *[SMALL] * MOST_CLOSED), ROOMY, [], id="too many"),
    ],
)
def test_where_it_makes_no_difference_or_only_kube_scheduler_may_bind_the_pods_they_stay_open(
    old: StateNode, taking: Sequence[StateNode], closed_ones: list[str]
) -> None:
    assert closing(old, *taking) == closed_ones


STARTUP = Taint("agent", "", "NoSchedule")


@pytest.mark.parametrize(
    ("node", "takes"),
    [
        (ONE, True),
        (standing("one", "c5.xlarge"), True),
        (replace(ONE, node=replace(ONE.node, ready=False)), False),
        (replace(ONE, node=replace(ONE.node, taints=(STARTUP,))), False),
        (replace(ONE, node=replace(ONE.node, annotations=FrozenMap())), False),  # it will be initialized in a moment
        (closed("one", "c5.unknown", types=[factories.instance_type(name="c5.unknown")]), False),
    ],
)
def test_a_closed_replacement_takes_pods_once_it_would_be_initialized_if_it_were_open(
    node: StateNode, takes: bool
) -> None:
    view = factories.snapshot(nodes=[node], provisioners=[owner(startup_taints=(STARTUP,))])
    assert takes_moved_pods(view.nodes["one"], view, {"default": MARKET}) is takes


def test_a_closed_replacement_takes_no_pods_before_its_devices_are_reported() -> None:
    kind = factories.instance_type(name="c5.xlarge", cpu="4", memory="8Gi", extended={GPU: 1})
    types: tuple[InstanceType, ...] = (kind,)
    view = factories.snapshot(nodes=[ONE], provisioners=[owner()])
    assert not takes_moved_pods(view.nodes["one"], view, {"default": types})
