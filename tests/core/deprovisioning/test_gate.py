"""The one gate of voluntary removals, and expiration through it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from controller.core.api.disruption import DisruptionPolicy, parse_budgets
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import Pod, PodKey
from controller.core.api.workloads import PodDisruptionBudget
from controller.core.deprovisioning.candidates import Candidate, candidates
from controller.core.deprovisioning.expiration import Expiration
from controller.core.deprovisioning.gate import Gate
from controller.core.deprovisioning.method import MethodInput, Proposal
from controller.core.deprovisioning.records import COMMAND_ANNOTATION, Record, engaged, recorded_commands, write_record
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.core.provisioning.plan import SolveOptions
from controller.core.state.snapshot import Snapshot, StateNode
from tests import factories

NOW = 1_700_000_000.0
TYPES = {"default": factories.small_catalog()}
WEB = {"app": "web"}
OWNER = factories.provisioner(disruption=DisruptionPolicy(expire_after_seconds=1000))


def standing(name: str, pods: Iterable[Pod] = (), **fields: Any) -> StateNode:
    state = {key: fields.pop(key) for key in ("nominated_until", "marked_for_deletion") if key in fields}
    return factories.state_node(node=factories.node(name=name, **{"created": NOW - 10, **fields}), pods=pods, **state)


def web(node: str, **fields: Any) -> Pod:
    return factories.running_pod(node=node, labels=WEB, **fields)


def world(nodes: Iterable[StateNode], **fields: Any) -> Snapshot:
    defaults: Mapping[str, Any] = {"provisioners": [OWNER]}
    return factories.snapshot(nodes=nodes, **{**defaults, **fields})


def pdb(name: str = "web", allowed: int = 0, namespace: str = "default") -> dict[PodKey, PodDisruptionBudget]:
    budget = PodDisruptionBudget(namespace, name, factories.selector(app="web"), allowed)
    return {(namespace, name): budget}


def kind(view: Snapshot, name: str = "a") -> str:
    (candidate,) = candidates(view, TYPES, NOW, [view.nodes[name]])
    refusal = Gate(view, NOW).refusal(candidate)
    return refusal.kind if refusal else ""


def expire(view: Snapshot) -> Proposal:
    simulator = Simulator(view, TYPES, options=SolveOptions(budget_seconds=0.0))
    return Expiration().decide(MethodInput(simulator, Gate(view, NOW), candidates(view, TYPES, NOW), NOW))


def names(proposal: Proposal) -> list[str]:
    return [candidate.name for command in proposal.commands for candidate in command.candidates]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ""),
        ({"initialized": False}, "starting"),
        ({"nominated_until": NOW + 1}, "nominated"),
        ({"nominated_until": NOW - 1}, ""),
        ({"marked_for_deletion": True}, "leaving"),
        ({"deleted_at": NOW}, "leaving"),
    ],
)
def test_what_the_node_itself_says(fields: dict[str, Any], expected: str) -> None:
    assert kind(world([standing("a", **fields)])) == expected


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        (pdb(allowed=0), "pdb"),
        (pdb(allowed=1), ""),
        (pdb(allowed=0, namespace="elsewhere"), ""),
        ({**pdb("one", 1), **pdb("two", 1)}, "pdb"),
    ],
)
def test_disruption_budgets_of_pods(budgets: dict[PodKey, PodDisruptionBudget], expected: str) -> None:
    """Several budgets on one pod make the eviction API answer 500 for ever."""
    assert kind(world([standing("a", [web("a")])], budgets=FrozenMap(budgets))) == expected


@pytest.mark.parametrize(
    ("fields", "value", "expected"),
    [
        ({}, "true", "do-not-evict"),
        ({}, "false", ""),
        ({"pod_fields": {"deleted_at": NOW}}, "true", ""),
        ({"pod_fields": {"phase": "Succeeded"}}, "true", ""),
    ],
)
def test_do_not_evict(fields: dict[str, Any], value: str, expected: str) -> None:
    pod = web("a", annotations={"karpenter.sh/do-not-evict": value}, **fields)
    assert kind(world([standing("a", [pod])])) == expected


@pytest.mark.parametrize(
    ("left", "expected"), [({factories.ZONES[0]}, "zone-left"), ({factories.ZONES[1]}, ""), (set(), "")]
)
def test_a_zone_that_a_zonal_shift_leaves_keeps_its_nodes(left: set[str], expected: str) -> None:
    view = world([standing("a")])
    (candidate,) = candidates(view, TYPES, NOW)
    refusal = Gate(view, NOW, zones_left=frozenset(left)).refusal(candidate)
    assert (refusal.kind if refusal else "") == expected


def test_nodes_of_a_command_on_record_are_left_to_it() -> None:
    """Those that it removes and those that it launched."""
    record = write_record(Record("id", "expiration", "old", ("a",), ("token",), NOW))
    view = world(
        [
            standing("a", annotations=FrozenMap({COMMAND_ANNOTATION: record})),
            standing("b", annotations=FrozenMap({LAUNCH_TOKEN: "token"})),
            standing("c"),
        ]
    )
    assert [kind(view, name) for name in "abc"] == ["engaged", "engaged", ""]
    assert engaged(view) == {"a", "b"}


def test_a_record_survives_the_round_trip() -> None:
    record = Record("id", "expiration", "old", ("a", "b"), ("t1", "t2"), NOW, cordoned=False)
    view = world([standing(n, annotations=FrozenMap({COMMAND_ANNOTATION: write_record(record)})) for n in "ab"])
    (command,) = recorded_commands(view)
    assert (command.record, command.torn, command.committed) == (record, False, False)
    assert [node.name for node in command.carriers] == ["a", "b"]


@pytest.mark.parametrize("text", ["", "[]", "null", '{"id": "x"}', '{"nodes": 3}'])
def test_a_record_that_nobody_can_read_is_one_to_roll_back(text: str) -> None:
    (command,) = recorded_commands(world([standing("a", annotations=FrozenMap({COMMAND_ANNOTATION: text}))]))
    assert command.record.method == "unreadable"
    assert command.record.nodes == ("a",)


def test_a_command_is_torn_when_one_of_its_nodes_is_not_marked_and_committed_when_one_goes() -> None:
    text = FrozenMap({COMMAND_ANNOTATION: write_record(Record("id", "expiration", "old", ("a", "b"), (), NOW))})
    (torn,) = recorded_commands(world([standing("a", annotations=text), standing("b")]))
    assert (torn.torn, torn.committed) == (True, False)
    (begun,) = recorded_commands(
        world([standing("a", annotations=text, deleted_at=NOW), standing("b", annotations=text)])
    )
    assert (begun.torn, begun.committed) == (False, True)
    (half,) = recorded_commands(world([standing("b", annotations=text)]))
    assert (half.torn, half.committed) == (False, True)


def test_nodes_expire_in_the_order_of_their_age_one_at_a_time() -> None:
    """The default budget of 10 % of three nodes is one."""
    view = world([standing(n, [web(n)], created=NOW - age) for n, age in (("a", 1500), ("b", 2000), ("c", 900))])
    proposal = expire(view)
    assert names(proposal) == ["b"]
    assert "ttlSecondsUntilExpired of 1000 s" in proposal.commands[0].text()


def test_an_expired_node_is_replaced_when_its_pods_fit_nowhere_else() -> None:
    """Replacements come first, even on the cheapest node there is."""
    big = web("a", requests={"cpu": "1500m"})
    proposal = expire(world([standing("a", [big], created=NOW - 1500)]))
    assert [list(node.pods) for node in proposal.commands[0].replacements] == [[big.key]]


def test_an_expired_node_is_deleted_when_there_is_room_elsewhere() -> None:
    small = web("a", requests={"cpu": "100m"})
    proposal = expire(world([standing("a", [small], created=NOW - 1500), standing("b")]))
    assert proposal.commands[0].action == "delete"


def test_room_on_nodes_that_are_not_ours_counts() -> None:
    small = web("a", requests={"cpu": "100m"})
    proposal = expire(world([standing("a", [small], created=NOW - 1500), standing("b", provisioner="")]))
    assert proposal.commands[0].action == "delete"


def test_an_expired_node_whose_pods_fit_nowhere_stays_and_says_so() -> None:
    """Karpenter v0.27 deletes it all the same."""
    huge = web("a", requests={"cpu": "64"})
    proposal = expire(world([standing("a", [huge], created=NOW - 1500, allocatable={"cpu": "96", "pods": 10})]))
    assert proposal.commands == ()
    ((_, reason),) = proposal.blocked
    assert "not all pods fit elsewhere" in reason
    assert huge.name in reason


def test_a_pending_pod_that_nobody_can_place_holds_nothing_back() -> None:
    stuck = factories.pending_pod(requests={"cpu": "1000"})
    small = web("a", requests={"cpu": "100m"})
    view = world([standing("a", [small], created=NOW - 1500), standing("b")], pending=[stuck])
    assert names(expire(view)) == ["a"]


def test_room_that_a_pending_pod_is_about_to_take_is_not_counted_on() -> None:
    pending = factories.pending_pod(requests={"cpu": "1500m"})
    small = web("a", requests={"cpu": "1500m"})
    view = world([standing("a", [small], created=NOW - 1500), standing("b")], pending=[pending])
    proposal = expire(view)
    assert len(proposal.commands[0].replacements) == 1


def test_a_node_that_may_not_go_does_not_hold_back_those_behind_it() -> None:
    kept = web("a", annotations={"karpenter.sh/do-not-evict": "true"})
    view = world([standing("a", [kept], created=NOW - 2000), standing("b", created=NOW - 1500)])
    proposal = expire(view)
    assert names(proposal) == ["b"]
    assert [candidate.name for candidate, _ in proposal.blocked] == ["a"]


def test_a_budget_of_zero_stops_expiry_and_says_so() -> None:
    policy = DisruptionPolicy(expire_after_seconds=1000, budgets=parse_budgets('[{"nodes": "0"}]'))
    owner = factories.provisioner(disruption=policy)
    proposal = expire(world([standing("a", created=NOW - 1500)], provisioners=[owner]))
    assert names(proposal) == []
    assert "disruption budget" in proposal.blocked[0][1]


def test_nodes_that_leave_for_any_reason_use_up_the_budget() -> None:
    view = world([standing("a", created=NOW - 1500), standing("b", deleted_at=NOW)])
    assert names(expire(view)) == []


def test_a_user_may_mark_a_node_as_expired() -> None:
    marked = standing("a", annotations=FrozenMap({"karpenter.sh/voluntary-disruption": "expired"}), created=NOW - 5)
    other = standing("b", annotations=FrozenMap({"karpenter.sh/voluntary-disruption": "wrong"}), created=NOW - 5)
    assert names(expire(world([marked, other]))) == ["a"]


def test_an_uninitialized_target_is_waited_for() -> None:
    small = web("a", requests={"cpu": "100m"})
    proposal = expire(world([standing("a", [small], created=NOW - 1500), standing("b", initialized=False)]))
    assert proposal.commands == ()
    assert "b is not initialized" in proposal.blocked[0][1]


def test_candidates_are_values() -> None:
    view = world([standing("a", [web("a", name="p")], created=NOW - 1500)])
    first: tuple[Candidate, ...] = candidates(view, TYPES, NOW)
    assert first == candidates(view, TYPES, NOW)
