"""Limits of money, resources and speed: what they refuse, in which words, and that what is allowed counts."""

from __future__ import annotations

from typing import Any

import pytest

from controller.core.api.frozen import EMPTY, FrozenMap
from controller.core.api.labels import ON_DEMAND
from controller.core.api.provisioner import Provisioner
from controller.core.api.quantity import resources
from controller.core.cloud import PricedOffering
from controller.core.guards.spending import PRICE_LIMIT_ANNOTATION, Guards, LaunchLimits, parse_launch_limits
from controller.core.machines.launching import Allotment
from controller.core.provisioning.plan import PlannedNode
from controller.core.scheduling.requirements import Requirements
from tests import factories

NOW = 10_000.0
TYPES = {entry.name: entry for entry in factories.small_catalog()}
SMALL = PricedOffering(0.096, "m5.large", factories.ZONES[0], ON_DEMAND)
BIG = PricedOffering(0.192, "m5.xlarge", factories.ZONES[0], ON_DEMAND)


def item(*alternatives: PricedOffering) -> Allotment:
    node = PlannedNode("default", SMALL, alternatives, Requirements(), EMPTY, (), (), (), EMPTY, "fits")
    return Allotment(node, (SMALL, *alternatives))


def judge(limits: LaunchLimits, *items: Allotment, nodes: int = 1, created: float = 0.0, **annotations: str) -> Any:
    owner = provisioner(**annotations)
    present = [factories.state_node(node=factories.node(created=created)) for _ in range(nodes)]
    guards = Guards(
        limits, factories.snapshot(nodes=present, provisioners=[owner]), {"default": tuple(TYPES.values())}, NOW
    )
    return [guards.judge(each, owner, TYPES) for each in items], [guard for guard, _, _ in guards.refused]


def provisioner(**annotations: str) -> Provisioner:
    given = {PRICE_LIMIT_ANNOTATION: annotations["price"]} if annotations else {}
    return factories.provisioner(object_annotations=FrozenMap(given))


def test_without_limits_everything_passes_as_it_is() -> None:
    assert judge(LaunchLimits(), item(BIG)) == ([item(BIG)], [])


def test_the_clusters_price_is_kept_and_each_launch_counts() -> None:
    """One node of $0.096 stands; 0.30 has room for two more."""
    allotments, refused = judge(LaunchLimits(price_per_hour=0.30), *[item()] * 3)
    assert [each.refusal == "" for each in allotments] == [True, True, False]
    text = "launchLimits.pricePerHour of the settings: $0.2880 + $0.0960 an hour would exceed $0.3"
    assert text in allotments[2].refusal
    assert refused == ["cluster-price"]


def test_a_provisioners_price_limit_is_its_own() -> None:
    allotments, refused = judge(LaunchLimits(), *[item()] * 2, price="0.2")
    assert [each.refusal == "" for each in allotments] == [True, False]
    assert f"annotation {PRICE_LIMIT_ANNOTATION} of Provisioner default" in allotments[1].refusal
    assert refused == ["provisioner-price"]


@pytest.mark.parametrize("text", ["much", "-1", "nan", "inf", ""])
def test_a_price_limit_that_cannot_be_read_allows_nothing_and_says_so(text: str) -> None:
    (allotment,), refused = judge(LaunchLimits(), item(), price=text)
    assert "is no number of $ an hour; write 12.5" in allotment.refusal
    assert refused == ["provisioner-price"]


def test_ec2_is_not_sent_alternatives_that_would_break_the_limit() -> None:
    (allotment,), _ = judge(LaunchLimits(price_per_hour=0.25), item(BIG))
    assert allotment.offerings == (SMALL,)
    (allotment,), _ = judge(LaunchLimits(price_per_hour=0.5), item(BIG))
    assert allotment.offerings == (SMALL, BIG)


def test_resources_of_all_nodes_together_are_limited() -> None:
    limits = LaunchLimits(resources=resources({"cpu": "4"}))
    allotments, refused = judge(limits, item(BIG), item())
    assert [each.refusal == "" for each in allotments] == [True, False]
    assert allotments[0].offerings == (SMALL,), "an alternative would take what the plan left for others"
    assert "launchLimits.resources.cpu of the settings: 6000m would exceed 4000m" in allotments[1].refusal
    assert refused == ["cluster-resources"]


def test_nodes_a_minute_count_those_that_came_within_it() -> None:
    limits = LaunchLimits(nodes_per_minute=3)
    allotments, refused = judge(limits, *[item()] * 2, nodes=2, created=NOW - 30)
    assert [each.refusal == "" for each in allotments] == [True, False]
    assert refused == ["launch-rate"]
    allotments, _ = judge(limits, *[item()] * 3, nodes=2, created=NOW - 61)
    assert [each.refusal for each in allotments] == ["", "", ""]


def test_what_was_refused_before_stays_refused_and_counts_for_nothing() -> None:
    gone = Allotment(item().planned, refusal="not in the catalog")
    allotments, refused = judge(LaunchLimits(nodes_per_minute=1), gone, item())
    assert allotments[0] is gone
    assert (allotments[1].refusal, refused) == ("", [])


def test_the_setting_is_read_whole() -> None:
    limits = parse_launch_limits(
        '{"pricePerHour": 50, "nodesPerMinute": 20, "resources": {"cpu": "10", "memory": "1Gi"}}'
    )
    assert limits == LaunchLimits(50.0, 20, resources({"cpu": "10", "memory": "1Gi"}))
    assert parse_launch_limits("") == LaunchLimits()


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"pricePerHour": 0}',
        '{"pricePerHour": true}',
        '{"nodesPerMinute": 1.5}',
        '{"resources": {"cpu": "many"}}',
        '{"resources": 3}',
        '{"price": 3}',
    ],
)
def test_a_setting_that_breaks_a_rule_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        parse_launch_limits(text)


def test_all_problems_of_the_setting_are_named_at_once() -> None:
    with pytest.raises(ValueError, match=r"pricePerHour is -1.*nodesPerMinute is 0"):
        parse_launch_limits('{"pricePerHour": -1, "nodesPerMinute": 0}')
