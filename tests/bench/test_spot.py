"""Correlated losses of spot capacity, simulated."""

from __future__ import annotations

from statistics import fmean

import pytest

from bench.spot.expected import expected_of, named_of
from bench.spot.losses import Losses, losses
from controller.core.api import labels as keys
from controller.core.api.pod import OwnerReference
from controller.core.provisioning import SolveOptions
from tests.core.provisioning.plans import WEB, near, solved
from tests.factories import ZONES, instance_type, pending_pods, problem

OWNER = OwnerReference("apps/v1", "ReplicaSet", "web", "uid-web")


@pytest.mark.parametrize(
    ("share", "cpu", "found"),
    [
        (0.5, 2, Losses(1, 0, 0)),
        (1.0, 2, Losses(1, 0, 1)),
        (0.5, 8, Losses(1, 1, 0)),
    ],
)
def test_a_workload_fails_if_a_loss_takes_over_half_of_it(share: float, cpu: int, found: Losses) -> None:
    """Spread nodes keep half of their replicas; nodes that EC2 chose freely do not; one large node is told apart."""
    kinds = [instance_type(name=f"f{n}.large", cpu=cpu, price=0.1, capacity_types=(keys.SPOT,)) for n in range(3)]
    apart = (near(keys.HOSTNAME),) if cpu == 2 else ()
    pods = pending_pods(4, requests={"cpu": "1"}, required_pod_anti_affinity=apart, owner=OWNER, labels=WEB)
    plan = solved(problem(pending=pods, catalog=kinds), SolveOptions(spot_pool_share=share))
    assert losses(plan, count=50) == found


def test_what_a_number_of_offerings_would_cost_and_how_many_are_named() -> None:
    kinds = [
        instance_type(name=f"f{n}.large", cpu=2, price=0.1 + 0.01 * n, capacity_types=(keys.SPOT,), zones=ZONES[:1])
        for n in range(3)
    ]
    plan = solved(problem(pending=pending_pods(1, requests={"cpu": "1"}), catalog=kinds), SolveOptions())
    (node,) = plan.new_nodes
    prices = sorted(offering.price for offering in node.named)
    assert [expected_of(plan, least) for least in (1, 2, 3)] == pytest.approx(
        [prices[0], fmean(prices[:2]), fmean(prices)]
    )
    assert named_of(plan) == 3
