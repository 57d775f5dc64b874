"""What is told without a simulation is never told wrongly: the screen says no only where a simulation would, too."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.node import Taint
from controller.core.api.pod import NodeSelectorTerm, PodVolume, SelectorRequirement, Toleration
from controller.core.api.workloads import PersistentVolume, PersistentVolumeClaim, StorageClass
from controller.core.cloud import Commitment, Offering
from controller.core.deprovisioning.candidates import Candidate
from controller.core.deprovisioning.cost_screen import CostScreen
from controller.core.deprovisioning.removal_simulation import Simulator
from controller.core.deprovisioning.worth import best_case_refusal, totals_of, worth
from controller.core.provisioning.plan import SolveOptions
from controller.core.state.snapshot import StateNode
from tests import factories
from tests.core.deprovisioning.builders import FREELY, MARKET, PRICES_ALONE, look, owner, parts, standing, types_of
from tests.examples import examples

MIXED = (
    *types_of(("c5.large", "2", "4Gi", 0.085), ("m5.large", "2", "8Gi", 0.096), ("m5.xlarge", "4", "16Gi", 0.192)),
    *types_of(("r5.xlarge", "4", "32Gi", 0.08), spot=True),
    factories.instance_type(
        name="c5.xlarge",
        cpu="4",
        memory="8Gi",
        offered=(Offering(factories.ZONES[0], keys.ON_DEMAND, 0.05, commitment=Commitment(1, 1, 0.17)),),
    ),
)
ASKED = st.fixed_dictionaries(
    {"cpu": st.sampled_from(("100m", "400m", "900m", "1500m")), "memory": st.sampled_from(("200Mi", "1Gi", "3Gi"))}
)
TAINTS = {"": (), "NoSchedule": (Taint("mine"),), "PreferNoSchedule": (Taint("mine", "", "PreferNoSchedule"),)}


def terms(*expressions: SelectorRequirement) -> tuple[NodeSelectorTerm, ...]:
    """One term each."""
    return tuple(NodeSelectorTerm((expression,)) for expression in expressions)


ELSEWHERE = SelectorRequirement(keys.HOSTNAME, "NotIn", ("n0",))
FIRST = SelectorRequirement(keys.HOSTNAME, "In", ("n0",))
WHERE: tuple[dict[str, Any], ...] = (
    {},
    {"node_selector": {keys.HOSTNAME: "n0"}},
    {"node_selector": {keys.ZONE: factories.ZONES[1]}},
    {"tolerations": (Toleration("mine", "Exists"),)},
    {"required_node_affinity": terms(ELSEWHERE)},
    {"required_node_affinity": terms(FIRST)},
    {"required_node_affinity": terms(FIRST, SelectorRequirement(keys.ARCH, "In", ("amd64",)))},
    {"required_node_affinity": (NodeSelectorTerm((), (SelectorRequirement("metadata.name", "In", ("n1",)),)),)},
    {"required_node_affinity": ()},
    {"required_node_affinity": terms(SelectorRequirement(keys.HOSTNAME, "Near", ("n0",)))},
    {"pod_fields": {"volumes": (PodVolume("data", "on-n0"),)}},
    {"pod_fields": {"volumes": (PodVolume("data", "in-b"),)}},
    {"pod_fields": {"volumes": (PodVolume("data", "not-bound"),)}},
)
"""What pods say of their nodes, themselves or by their volumes, and one thing that nobody understands."""
VOLUMES = [
    PersistentVolume("on-n0", node_affinity=terms(FIRST), claim=("default", "on-n0"), phase="Bound"),
    PersistentVolume("in-b", FrozenMap({keys.ZONE: factories.ZONES[1]}), claim=("default", "in-b"), phase="Bound"),
]
CLAIMS = [PersistentVolumeClaim("default", volume.name, volume.name) for volume in VOLUMES]
LOCAL = StorageClass("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer")
FREE = PersistentVolume("free", node_affinity=terms(FIRST), storage_class_name="local", phase="Available")
WAITS = [PersistentVolumeClaim("default", "not-bound"), PersistentVolumeClaim("default", "by-hand", "", "local")]
DISKS: dict[str, Any] = {
    "volumes": FrozenMap({volume.name: volume for volume in (*VOLUMES, FREE)}),
    "claims": FrozenMap({claim.key: claim for claim in (*CLAIMS, *WAITS)}),
    "storage_classes": FrozenMap({LOCAL.name: LOCAL}),
}
PODS = st.lists(st.tuples(ASKED, st.sampled_from(WHERE)), max_size=4)
NODES = st.lists(
    st.tuples(
        st.sampled_from([kind.name for kind in MIXED]),
        PODS,
        st.sampled_from(factories.ZONES[:2]),
        st.sampled_from(tuple(TAINTS)),
    ),
    min_size=2,
    max_size=4,
)


def judged(removed: tuple[Candidate, ...], simulator: Simulator, everyone: tuple[Candidate, ...]) -> tuple[bool, bool]:
    """Whether the screen leaves the removal open, and whether a simulation finds it worth it."""
    totals = totals_of(everyone)
    least = CostScreen(simulator).least_cost(removed)
    outcome = simulator.simulate([candidate.node for candidate in removed])
    accepted = not outcome.problem and not worth(removed, outcome, totals, simulator.catalog).refusal
    assert outcome.problem or outcome.cost >= least, f"costs {outcome.cost}, and {least} was said to be the least"
    return not best_case_refusal(removed, least, totals), accepted


@given(NODES, st.sampled_from((0.0, 0.15, 1.0)))
@examples(25)
def test_the_screen_never_rules_out_what_a_simulation_accepts(
    nodes: list[tuple[str, list[tuple[dict[str, str], dict[str, Any]]], str, str]], threshold: float
) -> None:
    """Whatever pods ask for, and whichever nodes they may use."""
    provisioner = owner(disruption=replace(FREELY, consolidation_threshold=threshold))
    standing_nodes: list[StateNode] = []
    for number, (kind, pods, zone, effect) in enumerate(nodes):
        name = f"n{number}"
        bound = [
            factories.running_pod(node=name, name=f"{name}-{n}", requests=asked, **where)
            for n, (asked, where) in enumerate(pods)
        ]
        standing_nodes.append(standing(name, kind, types=MIXED, zone=zone, taints=TAINTS[effect], pods=bound))
    view = factories.snapshot(nodes=standing_nodes, provisioners=[provisioner], **DISKS)
    everyone, simulator, _ = parts(view, MIXED)
    sets = [removed for size in (1, 2) for removed in combinations(everyone, size)]
    for removed in sets:
        open_still, accepted = judged(removed, simulator, everyone)
        assert open_still or not accepted, [candidate.name for candidate in removed]


@pytest.mark.parametrize(
    ("pods", "least"),
    [
        ([{"cpu": "1500m"}], 0.1),
        ([{"cpu": "400m"}], 0.0),
        ([{"cpu": "400m"}] * 3, 0.1),
        ([{"cpu": "1500m"}, {"cpu": "3"}, {"cpu": "1"}], 0.275),
        ([{"cpu": "100"}], float("inf")),
    ],
    ids=["fits on no node", "fits", "two of three fit", "amounts that cost more than any one node", "fits nowhere"],
)
def test_what_it_costs_at_least(pods: list[dict[str, str]], least: float) -> None:
    """Beside a node with 900m free; a cpu costs $0.05 an hour, and no instance less than $0.1."""
    nodes = [standing("a", "c5.2xlarge", *pods), standing("b", "c5.large", {"cpu": "1100m"})]
    everyone, simulator, _ = parts(factories.snapshot(nodes=nodes, provisioners=[owner()]), MARKET, PRICES_ALONE)
    (removed,) = (candidate for candidate in everyone if candidate.name == "a")
    assert CostScreen(simulator).least_cost([removed]) == pytest.approx(least)


@pytest.mark.parametrize(
    ("where", "least"),
    [
        ({}, 0.0),
        ({"node_selector": {"disk": "ssd"}}, 0.1),
        ({"node_selector": {keys.HOSTNAME: "a"}}, float("inf")),
        ({"required_node_affinity": terms(FIRST)}, float("inf")),
        ({"required_node_affinity": terms(FIRST, SelectorRequirement("disk", "Exists"))}, 0.1),
        ({"required_node_affinity": terms(FIRST, SelectorRequirement(keys.ARCH, "Exists"))}, 0.0),
        ({"required_node_affinity": terms(ELSEWHERE)}, 0.0),
        ({"required_node_affinity": terms(SelectorRequirement(keys.HOSTNAME, "Near", ("n0",)))}, 0.0),
        ({"pod_fields": {"volumes": (PodVolume("data", "on-n0"),)}}, float("inf")),
        ({"pod_fields": {"volumes": (PodVolume("data", "in-b"),)}}, 0.1),
        ({"pod_fields": {"volumes": (PodVolume("data", "not-bound"),)}}, 0.0),
        ({"pod_fields": {"volumes": (PodVolume("data", "by-hand"),)}}, 0.0),
    ],
    ids=[
        "anywhere",
        "a label that is not there",
        "its host",
        "a host",
        "a host, or a label that is not there",
        "a host, or a label that is there",
        "not a certain host",
        "what nobody understands",
        "its disk's host",
        "its disk's zone",
        "a disk not bound yet",
        "a disk that another claim may get",
    ],
)
def test_room_on_a_node_that_the_pod_may_not_use_is_none(where: dict[str, Any], least: float) -> None:
    """Beside a node with room for it; a pod that asks for a host by its name finds no new one either."""
    pod = factories.running_pod(node="a", requests={"cpu": "400m"}, **where)
    nodes = [standing("a", "c5.large", pods=[pod]), standing("b", "c5.large", {"cpu": "100m"})]
    everyone, simulator, _ = parts(
        factories.snapshot(nodes=nodes, provisioners=[owner()], **DISKS), MARKET, PRICES_ALONE
    )
    (removed,) = (candidate for candidate in everyone if candidate.name == "a")
    assert CostScreen(simulator).least_cost([removed]) == pytest.approx(least)


@pytest.mark.parametrize(("tolerations", "least"), [((), 0.1), ((Toleration("mine", "Exists"),), 0.0)])
def test_room_on_a_tainted_node_is_for_those_that_tolerate_it(
    tolerations: tuple[Toleration, ...], least: float
) -> None:
    pod = factories.running_pod(node="a", requests={"cpu": "400m"}, tolerations=tolerations)
    nodes = [standing("a", "c5.large", pods=[pod]), standing("b", "c5.large", taints=[Taint("mine")])]
    everyone, simulator, _ = parts(factories.snapshot(nodes=nodes, provisioners=[owner()]), MARKET, PRICES_ALONE)
    (removed,) = (candidate for candidate in everyone if candidate.name == "a")
    assert CostScreen(simulator).least_cost([removed]) == pytest.approx(least)


def test_a_fleet_of_full_nodes_is_left_alone_without_a_simulation() -> None:
    nodes = [standing(f"n{number:02}", "c5.large", {"cpu": "1900m"}) for number in range(40)]
    search = look(nodes, MARKET)
    assert search.simulations == 0
    assert {candidate.name for candidate, _ in search.kept} == {node.name for node in nodes}
    assert "costs $0.1200 an hour at least" in search.kept[0][1]


@pytest.mark.parametrize(("cpu", "simulated"), [("1500m", False), ("1100m", True)])
def test_a_full_node_at_the_least_price_per_pod_is_not_searched(cpu: str, simulated: bool) -> None:
    """Two of 1500m fill 4 cpus as they do no other type better, though a quarter of the cpus is free; three of 1100m
    fill a type that costs less than the two nodes they would save."""
    types = types_of(("c5.xlarge", "4", "8Gi", 0.2), ("c5.2xlarge", "8", "16Gi", 0.5))
    full = [standing(f"n{number}", "c5.xlarge", {"cpu": cpu}, {"cpu": cpu}, types=types) for number in range(6)]
    assert bool(look(full, types).simulations) == simulated


def test_what_a_commitment_covers_is_counted_at_its_price() -> None:
    view = factories.snapshot(nodes=[standing("a", "m5.xlarge", {"cpu": "3"}, types=MIXED)], provisioners=[owner()])
    for options, least in ((PRICES_ALONE, 0.05), (SolveOptions(node_cost_per_hour=0.03), 0.08)):
        everyone, simulator, _ = parts(view, MIXED, options)
        assert CostScreen(simulator).least_cost(everyone) == pytest.approx(least), "a c5.xlarge"
