"""Whether the process looks at its own cluster: wrong regions, accounts, and instances that vanish all at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.api.node import UnhealthyCondition
from controller.core.cloud import CloudIdentity
from controller.core.machines.cluster_proof import (
    CONSISTENCY_SECONDS,
    FEW,
    FORGOTTEN_SECONDS,
    ClusterProof,
    Fate,
    Standing,
    claimants,
    elsewhere,
    fate,
    in_region,
    prove,
)
from controller.core.state.snapshot import StateNode
from tests import factories
from tests.core.instances import cloud_instance

ARN = "arn:aws:eks:eu-west-1:123456789012:cluster/test"
OTHER_ACCOUNT = "arn:aws:eks:eu-west-1:999999999999:cluster/test"
HERE = CloudIdentity("eu-west-1", ARN)
NOW = 100_000.0


def nodes(count: int, **fields: object) -> list[StateNode]:
    names = [f"node-{number}" for number in range(count)]
    return [factories.state_node(node=factories.node(name=name, **fields)) for name in names]  # type: ignore[arg-type]


def ids(of: list[StateNode]) -> set[str]:
    return {node.node.provider_id for node in of}


def proof(
    of: list[StateNode], known: set[str], *, identity: CloudIdentity = HERE, expected: str = ARN, now: float = NOW
) -> ClusterProof:
    return prove(identity, expected, of, known, now)


def test_the_cluster_of_the_settings_whose_instances_are_known_is_proven() -> None:
    six = nodes(6)
    assert proof(six, ids(six)).proven


@pytest.mark.parametrize("answered", [OTHER_ACCOUNT, ARN.replace("eu-west-1", "us-east-1"), ""])
def test_another_arn_than_the_settings_disproves_whatever_is_known(answered: str) -> None:
    six = nodes(6)
    verdict = proof(six, ids(six), identity=CloudIdentity("eu-west-1", answered))
    assert verdict.standing is Standing.DISPROVED
    assert ARN in verdict.because


def test_nodes_that_are_all_in_another_region_disprove_without_the_setting_too() -> None:
    verdict = proof(nodes(6), set(), identity=CloudIdentity("us-east-1"), expected="")
    assert verdict.standing is Standing.DISPROVED
    assert "eu-west-1a" in verdict.because
    assert "us-east-1" in verdict.because


def test_one_node_in_another_region_is_its_own_affair() -> None:
    stranger = nodes(1, zone="us-east-1a")[0]
    six = nodes(6)
    assert proof([*six, stranger], ids(six)).proven
    assert elsewhere(stranger.node, "eu-west-1")
    assert not elsewhere(six[0].node, "eu-west-1")


def test_ready_nodes_whose_instances_are_all_unknown_are_a_fault_of_the_looking() -> None:
    """Another account in the same region, or an EC2 that answers nothing: kubelets that report say otherwise."""
    for count in (1, 6, 100):
        assert proof(nodes(count), set()).standing is Standing.DOUBTED


@pytest.mark.parametrize(("missing", "proven"), [(1, True), (FEW, True), (FEW + 1, False), (9, False)])
def test_a_few_unknown_instances_are_single_deaths_and_many_are_not(missing: int, proven: bool) -> None:
    ten = nodes(10)
    assert proof(ten, ids(ten[missing:])).proven is proven


@pytest.mark.parametrize(("missing", "proven"), [(20, True), (21, False)])
def test_of_many_nodes_a_fifth_may_be_unknown(missing: int, proven: bool) -> None:
    hundred = nodes(100)
    assert proof(hundred, ids(hundred[missing:])).proven is proven


def test_a_mass_of_silent_nodes_is_doubted_until_ec2_may_have_forgotten_their_instances() -> None:
    """A control plane that hears no kubelet, together with an EC2 that shows no instance."""
    silent = nodes(10, ready=False, unhealthy=(UnhealthyCondition("Ready", "Unknown", NOW),))
    assert proof(silent, set()).standing is Standing.DOUBTED
    assert proof(silent, set(), now=NOW + FORGOTTEN_SECONDS - 1).standing is Standing.DOUBTED
    assert proof(silent, set(), now=NOW + FORGOTTEN_SECONDS).proven


def test_without_the_setting_a_registered_node_with_a_known_instance_is_needed() -> None:
    six = nodes(6)
    assert proof(six, ids(six), expected="").proven
    assert proof([], set(), expected="").standing is Standing.DOUBTED
    unregistered = nodes(1, ready=False, capacity={})
    assert proof(unregistered, ids(unregistered), expected="").standing is Standing.DOUBTED, "it may have been adopted"


def test_a_new_cluster_is_proven_by_its_arn_alone() -> None:
    assert proof([], set()).proven


def test_an_instance_that_ec2_may_not_show_yet_raises_no_doubt_and_one_that_it_shows_is_evidence() -> None:
    young = nodes(10, created=NOW)
    assert proof(young, set()).proven
    assert proof(young, set(), now=NOW + CONSISTENCY_SECONDS).standing is Standing.DOUBTED
    assert proof(young, ids(young), expected="").proven


def test_nodes_that_leave_or_are_not_ours_claim_nothing() -> None:
    old = nodes(1)[0]
    leaving = replace(old, node=replace(old.node, name="leaving", deleted_at=NOW))
    stranger = factories.state_node(node=factories.node(name="stranger", provisioner=""))
    unreadable = replace(old, node=replace(old.node, name="unreadable", provider_id="kind://x"))
    view = factories.snapshot(nodes=(old, leaving, stranger, unreadable))
    assert [node.name for node in claimants(view)] == [old.name]


@pytest.mark.parametrize(
    ("zone", "region", "inside"),
    [
        ("us-west-2a", "us-west-2", True),
        ("us-west-2-lax-1a", "us-west-2", True),
        ("us-east-1a", "us-west-2", False),
        ("ap-southeast-10a", "ap-southeast-1", False),
        ("us-gov-west-1a", "us-gov-west-1", True),
    ],
)
def test_zones_belong_to_the_region_of_their_name(zone: str, region: str, inside: bool) -> None:
    assert in_region(zone, region) is inside


@pytest.mark.parametrize(
    ("state", "ready", "expected"),
    [
        ("running", False, Fate.LIVES),
        ("stopped", False, Fate.LIVES),
        ("terminated", True, Fate.GONE),
        ("shutting-down", False, Fate.GONE),
        (None, True, Fate.UNKNOWN),
        (None, False, Fate.GONE),
    ],
)
def test_an_instance_is_gone_when_ec2_says_so_or_neither_it_nor_the_kubelet_answers(
    state: str | None, ready: bool, expected: Fate
) -> None:
    instance = cloud_instance(state=state) if state else None
    assert fate(factories.node(ready=ready), instance) is expected
