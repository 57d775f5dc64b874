"""Correlated losses of spot capacity, simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean

import pytest

from bench.spot.expected import expected_of, named_of
from bench.spot.losses import Losses, losses
from bench.spot.possible import Possible
from controller.core.api import labels as keys
from controller.core.api.pod import OwnerReference
from controller.core.cloud import InstanceType
from controller.core.provisioning import SolveOptions
from tests.core.provisioning.plans import WEB, near, solved
from tests.factories import ZONES, instance_type, pending_pods, problem

OWNER = OwnerReference("apps/v1", "ReplicaSet", "web", "uid-web")


@pytest.mark.parametrize(
    ("share", "cpu", "failed"),
    [
        (0.5, 2, frozenset()),
        (1.0, 2, frozenset({"family"})),
        (0.5, 8, frozenset({"pool", "family", "zone"})),
    ],
)
def test_a_workload_fails_if_a_loss_takes_over_half_of_it(share: float, cpu: int, failed: frozenset[str]) -> None:
    """Spread nodes keep half of their replicas; nodes that EC2 chose freely do not, nor does one large node."""
    kinds = [instance_type(name=f"f{n}.large", cpu=cpu, price=0.1, capacity_types=(keys.SPOT,)) for n in range(3)]
    apart = (near(keys.HOSTNAME),) if cpu == 2 else ()
    pods = pending_pods(4, requests={"cpu": "1"}, required_pod_anti_affinity=apart, owner=OWNER, labels=WEB)
    plan = solved(problem(pending=pods, catalog=kinds), SolveOptions(spot_pool_share=share))
    assert losses(plan, count=50) == Losses(1, {"uid-web": failed} if failed else {})


def priced(spot: Mapping[str, float], on_demand: float | None = None) -> list[InstanceType]:
    """A type of two CPUs in each of these families, by its price on spot; the first has one on demand, too."""
    kinds = []
    for n, (family, price) in enumerate(spot.items()):
        kind = instance_type(name=f"{family}.large", cpu=3, capacity_types=(keys.SPOT, keys.ON_DEMAND))
        prices = {keys.SPOT: price, keys.ON_DEMAND: on_demand if n == 0 else None}
        offers = [replace(o, price=p) for o in kind.offerings if (p := prices[o.capacity_type]) is not None]
        kinds.append(replace(kind, offerings=tuple(offers)))
    return kinds


@pytest.mark.parametrize(
    ("spot", "on_demand", "extra"),
    [
        ({"a": 0.1, "b": 0.1}, None, 0.0),
        ({"a": 0.1, "b": 0.15}, None, 0.25),
        ({"a": 0.1}, 0.3, 1.0),
        ({"a": 0.1}, None, None),
    ],
)
def test_how_much_dearer_every_plan_is_that_keeps_half_of_a_workload(
    spot: Mapping[str, float], on_demand: float | None, extra: float | None
) -> None:
    """Half of the replicas must be of another family, or on demand; with neither no plan keeps half."""
    pods = pending_pods(4, requests={"cpu": "1"}, owner=OWNER, labels=WEB)
    possible = Possible(problem(pending=pods, catalog=priced(spot, on_demand)))
    free = possible.price()
    assert free is not None
    found = possible.added(["uid-web"])["uid-web"]
    assert found == (None if extra is None else pytest.approx(extra * free))
    if extra is None:
        assert possible.lost(1e6) == 1
    else:
        assert possible.lost((1.0 + extra + 1e-6) * free) == 0
        assert possible.lost((1.0 + extra - 1e-3) * free) == 1


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
