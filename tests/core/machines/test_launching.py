"""Launch tokens, and limits at launch."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.quantity import resources
from controller.core.cloud import PricedOffering
from controller.core.machines.launching import allot, launch_request, launch_token, tokens_in_use
from controller.core.machines.node_documents import LAUNCH_TOKEN
from controller.core.machines.provisioner_limits import exceeded_by, usage
from controller.core.provisioning.plan import PlannedNode
from controller.core.scheduling.requirements import Requirements
from tests import factories

TYPES = {entry.name: entry for entry in factories.small_catalog()}
PROVISIONER = factories.provisioner()
TEMPLATE = factories.node_template()


def offering(name: str, price: float = 0.1, capacity_type: str = "spot") -> PricedOffering:
    return PricedOffering(price, name, "eu-west-1a", capacity_type)


def planned(name: str, *alternatives: str) -> PlannedNode:
    return PlannedNode(
        provisioner="default",
        offering=offering(name),
        alternatives=tuple(offering(other, 0.2) for other in alternatives),
        requirements=Requirements(()),
        labels=FrozenMap({"shard": "1"}),
        taints=(),
        startup_taints=(),
        pods=(("default", "a"),),
        requests=EMPTY,
        reason="",
    )


@given(st.lists(st.uuids().map(str), min_size=1, max_size=5, unique=True), st.randoms())
def test_a_token_does_not_depend_on_the_order_of_pods(uids: list[str], random: object) -> None:
    shuffled = sorted(uids, key=lambda _: random.random())  # type: ignore[attr-defined]
    assert launch_token(PROVISIONER, TEMPLATE, uids) == launch_token(PROVISIONER, TEMPLATE, shuffled)


def test_tokens_tell_items_apart() -> None:
    """Other pods, another Provisioner, another template or generation of it: another item."""
    tokens = {
        launch_token(PROVISIONER, TEMPLATE, ["a"]),
        launch_token(PROVISIONER, TEMPLATE, ["a", "b"]),
        launch_token(factories.provisioner(name="other"), TEMPLATE, ["a"]),
        launch_token(PROVISIONER, factories.node_template(name="other"), ["a"]),
        launch_token(PROVISIONER, factories.node_template(generation=2), ["a"]),
    }
    assert len(tokens) == 5


def test_an_item_whose_node_stands_already_gets_the_next_token() -> None:
    """Else the cloud would answer with the node on which the pods turned out not to fit."""
    first = launch_token(PROVISIONER, TEMPLATE, ["a"])
    second = launch_token(PROVISIONER, TEMPLATE, ["a"], {first})
    third = launch_token(PROVISIONER, TEMPLATE, ["a"], {first, second})
    assert len({first, second, third}) == 3
    assert launch_token(PROVISIONER, TEMPLATE, ["a"], {"unrelated"}) == first


def test_tokens_in_use_are_those_of_all_nodes() -> None:
    node = factories.node(annotations=FrozenMap({LAUNCH_TOKEN: "t"}), deleted_at=1.0)
    view = factories.snapshot(nodes=[factories.state_node(node=node), factories.state_node(node=factories.node())])
    assert tokens_in_use(view) == {"t"}


def test_without_limits_every_alternative_may_be_launched() -> None:
    (allotment,) = allot([planned("c5.large", "m5.4xlarge")], PROVISIONER, TYPES, EMPTY)
    assert [entry.instance_type for entry in allotment.offerings] == ["c5.large", "m5.4xlarge"]


def test_a_node_beyond_the_limit_is_refused_with_the_limit_in_words() -> None:
    limited = factories.provisioner(limits={"cpu": "4"})
    allotments = allot([planned("c5.large")] * 3, limited, TYPES, EMPTY)
    assert [bool(entry.refusal) for entry in allotments] == [False, False, True]
    assert "limits.resources.cpu of Provisioner default" in allotments[2].refusal
    assert allotments[2].offerings == ()


def test_reaching_a_limit_is_allowed_and_exceeding_it_is_not() -> None:
    limited = factories.provisioner(limits={"cpu": "4"})
    assert exceeded_by(limited, resources({"cpu": "2"}), resources({"cpu": "2"})) == ""
    assert exceeded_by(limited, resources({"cpu": "4001m"})) != ""


@given(
    st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=6),
    st.integers(1, 80),
    st.integers(0, 20),
    st.randoms(),
)
def test_whatever_the_cloud_picks_no_limit_is_exceeded(names: list[str], limit: int, used: int, random: object) -> None:
    limited = factories.provisioner(limits={"cpu": str(limit)})
    items = [planned(name, *sorted(TYPES)) for name in names]
    have = resources({"cpu": str(used)})
    allotments = allot(items, limited, TYPES, have)
    picks = [random.choice(entry.offerings) for entry in allotments if entry.offerings]  # type: ignore[attr-defined]
    cpu = sum(TYPES[pick.instance_type].capacity["cpu"] for pick in picks)
    assert not picks or have["cpu"] + cpu <= limit * 1000
    for entry in allotments:
        assert bool(entry.offerings) != bool(entry.refusal)
        if entry.offerings:
            assert entry.offerings[0] == entry.planned.offering


def test_a_type_that_left_the_catalog_is_refused() -> None:
    (allotment,) = allot([planned("x9.huge")], PROVISIONER, TYPES, EMPTY)
    assert "x9.huge" in allotment.refusal


def test_a_request_carries_all_types_so_that_whatever_comes_can_be_checked() -> None:
    (allotment,) = allot([planned("c5.large", "m5.large")], PROVISIONER, TYPES, EMPTY)
    request = launch_request(allotment, PROVISIONER, TEMPLATE, TYPES, "token")
    assert {o.instance_type for o in request.offerings} == {"c5.large", "m5.large"}
    assert request.instance_types.keys() == TYPES.keys()
    assert (request.token, request.labels) == ("token", {"shard": "1"})


def test_a_request_has_of_the_plans_first_choice_what_limits_allow() -> None:
    node = planned("c5.large", "m5.large", "m5.xlarge")
    node = replace(node, first_choice=(offering("m5.large", 0.2), offering("m5.xlarge", 0.2)))
    tight = factories.provisioner(limits={"cpu": "2"})
    for provisioner, names in ((PROVISIONER, ["m5.large", "m5.xlarge"]), (tight, ["m5.large"])):
        (allotment,) = allot([node], provisioner, TYPES, EMPTY)
        request = launch_request(allotment, provisioner, TEMPLATE, TYPES, "token")
        assert [each.instance_type for each in request.first_choice] == names


def test_usage_counts_nodes_of_the_provisioner_that_stay() -> None:
    nodes = [
        factories.state_node(node=factories.node()),
        factories.state_node(node=factories.node(deleted_at=1.0)),
        factories.state_node(node=factories.node(), marked_for_deletion=True),
        factories.state_node(node=factories.node(provisioner="other")),
        factories.state_node(node=factories.node(capacity={"cpu": "1", "nvidia.com/gpu": 0})),
    ]
    assert usage(factories.snapshot(nodes=nodes), "default") == resources({"cpu": "3", "memory": "8Gi", "pods": 29})
