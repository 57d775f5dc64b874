"""Decisions as records: they survive JSON, stay within bounds, and name their inputs by a digest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.api.frozen import FrozenMap
from controller.core.api.quantity import resources
from controller.core.decisions.decision import (
    MOST_PODS,
    Decision,
    Entry,
    digest,
    entry_of,
    launch_details,
    replacement_launched,
    shortened,
)
from controller.core.decisions.launch_outcome import launch_outcome
from tests import factories
from tests.core.decisions.test_launch_outcome import REQUEST
from tests.core.instances import cloud_instance

LAUNCH = Decision(
    kind="launch",
    method="provisioning",
    subject="Node/n1",
    reason="cheapest that fits",
    provisioner="default",
    inputs="0123456789abcdef",
    price_before=0.0,
    price_after=0.096,
    pods=("default/a", "default/b"),
    pod_count=2,
    details=FrozenMap({"instance_type": "m5.large"}),
)


@pytest.mark.parametrize(
    "entry",
    [
        Entry(1, 1000.0, LAUNCH, 1, 1000.0),
        Entry(7, 1000.5, Decision("skip", "provisioning", "Pod/default/a", "no room"), 3, 1020.0),
    ],
)
def test_an_entry_is_the_same_after_json(entry: Entry) -> None:
    assert entry_of(entry.document()) == entry


def test_a_price_of_zero_is_no_unknown_price() -> None:
    """Before the first node the fleet costs nothing: that is told, an unknown price is left out."""
    assert entry_of(Entry(1, 0.0, LAUNCH).document()).decision.price_before == 0.0
    assert "pricePerHourBefore" not in Entry(1, 0.0, replace(LAUNCH, price_before=None)).document()


@pytest.mark.parametrize("wrong", [{}, {"kind": "guess", "method": "m", "subject": "s", "number": 1}, {"number": "x"}])
def test_what_is_no_entry_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"decision|kind"):
        entry_of(wrong)


def test_a_long_decision_is_cut_and_its_pods_still_counted() -> None:
    long = replace(LAUNCH, reason="x" * 5000, pods=tuple(f"default/p{index}" for index in range(40)), pod_count=0)
    short = shortened(long)
    assert (len(short.pods), short.pod_count, len(short.reason)) == (MOST_PODS, 40, 1000)


def test_equal_inputs_have_equal_digests_and_each_input_counts() -> None:
    pods, catalog = factories.pending_pods(2), factories.small_catalog()
    provisioner = factories.provisioner()
    same = factories.problem(pending=pods, provisioners=(provisioner,), catalog=catalog)
    assert digest(same) == digest(factories.problem(pending=pods, provisioners=(provisioner,), catalog=catalog))
    turned = factories.problem(pending=pods[::-1], provisioners=(provisioner,), catalog=catalog)
    assert digest(turned) == digest(same)
    first = catalog[0]
    dearer = replace(first, offerings=tuple(replace(o, price=o.price + 0.01) for o in first.offerings))
    others = [
        factories.problem(pending=pods[:1], provisioners=(provisioner,), catalog=catalog),
        factories.problem(
            pending=pods, provisioners=(replace(provisioner, generation=provisioner.generation + 1),), catalog=catalog
        ),
        factories.problem(pending=pods, provisioners=(provisioner,), catalog=(dearer, *catalog[1:])),
        factories.problem(
            pending=pods,
            provisioners=(provisioner,),
            catalog=catalog,
            nodes=(factories.state_node(node=factories.node()),),
        ),
    ]
    assert len({digest(problem) for problem in (same, *others)}) == 1 + len(others)


def test_a_replacement_that_is_not_as_planned_is_on_record_with_the_plan_its_price_and_what_pods_lack() -> None:
    asked = replace(REQUEST, requests=resources({"cpu": "8"}))
    given = launch_outcome(asked, cloud_instance(instance_type="m5.xlarge", zone="eu-west-1b"))
    details = replacement_launched("consolidation", "replace n1", given).details
    assert details["planned"] == "m5.large/eu-west-1a/spot"
    assert (details["planned_price_per_hour"], details["price_per_hour"]) == ("0.10000", "0.16000")
    assert details["pods_short_of"] == "cpu"
    assert details["planned_cost_per_hour"] == "0.10000"
    assert "planned_surplus_per_hour" not in details
    dear = replace(given, planned=replace(given.planned, beside=0.02, surplus=0.03))
    assert launch_details(dear)["planned_cost_per_hour"] == "0.15000"
    assert launch_details(dear)["planned_surplus_per_hour"] == "0.03000"
    as_planned = replacement_launched("consolidation", "replace n1", launch_outcome(REQUEST, cloud_instance())).details
    assert as_planned.keys().isdisjoint({"planned", "planned_price_per_hour", "pods_short_of"})
    unknown = launch_outcome(REQUEST, cloud_instance(instance_type="x9.large"))
    assert "not known" in replacement_launched("drift", "replace n1", unknown).details["pods_short_of"]
