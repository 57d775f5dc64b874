"""Numbers of the fleet: prices by place, what waits, what is sold out, and how long pods took to be ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from controller.core.api import labels as keys
from controller.core.api.pod import Pod
from controller.core.cloud import Offering
from controller.core.state.snapshot import Snapshot
from controller.reconcilers.bookkeeping.fleet_observation import ObservationReconciler
from controller.runtime import metrics as names
from controller.runtime.metrics import Metric
from controller.telemetry.registry import Metrics
from tests import factories
from tests.manual_clock import ManualClock
from tests.reconcilers.cloud import MemoryCloud
from tests.reconcilers.conftest import detached_context
from tests.telemetry.test_registry import values


class Watcher:
    """The reconciler over snapshots built by the test, and the last values that it recorded."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.told: dict[str, dict[tuple[str, ...], float]] = {}
        self.metrics = Metrics(self.clock)
        self.cloud = MemoryCloud()
        self.loop = ObservationReconciler(detached_context(self.cloud, self.clock, self))

    def count(self, metric: Metric, *labels: str, amount: float = 1.0) -> None:
        self.metrics.count(metric, *labels, amount=amount)

    def observe(self, metric: Metric, value: float, *labels: str) -> None:
        self.told.setdefault(metric.name, {})[labels] = value
        self.metrics.observe(metric, value, *labels)

    def replace(self, metric: Metric, values: Mapping[tuple[str, ...], float]) -> None:
        self.told[metric.name] = dict(values)
        self.metrics.replace(metric, values)


def cluster(version: int = 1) -> Snapshot:
    pods = [factories.running_pod(node="a", requests={"cpu": "1"})]
    spot = factories.node(name="b", capacity_type=keys.SPOT, initialized=False)
    nodes = [
        factories.state_node(node=factories.node(name="a"), pods=pods),
        factories.state_node(node=spot),
        factories.state_node(node=factories.node(name="odd", instance_type="x9.huge", allocatable={"cpu": "0"})),
    ]
    return factories.snapshot(
        nodes=nodes,
        provisioners=[factories.provisioner()],
        node_templates=[factories.node_template()],
        version=version,
    )


def test_prices_nodes_and_what_nobody_knows_the_price_of() -> None:
    one = Watcher()
    one.loop.reconcile(cluster())
    zone = factories.ZONES[0]
    assert one.told[names.FLEET_PRICE.name] == {
        ("default", keys.ON_DEMAND, zone): pytest.approx(0.096),
        ("default", keys.SPOT, zone): pytest.approx(0.0384),
    }
    assert one.told[names.FLEET_NODES.name] == {
        ("default", keys.ON_DEMAND, zone, "initialized"): 2,
        ("default", keys.SPOT, zone, "starting"): 1,
    }
    assert one.told[names.FLEET_UNPRICED.name] == {(): 1}
    assert one.told[names.QUEUE_LENGTH.name][("starting",)] == 1
    assert one.told[names.QUEUE_LENGTH.name][("commands",)] == 0


def test_what_waits_is_counted_with_the_age_of_the_oldest() -> None:
    one = Watcher()
    since = {name: one.clock.now() - age for name, age in {"old": 90.0, "young": 20.0}.items()}
    waiting = [factories.pending_pod(name=name, pod_fields={"created": at}) for name, at in since.items()]
    starting = replace(factories.node(name="b", initialized=False), created=one.clock.now() - 40.0)
    leaving = replace(factories.node(name="c"), deleted_at=one.clock.now() - 300.0)
    nodes = [factories.state_node(node=node) for node in (starting, leaving)]
    one.loop.reconcile(factories.snapshot(pending=waiting, nodes=nodes, provisioners=[factories.provisioner()]))
    page = one.metrics.page({}).body
    lengths = {"pods": 2.0, "starting": 1.0, "terminating": 1.0, "commands": 0.0}
    ages = {"pods": 90.0, "starting": 40.0, "terminating": 300.0, "commands": 0.0}
    for metric, expected in ((names.QUEUE_LENGTH, lengths), (names.QUEUE_AGE, ages)):
        assert {name: value for (name,), value in values(page, metric.name, "queue").items()} == expected


def test_the_fleet_is_compared_with_a_fresh_pack_and_the_bound_seldom_and_only_when_it_changed() -> None:
    one = Watcher()
    one.loop.reconcile(cluster())
    ratio = one.told[names.FRESH_PACK_RATIO.name][()]
    assert ratio > 1.5, "an empty spot node and one on demand, where one spot node would do"
    assert one.told[names.BOUND_RATIO.name][()] >= ratio
    fresh, bound = one.told[names.FRESH_PACK_PRICE.name][()], one.told[names.BOUND_PRICE.name][()]
    assert fresh * ratio == pytest.approx(0.096 + 0.0384), "of what has a price"
    assert 0 < bound <= fresh
    assert one.told[names.COMPARISON_TIME.name] == {(): 0.0}, "by the clock, that nobody turned"
    del one.told[names.FRESH_PACK_RATIO.name]
    one.clock.advance(60.0)
    one.loop.reconcile(cluster(2))
    assert names.FRESH_PACK_RATIO.name not in one.told, "not yet"
    assert one.told[names.COMPARISON_AGE.name] == {(): 60.0}
    one.clock.advance(600.0)
    one.loop.reconcile(cluster(1))
    assert names.FRESH_PACK_RATIO.name not in one.told, "nothing changed"
    one.clock.advance(600.0)
    one.loop.reconcile(cluster(2))
    assert one.told[names.FRESH_PACK_RATIO.name][()] == ratio


def test_sold_out_offerings_are_counted_once_however_many_provisioners_have_them() -> None:
    one = Watcher()
    zones = ("z1", "z2")
    sold_out = tuple(Offering(zone, keys.SPOT, 0.1, available=zone == "z1") for zone in zones)
    one.cloud.types = tuple(
        factories.instance_type(name=f"m5.{size}", offered=sold_out) for size in ("large", "xlarge")
    )
    snapshot = replace(
        cluster(), provisioners={name: factories.provisioner(name=name) for name in ("default", "other")}
    )
    one.loop.reconcile(snapshot)
    assert one.told[names.UNAVAILABLE_OFFERINGS.name] == {(keys.SPOT, "z1"): 0, (keys.SPOT, "z2"): 2}


def test_pods_that_were_seen_pending_tell_how_long_they_took_to_be_ready_and_others_do_not() -> None:
    one = Watcher()
    created = one.clock.now() - 5
    waiting = factories.pending_pod(name="a", pod_fields={"created": created})
    one.loop.reconcile(factories.snapshot(pending=[waiting]))
    one.clock.advance(30)
    starting = replace(waiting, phase="Running", node_name="n", unschedulable=False)
    one.loop.reconcile(factories.snapshot(pending=[starting]))
    assert names.PODS_STARTUP_TIME.name not in one.told
    one.clock.advance(5)
    ready = replace(starting, ready=True)
    stranger = factories.running_pod(node="n", name="b")
    one.loop.reconcile(factories.snapshot(pending=[ready, stranger]))
    assert one.told[names.PODS_STARTUP_TIME.name] == {(): 40.0}
    one.told.clear()
    one.loop.reconcile(factories.snapshot(pending=[ready, stranger]))
    assert names.PODS_STARTUP_TIME.name not in one.told, "once"


def test_before_the_caches_are_synced_nothing_is_told() -> None:
    one = Watcher()
    one.loop.reconcile(Snapshot())
    assert one.told == {}


def test_pods_that_waited_for_a_node_are_said_to_run_once_and_others_never() -> None:
    watcher = Watcher()
    waits = [factories.pending_pod(name=f"web-{number}") for number in range(110)]
    starts = [replace(each, node_name="a", unschedulable=False) for each in waits]
    runs = [replace(each, phase="Running") for each in starts]
    other = factories.pod(name="other")
    created = watcher.clock.now() - 12.0

    def look(*pods: Pod) -> None:
        watcher.loop.reconcile(factories.snapshot(pending=[replace(pod, created=created) for pod in pods]))

    with capture_logs() as logs:
        look(*waits, other)
        look(*starts, replace(other, node_name="a"))
        look(*runs, replace(other, node_name="a", phase="Running"))
        look(*runs)
    (line,) = [entry for entry in logs if entry["event"] == "Pods run"]
    assert (line["node"], line["pod_count"]) == ("a", 110)
    assert sorted(line["pods"]) == sorted(f"default/web-{number}" for number in range(110)), "each can be found"
    assert line["slowest_seconds"] == 12.0
