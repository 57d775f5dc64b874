"""Repair: unhealthy nodes are removed, unless so many are unhealthy that it cannot be the nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.node import Taint, UnhealthyCondition
from controller.core.api.workloads import PodDisruptionBudget
from controller.core.deprovisioning.candidates import candidates
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.method import MethodInput, Proposal
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.deprovisioning.repair import Repair, RepairPolicy
from controller.core.state.snapshot import Snapshot, StateNode
from tests import factories
from tests.core.deprovisioning.builders import GPU, removed

NOW = 1_700_000_000.0
REPAIR = Repair(RepairPolicy())
MINUTE = 60.0


def ill(name: str, since: float, condition: str = "Ready", status: str = "False", **fields: Any) -> StateNode:
    """A node that has had a failing condition since then."""
    pods = fields.pop("pods", ())
    unhealthy = (UnhealthyCondition(condition, status, since),)
    fields = {"ready": condition != "Ready", "created": NOW - 90_000.0, **fields}
    return factories.state_node(node=factories.node(name=name, unhealthy=unhealthy, **fields), pods=pods)


def well(count: int, prefix: str = "well", **fields: Any) -> list[StateNode]:
    return [
        factories.state_node(node=factories.node(name=f"{prefix}-{number:04}", created=NOW - 90_000.0, **fields))
        for number in range(count)
    ]


def cluster(*nodes: StateNode, **fields: Any) -> Snapshot:
    owners = fields.pop("provisioners", [factories.provisioner(), factories.provisioner(name="other")])
    return factories.snapshot(nodes=nodes, provisioners=owners, **fields)


def decide(view: Snapshot, now: float = NOW, repair: Repair = REPAIR, types: Iterable[Any] = ()) -> Proposal:
    catalog = dict.fromkeys(view.provisioners, tuple(types))
    return repair.decide(MethodInput(Simulator(view, EMPTY), Gate(view, now), candidates(view, catalog, now), now))


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_node_that_is_not_ready_for_half_an_hour_goes(status: str) -> None:
    view = cluster(ill("sick", NOW, status=status), *well(9))
    early = decide(view, NOW + 30 * MINUTE - 1)
    assert removed(early) == []
    assert early.again_seconds == 1.0
    (command,) = decide(view, NOW + 30 * MINUTE).commands
    assert command.candidates[0].name == "sick"
    assert command.because == f"condition Ready has been {status} for 1800 s"
    assert command.replacements == (), "nothing is launched before: limits may count the broken node"


@pytest.mark.parametrize(
    ("condition", "minutes"),
    [
        ("AcceleratedHardwareReady", 10),
        ("ContainerRuntimeReady", 30),
        ("KernelReady", 30),
        ("NetworkingReady", 30),
        ("StorageReady", 30),
    ],
)
def test_what_the_monitoring_agent_reports_is_repaired_in_its_time(condition: str, minutes: int) -> None:
    view = cluster(ill("sick", NOW, condition), *well(9))
    assert removed(decide(view, NOW + minutes * MINUTE - 1)) == []
    assert removed(decide(view, NOW + minutes * MINUTE)) == [["sick"]]


def test_repair_can_be_slower_or_off() -> None:
    view = cluster(ill("sick", NOW), ill("gpu", NOW, "AcceleratedHardwareReady"), *well(8))
    slow = Repair(RepairPolicy(not_ready_seconds=7200.0))
    assert removed(decide(view, NOW + 7199, slow)) == [["gpu"]]
    off = Repair(RepairPolicy(sick_nodes=False))
    assert removed(decide(view, NOW + 90_000, off)) == []


def test_of_a_thousand_nodes_a_hundred_broken_are_replaced() -> None:
    """Seen every two minutes: they fall ill one after the other, and a replacement joins five minutes later."""
    nodes = {node.name: node for node in well(900)}
    broken = {f"sick-{number:03}": NOW + 20.0 * number for number in range(100)}
    joining: list[tuple[float, StateNode]] = []
    gone_at: dict[str, float] = {}
    for minute in range(0, 80, 2):
        now = NOW + minute * MINUTE
        sick = {name: ill(name, min(now, since)) for name, since in broken.items() if name not in gone_at}
        for at, node in [each for each in joining if each[0] <= now]:
            joining.remove((at, node))
            nodes[node.name] = node
        view = cluster(*nodes.values(), *sick.values())
        for (name,) in removed(decide(view, now)):
            gone_at[name] = now
            joining += [(now + 5 * MINUTE, node) for node in well(1, f"new-{name}")]
    assert set(gone_at) == set(broken), "all of the broken, and nothing else"
    waited = [gone_at[name] - broken[name] for name in broken]
    assert min(waited) >= 30 * MINUTE
    assert max(waited) <= 32 * MINUTE
    assert len(nodes) == 1000


def test_of_a_thousand_that_seem_sick_none_is_removed() -> None:
    """The control plane hears of no kubelet: for three hours, whether all fall silent at once or over ten minutes."""
    healthy = well(1000)
    for spread in (0.0, 600.0):
        falls = [NOW + spread * number / 1000 for number in range(1000)]
        silent = [ill(node.name, since, status="Unknown") for node, since in zip(healthy, falls, strict=True)]
        for minute in (0, 5, 10, 29, 30, 31, 35, 40, 60, 180):
            now = NOW + minute * MINUTE
            seen = zip(healthy, silent, falls, strict=True)
            proposal = decide(cluster(*(sick if since <= now else node for node, sick, since in seen)), now)
            assert removed(proposal) == []
    assert len(proposal.blocked) == 1000
    assert "1000 of 1000 nodes of Provisioner default are unhealthy at once" in proposal.blocked[0][1]


def test_those_that_are_not_due_yet_count_too() -> None:
    """One has been sick for long, the others fall ill now: the next minutes will tell what it is."""
    view = cluster(ill("first", NOW - 7200), *(ill(f"n{number}", NOW - 1) for number in range(2)), *well(7))
    assert removed(decide(view)) == []
    fewer = cluster(ill("first", NOW - 7200), ill("second", NOW - 1), *well(8))
    assert removed(decide(fewer)) == [["first"]]


def test_those_on_their_way_out_count_as_well_unless_they_fell_ill_by_going() -> None:
    old = NOW - 60
    leaving = [ill(f"n{number}", NOW - 7200, deleted_at=old) for number in range(2)]
    assert removed(decide(cluster(ill("sick", NOW - 7200), *leaving, *well(7)))) == []
    shut_down = [ill(f"n{number}", NOW - 30, deleted_at=old) for number in range(2)]
    assert removed(decide(cluster(ill("sick", NOW - 7200), *shut_down, *well(7)))) == [["sick"]]


def test_a_provisioner_whose_nodes_fall_ill_together_does_not_hold_back_another() -> None:
    bad_image = [ill(f"bad-{number}", NOW - 7200, provisioner="other") for number in range(3)]
    view = cluster(ill("sick", NOW - 7200), *bad_image, *well(50))
    proposal = decide(view)
    assert removed(proposal) == [["sick"]]
    assert {candidate.name for candidate, _ in proposal.blocked} == {"bad-0", "bad-1", "bad-2"}
    assert "Provisioner other" in proposal.blocked[0][1]


def test_nodes_of_others_count_for_the_cluster() -> None:
    """The fault of the control plane shows on a managed node group, too."""
    strangers = [ill(f"x{number}", NOW - 60, provisioner="") for number in range(20)]
    proposal = decide(cluster(ill("sick", NOW - 7200), *strangers, *well(50)))
    assert removed(proposal) == []
    assert "21 of 71 nodes of the cluster" in proposal.blocked[0][1]


def test_the_only_node_of_a_provisioner_may_be_repaired() -> None:
    """20 % is rounded up, as elsewhere."""
    assert removed(decide(cluster(ill("sick", NOW - 7200)))) == [["sick"]]
    assert removed(decide(cluster(ill("a", NOW - 7200), ill("b", NOW - 7200)))) == []


def test_pods_keep_a_node_only_while_it_is_ready() -> None:
    """Where it is not, they serve nobody, and a budget that counts them may allow nothing for ever."""
    labels = FrozenMap({"app": "web"})
    budget = PodDisruptionBudget("default", "web", factories.selector(app="web"), 0)
    for condition, expected in (("Ready", [["sick"]]), ("KernelReady", [])):
        pod = factories.running_pod(node="sick", labels=labels)
        view = cluster(ill("sick", NOW - 7200, condition, pods=[pod]), *well(9), budgets={("default", "web"): budget})
        proposal = decide(view)
        assert removed(proposal) == expected
        assert [why for _, why in proposal.blocked] == (
            []
            if expected
            else [f"PodDisruptionBudget default/web allows no disruption; it holds pod default/{pod.name}"]
        )


def test_it_is_asked_again_before_the_deletion() -> None:
    due, now_well = ill("sick", NOW - 7200), factories.state_node(node=factories.node(name="sick"))
    (candidate,) = decide(cluster(due, *well(9))).commands[0].candidates
    assert REPAIR.wanted(candidate, cluster(due, *well(9)), NOW)
    assert not REPAIR.wanted(replace(candidate, node=now_well), cluster(now_well, *well(9)), NOW)
    spread = cluster(due, *(ill(f"n{number}", NOW) for number in range(5)), *well(4))
    assert not REPAIR.wanted(candidate, spread, NOW), "the others fell ill since it was decided"


def late(name: str = "late", **fields: Any) -> StateNode:
    """A node that joined and was not initialized in time."""
    fields = {"created": NOW - 900, "initialized": False, "capacity": {"cpu": "2"}, **fields}
    pods = fields.pop("pods", ())
    said = fields.pop("no_room", "it was not initialized within 900 s")
    return replace(factories.state_node(node=factories.node(name=name, **fields), pods=pods), no_room=said)


def test_a_node_that_never_becomes_ready_goes_at_its_deadline() -> None:
    never = (UnhealthyCondition("Ready", "False", NOW - 870),)
    assert removed(decide(cluster(late(ready=False, unhealthy=never, no_room="")))) == []
    proposal = decide(cluster(late(ready=False, unhealthy=never)))
    assert removed(proposal) == [["late"]]
    assert proposal.commands[0].because == "it was not initialized within 900 s: condition Ready is not True"
    assert removed(decide(cluster(late(ready=False, capacity={})))) == [], "one that never joined is not repair's"


def test_all_late_nodes_go_however_many() -> None:
    """They are no room for pods: were they kept, each deadline would add as many again."""
    late_ones = [late(f"late-{number}", ready=False) for number in range(5)]
    sick = [ill(f"sick-{number}", NOW - 7200) for number in range(5)]
    assert len(removed(decide(cluster(*late_ones)))) == 5
    proposal = decide(cluster(*late_ones, *sick))
    assert removed(proposal) == [[f"late-{number}"] for number in range(5)]
    (candidate,) = proposal.commands[0].candidates
    assert REPAIR.wanted(candidate, cluster(*late_ones, *sick), NOW)


def test_a_ready_node_that_is_late_goes_when_it_is_known_why_and_nobody_uses_it() -> None:
    taint = Taint("agent/not-ready", effect="NoExecute")
    slow = [factories.provisioner(startup_taints=(taint,))]
    assert removed(decide(cluster(late(taints=[taint]), provisioners=slow))) == [["late"]]
    pod = factories.running_pod(node="late")
    assert removed(decide(cluster(late(taints=[taint], pods=[pod]), provisioners=slow))) == [], "it works for somebody"
    gpu = factories.instance_type(name="g5.xlarge", cpu="2", memory="8Gi", extended={GPU: 1})
    without_driver = late(instance_type="g5.xlarge")
    assert removed(decide(cluster(without_driver), types=[gpu])) == [["late"]]
    assert removed(decide(cluster(without_driver))) == [], "nobody knows what its type has"
