"""Limits, the on-demand base and headroom: what they let launch, and who is told when one binds."""

from __future__ import annotations

from functools import partial

from controller.core.api.frozen import FrozenMap
from controller.core.api.labels import CAPACITY_TYPE
from controller.core.guards.spending import LaunchLimits
from controller.core.provisioning.batch_window import BatchTimes
from controller.core.state.snapshot import Snapshot
from controller.telemetry.decision_ledger import Ledger
from controller.telemetry.registry import Metrics
from tests.reconcilers.conftest import World
from tests.reconcilers.provisioning.builders import (
    BIG,
    HOST_APART,
    annotate,
    launched,
    nodes_are,
    reconciler,
    set_batch_times,
)


def test_a_limit_that_binds_is_told_to_the_pod_and_the_provisioner_and_counted(world: World) -> None:
    """Two nodes are planned, the limit has room for one."""
    world.add_provisioner()
    annotate(world, "default", price_limit="0.1")
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [HOST_APART]}}
    for name in ("a", "b"):
        world.add_pod(name, spec={"affinity": apart}, labels={"app": "x"})
    metrics = Metrics(world.clock)
    ledger = Ledger(world.clock, metrics)
    loop = reconciler(world, ledger=ledger)
    world.passes(loop, lambda _: ledger.entries(kind="skip"), "a refusal")
    assert len(world.cloud.running) == 1
    refusal = "annotation karpenter.sh/price-limit of Provisioner default"
    assert refusal in ledger.entries(kind="skip")[0].decision.reason
    told = world.await_event("LaunchLimited")
    assert told["involvedObject"]["kind"] == "Provisioner"
    assert refusal in told["message"]
    assert refusal in world.await_event("FailedScheduling")["message"]
    assert 'nodeless_guard_refusals{guard="provisioner-price",provisioner="default"} 1.0' in (
        metrics.page({}).body.decode()
    )


def test_each_limit_is_told_to_the_pod_and_to_the_provisioner_when_it_binds(world: World) -> None:
    """Those of the settings hold for all Provisioners together; each is told by its own event, with its own words."""
    world.add_provisioner()
    loop = reconciler(world, BatchTimes(0.01, 0.02, 0.05))
    world.add_pod("a")
    for limits, words in (
        (LaunchLimits(price_per_hour=0.001), "launchLimits.pricePerHour of the settings"),
        (LaunchLimits(resources=FrozenMap({"cpu": 500})), "launchLimits.resources.cpu of the settings"),
    ):
        world.change_settings(launch_limits=limits)
        assert world.passes(loop, partial(_told_of, world, words), words).nodes == {}
    world.change_settings(launch_limits=LaunchLimits(nodes_per_minute=1))
    world.passes(loop, nodes_are(1), "the one node of this minute")
    world.add_pod("b", spec={"containers": [{"name": "c", "image": "i", "resources": BIG}]})
    rate = "launchLimits.nodesPerMinute of the settings: 1 nodes were launched within a minute, 1 may be"
    world.passes(loop, lambda _: _told(world, rate), "the rate binds")
    assert len(world.cloud.running) == 1
    annotate(world, "default", price_limit="cheap")
    unreadable = "annotation karpenter.sh/price-limit: 'cheap' is no number"
    world.passes(loop, lambda _: _told(world, unreadable), unreadable)


def _told_of(world: World, words: str, _snapshot: Snapshot) -> bool:
    return _told(world, words)


def _told(world: World, words: str) -> bool:
    """Whether both the pod's and the Provisioner's event say so."""
    events = (world.said("LaunchLimited"), world.said("FailedScheduling"))
    return all(any(words in event["message"] for event in published) for published in events)


def test_the_base_on_demand_is_launched_on_demand_and_the_rest_on_spot(world: World) -> None:
    world.add_provisioner(requirements=[{"key": CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]}])
    annotate(world, "default", on_demand_base="1")
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [HOST_APART]}}
    for name in ("a", "b"):
        world.add_pod(name, spec={"affinity": apart}, labels={"app": "x"})
    loop = reconciler(world)
    world.passes(loop, nodes_are(2), "two nodes")
    assert sorted(instance.capacity_type for instance in world.cloud.running) == ["on-demand", "spot"]
    told = world.await_event("OnDemandMix")
    assert (told["type"], told["involvedObject"]["kind"]) == ("Normal", "Provisioner")
    assert "1 of 2 new nodes on demand, at $0.0" in told["message"]
    assert "karpenter.sh/on-demand-base 1, karpenter.sh/on-demand-percentage 0" in told["message"]
    annotate(world, "default", on_demand_base="many")
    world.add_pod("c", spec={"affinity": apart}, labels={"app": "x"})
    world.passes(loop, nodes_are(3), "a third node")
    world.passes(loop, lambda _: any("'many' is not 0 to" in e["message"] for e in world.said("OnDemandMix")), "said")


def test_headroom_is_launched_without_a_pod_kept_and_made_up_when_pods_take_it(world: World) -> None:
    """One unit of 1 cpu beside nothing: a node. It is not to be removed. A pod takes the room: a second node."""
    world.add_provisioner()
    annotate(world, "default", headroom='[{"cpu": "1", "count": 1}]')
    metrics = Metrics(world.clock)
    ledger = Ledger(world.clock, metrics)
    loop = reconciler(world, ledger=ledger)
    assert not world.planned.is_set()
    (name,) = world.passes(loop, launched(world, 1), "a node for nobody").nodes
    assert world.planned.is_set()
    assert ledger.entries()[0].decision.pods == ("karpenter.sh/headroom-default-0-0",)
    world.come_up(name)
    world.clock.ahead_seconds += 60
    kept = world.passes(loop, lambda s: s.nodes[name].nominated_until > world.clock.now(), "looked after")
    assert len(kept.nodes) == 1
    assert 'nodeless_headroom_units{provisioner="default",state="kept"} 1.0' in metrics.page({}).body.decode()
    world.add_pod("real", node=name, spec={"containers": [{"name": "c", "image": "i", "resources": BIG}]})
    world.clock.ahead_seconds += 60
    world.passes(loop, nodes_are(2), "room again")
    assert world.said("FailedScheduling") == []


def test_the_first_headroom_after_a_start_waits_for_pods_but_for_no_quiet_time(world: World) -> None:
    """Others wait until it is known which nodes are kept; pods that come all the time do not put that off."""
    world.add_provisioner()
    annotate(world, "default", headroom='[{"cpu": "1", "count": 1}]')
    world.add_pod("a")
    loop = reconciler(world, BatchTimes(0.02, 0.02, 5.0))
    world.passes(loop, nodes_are(1), "the pod's node")
    assert not world.planned.is_set(), "the pods that wait come first"
    set_batch_times(world, BatchTimes(600.0, 600.0))
    world.add_pod("b")
    world.passes(loop, lambda _: world.planned.is_set(), "although the window for the next pod is open")
    assert len(world.cloud.requests) >= 1


def test_a_headroom_that_cannot_be_read_or_kept_is_said_to_its_provisioner_and_launches_nothing(world: World) -> None:
    world.add_provisioner()
    annotate(world, "default", headroom='[{"cpu": "some"}]')
    loop = reconciler(world)
    world.passes(loop, lambda _: world.said("HeadroomInvalid"), "said")
    annotate(world, "default", headroom='[{"cpu": "900"}]')
    world.clock.ahead_seconds += 60
    world.passes(loop, lambda _: world.said("HeadroomUnmet"), "no type has that much")
    told = world.await_event("HeadroomUnmet")
    assert (told["type"], told["involvedObject"]["name"]) == ("Warning", "default")
    assert "Headroom is not kept: " in told["message"]
    assert "CPU" in told["message"]
    assert world.cloud.requests == []
