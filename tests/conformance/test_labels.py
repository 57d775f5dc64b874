"""Labels, selectors and requirements, and Karpenter v0.27's mistakes with terms and label values."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.api import labels as keys
from controller.core.api.pod import NodeSelectorTerm, SelectorRequirement
from controller.core.api.v1alpha5 import V1ALPHA5
from tests.conformance.fixtures import ARM, SMALL, ZONE_1, ZONE_2, ZONE_3, ZONES, Cluster, Round, terms
from tests.factories import ZONES as OTHER_ZONES
from tests.factories import node, pending_pod, provisioner, requirement, state_node

LABEL = "test-key"


def tried(cluster: Cluster | None = None, **fields: Any) -> Round:
    """A batch of one pod."""
    return (cluster or Cluster()).provision(pending_pod(name="it", **fields))


def demanding(*expressions: SelectorRequirement) -> dict[str, Any]:
    """A pod's required node affinity."""
    return {"required_node_affinity": terms(expressions)}


def labelled(value: str = "test-value") -> Cluster:
    return Cluster([provisioner(labels={LABEL: value})])


def limited(*expressions: SelectorRequirement) -> Cluster:
    return Cluster([provisioner(requirements=expressions)])


def test_nodes_carry_the_provisioner_s_label() -> None:
    assert tried(labelled()).only.labels[LABEL] == "test-value"


def test_a_selector_that_contradicts_the_provisioner_s_label_is_refused() -> None:
    assert tried(labelled(), node_selector={LABEL: "different"}).new == ()


def test_a_selector_on_an_undefined_label_is_refused() -> None:
    assert tried(node_selector={LABEL: "test-value"}).new == ()


def test_in_with_the_provisioner_s_value_is_met() -> None:
    done = tried(labelled(), **demanding(requirement(LABEL, "In", "test-value", "another")))
    assert done.only.labels[LABEL] == "test-value"


def test_in_without_the_provisioner_s_value_is_refused() -> None:
    assert tried(labelled(), **demanding(requirement(LABEL, "In", "another"))).new == ()


def test_the_provisioner_s_zones_hold() -> None:
    assert tried(limited(requirement(keys.ZONE, "In", ZONE_2))).homes() == [ZONE_2]


def test_a_node_selector_narrows_the_provisioner_s_zones() -> None:
    among = limited(requirement(keys.ZONE, "In", ZONE_1, ZONE_2))
    assert tried(among, node_selector={keys.ZONE: ZONE_2}).homes() == [ZONE_2]


def test_a_hostname_selector_never_launches_a_node() -> None:
    """No new node has that name. Better than Karpenter v0.27, a standing node of the name takes the pod."""
    selector = {keys.HOSTNAME: "red-node"}
    done = tried(node_selector=selector)
    assert done.new == ()
    assert "kubernetes.io/hostname" in done.plan.unplaced[0].reason
    standing = Cluster()
    standing.add(state_node(node=node(name="red-node", zone=ZONE_1)))
    assert tried(standing, node_selector=selector).plan.existing[0].node == "red-node"


def test_an_unknown_zone_is_refused() -> None:
    assert tried(node_selector={keys.ZONE: "unknown"}).new == ()


def test_a_zone_outside_the_provisioner_s_is_refused() -> None:
    assert tried(limited(requirement(keys.ZONE, "In", ZONE_1)), node_selector={keys.ZONE: ZONE_2}).new == ()


def test_unknown_values_beside_known_ones_are_no_matter() -> None:
    assert tried(**demanding(requirement(keys.ZONE, "In", ZONE_3, "unknown"))).homes() == [ZONE_3]


def test_greater_than_picks_a_larger_type() -> None:
    assert tried(**demanding(requirement("integer", "Gt", "8"))).types == [ARM]


def test_less_than_picks_a_smaller_type() -> None:
    """The cheapest of those below 8."""
    assert tried(**demanding(requirement("integer", "Lt", "8"))).types == [SMALL]


def test_in_of_unknown_values_alone_is_refused() -> None:
    assert tried(**demanding(requirement(keys.ZONE, "In", "unknown"))).new == ()


def test_not_in_leaves_the_other_zones() -> None:
    assert tried(**demanding(requirement(keys.ZONE, "NotIn", ZONE_1, ZONE_2, "unknown"))).homes() == [ZONE_3]


def test_not_in_of_every_zone_is_refused() -> None:
    assert tried(**demanding(requirement(keys.ZONE, "NotIn", *ZONES, "unknown"))).new == ()


@pytest.mark.parametrize("key", [V1ALPHA5.keys.emptiness_timestamp, keys.HOSTNAME])
def test_pods_that_select_restricted_labels_are_refused(key: str) -> None:
    assert tried(**demanding(requirement(key, "In", "test"))).new == ()


@pytest.mark.parametrize("domain", keys.RESTRICTED_DOMAINS)
def test_pods_that_select_labels_of_restricted_domains_are_refused(domain: str) -> None:
    assert tried(**demanding(requirement(f"{domain}/test", "In", "test"))).new == ()


@pytest.mark.parametrize("domain", sorted(keys.RESTRICTED_EXCEPTIONS))
def test_pods_may_select_exempt_labels_that_the_provisioner_demands(domain: str) -> None:
    key = f"{domain}/test"
    cluster = limited(requirement(key, "In", "test-value"))
    assert tried(cluster, **demanding(requirement(key, "In", "test-value"))).only.labels[key] == "test-value"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (keys.ZONE, ZONE_1),
        (keys.INSTANCE_TYPE, SMALL),
        (keys.ARCH, "arm64"),
        (keys.OS, "linux"),
        (keys.CAPACITY_TYPE, keys.SPOT),
    ],
)
def test_pods_may_select_well_known_labels(key: str, value: str) -> None:
    done = tried(**demanding(requirement(key, "In", value)))
    assert done.homes(key) == [value] or done.only.requirements[key].has(value)


@pytest.mark.parametrize(
    ("operator", "values", "placed"),
    [
        pytest.param("In", ["test-value"], False, id="in"),
        pytest.param("NotIn", ["test-value"], True, id="not-in"),
        pytest.param("Exists", [], False, id="exists"),
        pytest.param("DoesNotExist", [], True, id="does-not-exist"),
    ],
)
def test_operators_on_a_key_that_nobody_defines(operator: str, values: list[str], placed: bool) -> None:
    """Absence satisfies NotIn and DoesNotExist alone, and the node gets no such label."""
    done = tried(**demanding(requirement(LABEL, operator, *values)))
    assert bool(done.new) is placed
    assert all(LABEL not in planned.labels for planned in done.new)


def test_a_plain_pod_s_node_gets_the_value_of_the_provisioner_s_requirement() -> None:
    assert tried(limited(requirement(LABEL, "In", "test-value"))).only.labels[LABEL] == "test-value"


@pytest.mark.parametrize(
    ("operator", "values", "placed"),
    [
        pytest.param("In", ["test-value"], True, id="in-it"),
        pytest.param("NotIn", ["test-value"], False, id="not-in-it"),
        pytest.param("Exists", [], True, id="exists"),
        pytest.param("DoesNotExist", [], False, id="does-not-exist"),
        pytest.param("In", ["another"], False, id="in-another"),
        pytest.param("NotIn", ["another"], True, id="not-in-another"),
    ],
)
def test_operators_on_a_key_that_the_provisioner_defines(operator: str, values: list[str], placed: bool) -> None:
    cluster = limited(requirement(LABEL, "In", "test-value"))
    done = tried(cluster, **demanding(requirement(LABEL, operator, *values)))
    assert bool(done.new) is placed
    assert all(planned.labels[LABEL] == "test-value" for planned in done.new)


def test_compatible_pods_share_a_node_of_the_value_that_both_accept() -> None:
    cluster = limited(requirement(LABEL, "In", "test-value", "another"))
    pods = [
        pending_pod(requests={"cpu": "10m"}, **demanding(requirement(LABEL, "In", "test-value"))),
        pending_pod(requests={"cpu": "10m"}, **demanding(requirement(LABEL, "NotIn", "another"))),
    ]
    done = cluster.provision(*pods)
    assert done.only.labels[LABEL] == "test-value"


def test_pods_of_disjoint_values_get_a_node_each() -> None:
    cluster = limited(requirement(LABEL, "In", "test-value", "another"))
    pods = [
        pending_pod(requests={"cpu": "10m"}, **demanding(requirement(LABEL, "In", value)))
        for value in ("test-value", "another")
    ]
    assert sorted(planned.labels[LABEL] for planned in cluster.provision(*pods).new) == ["another", "test-value"]


def test_exists_does_not_widen_what_in_narrowed() -> None:
    assert tried(**demanding(requirement(keys.ZONE, "In", "unknown"), requirement(keys.ZONE, "Exists"))).new == ()


def test_contradictory_values_of_an_undefined_key_are_refused() -> None:
    """Karpenter v0.27 turns them into DoesNotExist, which its check then accepts."""
    assert tried(**demanding(requirement(LABEL, "In", "a"), requirement(LABEL, "In", "b"))).new == ()


def test_contradictory_values_of_an_open_key_are_refused() -> None:
    """The same where the Provisioner leaves the key open."""
    cluster = limited(requirement(LABEL, "Exists"))
    assert tried(cluster, **demanding(requirement(LABEL, "In", "a"), requirement(LABEL, "In", "b"))).new == ()


def test_an_empty_node_selector_term_matches_no_node() -> None:
    """Karpenter v0.27 lets an empty first term through; the API says that it matches nothing."""
    assert tried(required_node_affinity=(NodeSelectorTerm(),)).new == ()
    either = (NodeSelectorTerm(), NodeSelectorTerm((requirement(keys.ZONE, "In", ZONE_2),)))
    assert tried(required_node_affinity=either).homes() == [ZONE_2]


def test_a_generated_label_value_is_never_one_that_is_excluded() -> None:
    """Karpenter v0.27 draws a random integer that NotIn may exclude."""
    cluster = limited(requirement(LABEL, "Exists"), requirement(LABEL, "NotIn", *(str(n) for n in range(50))))
    value = tried(cluster).only.labels[LABEL]
    assert value not in {str(n) for n in range(50)}


def test_bounds_and_exclusions_hold_together() -> None:
    """Karpenter v0.27 loses one of them when it hands requirements on."""
    cluster = limited(
        requirement(LABEL, "Gt", "3"), requirement(LABEL, "Lt", "7"), requirement(LABEL, "NotIn", "4", "5")
    )
    assert tried(cluster).only.labels[LABEL] == "6"
    planned = tried(limited(requirement(keys.INSTANCE_CPU, "Gt", "3"), requirement(keys.INSTANCE_CPU, "Lt", "16"))).only
    offered = {offering.instance_type for offering in (planned.offering, *planned.alternatives)}
    assert SMALL not in offered
    assert ARM not in offered


def test_bounds_that_leave_no_integer_between_are_refused() -> None:
    """Karpenter v0.27 does not see that nothing lies between 1 and 2."""
    cluster = limited(requirement(LABEL, "Exists"))
    assert tried(cluster, **demanding(requirement(LABEL, "Gt", "1"), requirement(LABEL, "Lt", "2"))).new == ()


@pytest.mark.parametrize(
    "alias", ["failure-domain.beta.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone"], ids=["beta", "ebs"]
)
def test_older_names_of_a_label_are_the_label(alias: str) -> None:
    """Requirements of pods and Provisioners together."""
    assert tried(node_selector={alias: ZONE_2}).homes() == [ZONE_2]
    assert tried(limited(requirement(alias, "In", ZONE_2))).homes() == [ZONE_2]


def test_zones_of_no_offering_are_named_in_the_reason() -> None:
    """Every pod not placed says which rule, on which Provisioner."""
    (unplaced,) = tried(node_selector={keys.ZONE: OTHER_ZONES[0]}).plan.unplaced
    assert "Provisioner default" in unplaced.reason
    assert ZONE_1 in unplaced.reason


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        pytest.param("instance-type", keys.INSTANCE_TYPE, id="truncated"),
        pytest.param("zone", keys.ZONE, id="truncated-zone"),
        pytest.param("topology.kubernetes.io/zon", keys.ZONE, id="typo-zone"),
        pytest.param("karpenter.sh/capacity-typ", keys.CAPACITY_TYPE, id="typo-capacity"),
        pytest.param("karpenter.sh/provisioner-nam", keys.PROVISIONER_NAME, id="typo-provisioner"),
        pytest.param("kubernetes.io/arhc", keys.ARCH, id="typo-arch"),
    ],
)
def test_misspelt_labels_are_answered_with_the_one_that_was_meant(key: str, hint: str) -> None:
    assert f"did you mean {hint}?" in tried(node_selector={key: "x"}).plan.unplaced[0].reason


def test_unknown_labels_get_no_hint() -> None:
    assert "did you mean" not in tried(node_selector={"deployment": "x"}).plan.unplaced[0].reason
