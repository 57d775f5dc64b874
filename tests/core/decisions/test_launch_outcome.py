"""What the fleet gave is costed again, and the fit of the pods is checked again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controller.core.api.quantity import resources
from controller.core.cloud import LaunchRequest, PricedOffering
from controller.core.decisions.launch_outcome import launch_outcome
from tests import factories
from tests.core.instances import cloud_instance

TYPES = {entry.name: entry for entry in factories.small_catalog()}
PLANNED = PricedOffering(0.1, "m5.large", "eu-west-1a", "spot")
OTHER = PricedOffering(0.16, "m5.xlarge", "eu-west-1b", "spot")
REQUEST = LaunchRequest(
    token="t",
    provisioner=factories.provisioner(),
    template=factories.node_template(),
    offerings=(PLANNED, OTHER),
    instance_types=TYPES,
    requests=resources({"cpu": "1", "memory": "2Gi", "pods": "3"}),
)


def test_what_was_planned_differs_in_nothing() -> None:
    outcome = launch_outcome(REQUEST, cloud_instance())
    assert outcome.as_planned
    assert outcome.price_difference_per_hour == 0.0
    assert (outcome.shortfall, outcome.checked) == ({}, True)


def test_an_alternative_is_costed_at_its_own_price() -> None:
    outcome = launch_outcome(REQUEST, cloud_instance(instance_type="m5.xlarge", zone="eu-west-1b"))
    assert not outcome.as_planned
    assert outcome.price_difference_per_hour == pytest.approx(0.06)


def test_what_was_launched_for_another_request_is_costed_by_the_catalog() -> None:
    """The token's instance of an earlier process: its offering is none of this request's."""
    entry = TYPES["m5.xlarge"]
    offering = next(o for o in entry.offerings if o.capacity_type == "on-demand")
    outcome = launch_outcome(
        REQUEST, cloud_instance(instance_type="m5.xlarge", zone=offering.zone, capacity_type="on-demand")
    )
    assert outcome.price_per_hour == offering.price


def test_pods_that_do_not_fit_are_told_by_resource() -> None:
    entry = TYPES["m5.large"]
    asked = replace(REQUEST, requests=resources({"cpu": "8", "memory": "1Gi", "nvidia.com/gpu": "1"}))
    outcome = launch_outcome(asked, cloud_instance())
    assert outcome.shortfall == {"cpu": 8000 - entry.allocatable["cpu"], "nvidia.com/gpu": 1}


def test_a_type_that_the_catalog_does_not_know_is_unchecked_not_taken_for_fitting() -> None:
    outcome = launch_outcome(REQUEST, cloud_instance(instance_type="x9.large"))
    assert (outcome.checked, outcome.price_per_hour, outcome.price_difference_per_hour) == (False, None, None)
