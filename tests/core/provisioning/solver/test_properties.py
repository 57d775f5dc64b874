"""Properties of every plan, on clusters that hypothesis draws.

`pytest tests/core/provisioning/solver/test_properties.py --hypothesis-profile=heavy` looks harder (CONTRIBUTING.md).
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.api import labels as keys
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import Pod
from controller.core.audit.plan_audit import audit
from controller.core.cloud import Offering
from controller.core.provisioning import solve
from controller.core.provisioning.plan import SchedulingProblem
from tests.core.provisioning.clusters import EVERY_RULE, clusters
from tests.core.provisioning.plans import BRIEFLY, FIRST, solved, spread
from tests.core.provisioning.reference import Reference
from tests.examples import examples
from tests.factories import ZONES, instance_type, pending_pods, problem, selector

QUICK = examples(40)
ALONE = frozenset({"labels", "ports"})


@QUICK
@given(clusters())
def test_every_plan_is_sound_loses_no_pod_and_says_why_whatever_rules_meet(posed: SchedulingProblem) -> None:
    plan = solved(posed)
    named = Counter(unplaced.pod for unplaced in plan.unplaced)
    named.update(key for placement in plan.existing for key in placement.pods)
    named.update(key for planned in plan.new_nodes for key in planned.pods)
    assert named == Counter(pod.key for pod in posed.pending)
    reasons = [placement.reason for placement in plan.existing] + [planned.reason for planned in plan.new_nodes]
    assert all([*reasons, *(unplaced.reason for unplaced in plan.unplaced)])


@QUICK
@given(clusters(rules=EVERY_RULE - {"wishes", "volumes"}))
def test_the_reference_s_own_placement_is_sound(posed: SchedulingProblem) -> None:
    """Otherwise the reference would be wrong where it differs from the solver."""
    plan = Reference(posed).plan()
    violations = [str(v) for v in audit(plan, posed) if "it would be launched for no pod" not in str(v)]
    assert violations == []


def agrees(posed: SchedulingProblem) -> bool:
    """Whether the solver places exactly the pods that the reference places."""
    left = {unplaced.pod for unplaced in solved(posed).unplaced}
    return {pod.key for pod in posed.pending} - left == Reference(posed).placed()


def without_nodes(posed: SchedulingProblem) -> SchedulingProblem:
    """The same without existing nodes, whose room pods compete for; new nodes are unlimited."""
    return replace(posed, nodes=(), snapshot=replace(posed.snapshot, nodes=FrozenMap()))


@QUICK
@given(clusters(rules=ALONE))
def test_the_solver_places_exactly_what_the_reference_places(posed: SchedulingProblem) -> None:
    """Without limits, topology and existing nodes no pod hinders another, so there is one right answer; DaemonSets
    that run in one zone take nothing in the others."""
    assert agrees(without_nodes(posed))


@QUICK
@given(clusters(rules=ALONE))
def test_on_existing_nodes_the_solver_leaves_no_more_pods_than_the_reference(posed: SchedulingProblem) -> None:
    """Pods that fit on existing nodes alone compete for them."""
    assert len(solved(posed).unplaced) <= len(posed.pending) - len(Reference(posed).placed())


@QUICK
@given(clusters(rules={"labels", "limits"}, zonal_daemons=False))
def test_under_limits_the_solver_leaves_no_more_pods_than_the_reference(posed: SchedulingProblem) -> None:
    assert len(solved(posed).unplaced) <= len(posed.pending) - len(Reference(posed).placed())


@QUICK
@given(clusters(rules={"own", "labels", "spread"}) | clusters(rules={"own", "labels", "affinity", "ports"}))
def test_the_solver_leaves_no_more_pods_than_the_reference(posed: SchedulingProblem) -> None:
    """Where rules tie pods to their own deployment; across deployments any greedy order may lose to another."""
    assert len(solved(posed).unplaced) <= len(posed.pending) - len(Reference(posed).placed())


@QUICK
@given(clusters(), st.integers(0, 2**32))
def test_the_order_of_objects_changes_nothing(posed: SchedulingProblem, seed: int) -> None:
    """Invariant 1, catalog and snapshot included."""
    chosen = random.Random(seed)
    catalog = {name: tuple(chosen.sample(types, len(types))) for name, types in posed.catalog.items()}
    snapshot_index: dict[str, Any] = {
        each.name: FrozenMap(dict(chosen.sample(list(held.items()), len(held))))
        for each in fields(posed.snapshot)
        if isinstance(held := getattr(posed.snapshot, each.name), FrozenMap)
    }
    shuffled = replace(
        posed,
        pending=tuple(chosen.sample(posed.pending, len(posed.pending))),
        nodes=tuple(chosen.sample(posed.nodes, len(posed.nodes))),
        provisioners=tuple(chosen.sample(posed.provisioners, len(posed.provisioners))),
        catalog=FrozenMap(dict(reversed(catalog.items()))),
        snapshot=replace(posed.snapshot, **snapshot_index),
    )
    assert solve(shuffled, BRIEFLY) == solve(posed, BRIEFLY)


def narrowing(chance: random.Random) -> SchedulingProblem:
    """Deployments restricted to offerings of different prices, so that a pod that joins a node may make it dearer."""
    kinds, selectors = (keys.ON_DEMAND, keys.SPOT), [{}, {keys.CAPACITY_TYPE: keys.ON_DEMAND}, {keys.ZONE: ZONES[0]}]
    pods: list[Pod] = []
    for number in range(chance.randint(3, 8)):
        own = {"app": f"app-{number}"}
        pods += pending_pods(
            chance.randint(1, 12),
            labels=own,
            requests={"cpu": chance.choice(["200m", "700m", "1300m", "1700m"])},
            node_selector=chance.choice(selectors),
            topology_spread=chance.choice([(), (spread(keys.HOSTNAME, of=selector(**own)),)]),
        )
    types = [
        instance_type(
            name=f"m5.{cpu}xlarge",
            cpu=cpu,
            memory="64Gi",
            offered=tuple(Offering(zone, kind, cpu * chance.choice([2, 3, 4])) for zone in ZONES for kind in kinds),
        )
        for cpu in (2, 4)
    ]
    return problem(pending=pods, catalog=types)


@pytest.mark.parametrize("seed", range(25))
def test_pods_that_narrow_what_their_nodes_may_be_are_all_placed(seed: int) -> None:
    assert solved(narrowing(random.Random(seed)), FIRST).unplaced == ()


@QUICK
@given(clusters(rules=ALONE, zonal_daemons=False))
def test_a_plan_costs_no_more_than_a_node_for_each_pod(posed: SchedulingProblem) -> None:
    """Of equal weights, where no rule ties one pod to another."""
    level = replace(posed, provisioners=tuple(replace(pool, weight=0) for pool in posed.provisioners))
    plan = solved(level)
    opened = {key for planned in plan.new_nodes for key in planned.pods}
    alone = 0.0
    for pod in level.pending:
        if pod.key in opened:
            empty = Reference(replace(level, nodes=()))
            alone += min(machine.price for machine in empty.launchable() if empty.accepts(machine, pod))
    assert plan.price_per_hour <= alone + 1e-9
