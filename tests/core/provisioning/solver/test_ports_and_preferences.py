"""Host ports, and preferences that are kept where they can be and given up in order where not."""

from __future__ import annotations

import pytest

from controller.core.api import labels as keys
from controller.core.api.node import Taint
from controller.core.api.pod import HostPort
from tests.core.provisioning.plans import SMALL, daemon_sets, homes, preferring, solved
from tests.factories import (
    ZONES,
    node,
    node_affinity,
    pending_pod,
    pending_pods,
    problem,
    provisioner,
    requirement,
    running_pod,
    state_node,
)


@pytest.mark.parametrize(
    ("one", "two", "nodes"),
    [
        (HostPort(80), HostPort(80), 2),
        (HostPort(80), HostPort(81), 1),
        (HostPort(80, "TCP"), HostPort(80, "UDP"), 1),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip="10.0.0.2"), 1),
        (HostPort(80, ip="10.0.0.1"), HostPort(80), 2),
        (HostPort(80, ip="10.0.0.1"), HostPort(80, ip="::"), 2),
    ],
)
def test_host_ports_that_conflict_part_pods(one: HostPort, two: HostPort, nodes: int) -> None:
    pods = [pending_pod(host_ports=(port,), requests=SMALL) for port in (one, two)]
    assert len(solved(problem(pending=pods)).new_nodes) == nodes


def test_host_ports_of_running_pods_are_taken() -> None:
    existing = state_node(node=node(name="n"), pods=[running_pod(node="n", host_ports=(HostPort(80),), requests=SMALL)])
    plan = solved(problem(pending=[pending_pod(host_ports=(HostPort(80),), requests=SMALL)], nodes=[existing]))
    assert plan.existing == ()


def test_host_ports_of_daemons_are_taken_on_every_node_they_run_on() -> None:
    asked = problem(
        pending=[pending_pod(host_ports=(HostPort(9100),), requests=SMALL)],
        nodes=[state_node(node=node(name="n"))],
        daemon_sets=daemon_sets(requests=SMALL, host_ports=(HostPort(9100),)),
    )
    plan = solved(asked)
    assert "a DaemonSet takes its host port 9100/TCP on every node" in plan.unplaced[0].reason


def test_a_preference_that_can_be_met_is() -> None:
    asked = pending_pod(preferred_node_affinity=preferring(keys.ZONE, ZONES[1]))
    posed = problem(pending=[asked])
    assert homes(solved(posed), posed)[asked.key] == ZONES[1]


def test_a_preference_that_cannot_be_met_is_dropped() -> None:
    asked = pending_pod(preferred_node_affinity=preferring(keys.ZONE, "nowhere"))
    assert solved(problem(pending=[asked])).unplaced == ()


def test_the_heavier_preference_goes_first_so_that_a_lighter_one_can_hold() -> None:
    asked = pending_pod(
        preferred_node_affinity=(*preferring(keys.ZONE, ZONES[1]), *preferring(keys.ZONE, "nowhere", weight=100))
    )
    posed = problem(pending=[asked])
    assert homes(solved(posed), posed)[asked.key] == ZONES[1]


def test_a_preference_against_a_requirement_is_dropped() -> None:
    asked = pending_pod(
        required_node_affinity=node_affinity(requirement(keys.ZONE, "In", ZONES[2])),
        preferred_node_affinity=preferring(keys.ZONE, ZONES[0]),
    )
    posed = problem(pending=[asked])
    assert homes(solved(posed), posed)[asked.key] == ZONES[2]


def test_a_provisioner_without_a_preferred_taint_is_preferred() -> None:
    """Where it is the only one, the taint is accepted."""
    soft = provisioner(name="soft", weight=50, taints=[Taint("a", "", "PreferNoSchedule")])
    plan = solved(problem(pending=[pending_pod()], provisioners=[soft, provisioner(name="plain")]))
    assert plan.new_nodes[0].provisioner == "plain"
    assert solved(problem(pending=[pending_pod()], provisioners=[soft])).new_nodes[0].provisioner == "soft"


def test_replicas_that_a_preference_has_no_room_for_go_elsewhere() -> None:
    near = state_node(node=node(name="n", zone=ZONES[1], labels={"disk": "ssd"}))
    asked = pending_pods(4, preferred_node_affinity=preferring("disk", "ssd"), requests={"cpu": "1"})
    plan = solved(problem(pending=asked, nodes=[near]))
    assert [len(placement.pods) for placement in plan.existing] == [2]
    assert plan.unplaced == ()
