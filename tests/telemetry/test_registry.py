"""The metrics page: Karpenter v0.27's names and types, quantiles over a window, no series of deleted objects."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from controller.core.api import labels as keys
from controller.core.api.pod import Resources
from controller.core.state.snapshot import Snapshot
from controller.runtime import metrics as names
from controller.telemetry import cluster_series
from controller.telemetry.cluster_series import ClusterSeries
from controller.telemetry.registry import MOST_OBSERVATIONS, WINDOW_SECONDS, Metrics
from tests import factories
from tests.manual_clock import ManualClock

PEERS = {
    "karpenter_deprovisioning_evaluation_duration_seconds",
    "karpenter_deprovisioning_replacement_node_initialized_seconds",
    "karpenter_deprovisioning_actions_performed",
    "karpenter_deprovisioning_eligible_machines",
    "karpenter_nodes_created",
    "karpenter_nodes_terminated",
    "karpenter_nodes_termination_time_seconds",
    "karpenter_nodes_allocatable",
    "karpenter_nodes_total_pod_requests",
    "karpenter_nodes_total_pod_limits",
    "karpenter_nodes_total_daemon_requests",
    "karpenter_nodes_total_daemon_limits",
    "karpenter_nodes_system_overhead",
    "karpenter_pods_state",
    "karpenter_pods_startup_time_seconds",
    "karpenter_provisioner_limit",
    "karpenter_provisioner_usage",
    "karpenter_provisioner_usage_pct",
    "karpenter_provisioner_scheduling_duration_seconds",
    "karpenter_consistency_errors",
    "karpenter_cloudprovider_duration_seconds",
    "karpenter_cloudprovider_batcher_batch_time_seconds",
    "karpenter_cloudprovider_batcher_batch_size",
    "karpenter_interruption_received_messages",
    "karpenter_interruption_deleted_messages",
    "karpenter_interruption_message_latency_time_seconds",
    "karpenter_interruption_actions_performed",
    "controller_runtime_reconcile_total",
    "controller_runtime_reconcile_time_seconds",
    "controller_runtime_reconcile_errors_total",
    "controller_runtime_active_workers",
    "controller_runtime_max_concurrent_reconciles",
    "rest_client_requests_total",
    "leader_election_master_status",
}


def samples(text: bytes, name: str) -> list[Sample]:
    families = text_string_to_metric_families(text.decode())
    return [sample for family in families for sample in family.samples if sample.name == name]


def values(text: bytes, name: str, *by: str) -> dict[tuple[str, ...], float]:
    return {tuple(sample.labels[label] for label in by): sample.value for sample in samples(text, name)}


def test_karpenters_metrics_have_karpenters_names() -> None:
    declared = {metric.name for metric in names.ALL}
    assert declared >= PEERS
    assert len(declared) == len(names.ALL), "no name twice"
    for metric in names.ALL:
        assert metric.help.endswith("."), metric.name
        assert (metric.buckets != ()) == (metric.kind == "histogram"), metric.name
        assert list(metric.buckets) == sorted(metric.buckets), metric.name


def test_counters_keep_their_names_and_types() -> None:
    metrics = Metrics()
    metrics.count(names.NODES_CREATED, "provisioning", "default")
    metrics.count(names.NODES_CREATED, "provisioning", "default", amount=2)
    metrics.count(names.REST_REQUESTS, "200", "GET", "host")
    text = metrics.page({}).body.decode()
    assert "# TYPE karpenter_nodes_created counter\n" in text
    assert 'karpenter_nodes_created{provisioner="default",reason="provisioning"} 3.0\n' in text
    assert "# TYPE rest_client_requests_total counter\n" in text
    assert 'rest_client_requests_total{code="200",host="host",method="GET"} 1.0\n' in text
    assert "karpenter_interruption_deleted_messages 0.0\n" in text, "a rate needs a zero to start from"
    assert "_created " not in text.replace("karpenter_nodes_created ", ""), "no series beside the histograms"


def test_quantiles_are_of_the_last_while_and_sums_of_all_time() -> None:
    clock = ManualClock()
    metrics = Metrics(clock)
    metrics.observe(names.TERMINATION_TIME, 1000.0, "default")
    clock.advance(WINDOW_SECONDS + 1)
    for value in range(101):
        metrics.observe(names.TERMINATION_TIME, float(value), "default")
    text = metrics.page({}).body
    quantiles = values(text, names.TERMINATION_TIME.name, "quantile")
    assert quantiles == {("0",): 0.0, ("0.5",): 50.0, ("0.9",): 90.0, ("0.99",): 99.0, ("1",): 100.0}
    assert values(text, f"{names.TERMINATION_TIME.name}_sum") == {(): 6050.0}
    clock.advance(WINDOW_SECONDS + 1)
    later = values(metrics.page({}).body, names.TERMINATION_TIME.name, "quantile")
    assert all(value != value for value in later.values()), "nothing happened: not a number, as in Karpenter v0.27"


def test_memory_for_a_summary_is_bounded() -> None:
    metrics = Metrics(ManualClock())
    for value in range(MOST_OBSERVATIONS + 100):
        metrics.observe(names.PODS_STARTUP_TIME, float(value))
    text = metrics.page({}).body
    assert values(text, names.PODS_STARTUP_TIME.name, "quantile")[("0",)] == 100.0
    assert values(text, f"{names.PODS_STARTUP_TIME.name}_count") == {(): MOST_OBSERVATIONS + 100}


def test_a_gauge_has_the_values_it_was_given_last_and_no_others() -> None:
    metrics = Metrics()
    metrics.replace(names.ELIGIBLE_MACHINES, {("consolidation",): 3, ("drift",): 1})
    metrics.replace(names.ELIGIBLE_MACHINES, {("consolidation",): 0})
    assert values(metrics.page({}).body, names.ELIGIBLE_MACHINES.name, "deprovisioner") == {("consolidation",): 0.0}


def test_a_measure_with_the_wrong_labels_is_the_programs_mistake() -> None:
    with pytest.raises(TypeError, match="karpenter_nodes_created has labels"):
        Metrics().count(names.NODES_CREATED, "provisioning")


def limits(cpu: str) -> Resources:
    return factories.pod_requests({"cpu": cpu})


def world(nodes: Iterable[str] = ("n1", "n2")) -> Snapshot:
    daemon = factories.daemon_owner()
    made = [
        factories.state_node(
            node=factories.node(name=name, allocatable={"cpu": "1900m", "memory": "7Gi"}, capacity={"cpu": "2"}),
            pods=[
                factories.running_pod(
                    node=name, name=f"web-{name}", requests={"cpu": "500m"}, pod_fields={"limits": limits("2500m")}
                ),
                factories.running_pod(node=name, name=f"free-{name}", requests={}),
                factories.running_pod(
                    node=name,
                    name=f"ds-{name}",
                    requests={"cpu": "100m"},
                    owner=daemon,
                    pod_fields={"limits": limits("200m")},
                ),
            ],
        )
        for name in nodes
    ]
    stranger = factories.state_node(node=factories.node(name="fargate", provisioner="", labels={"odd": 'a"b'}))
    provisioners = [
        factories.provisioner(limits={"cpu": "10", "nvidia.com/gpu": "0"}),
        factories.provisioner(name="open"),
    ]
    waiting = factories.pending_pod(name="waits", owner=factories.replica_set_owner())
    return factories.snapshot(nodes=[*made, stranger], pending=[waiting], provisioners=provisioners)


def test_nodes_are_told_with_their_labels_and_cpu_in_cores() -> None:
    text = ClusterSeries().render(world())
    allocatable = [each for each in samples(text, names.NODES_ALLOCATABLE.name) if each.labels["node_name"] == "n1"]
    assert {each.labels["resource_type"]: each.value for each in allocatable} == {"cpu": 1.9, "memory": 7 * 2**30}
    labels = allocatable[0].labels
    assert set(labels) == set(names.NODES_ALLOCATABLE.labels)
    assert (labels["provisioner"], labels["phase"], labels["instance_type"]) == ("default", "Running", "m5.large")
    assert (labels["instance_gpu_name"], labels["arch"]) == ("N/A", "amd64")
    cpu = [each for each in samples(text, names.NODES_POD_REQUESTS.name) if each.labels["resource_type"] == "cpu"]
    assert {each.labels["node_name"]: each.value for each in cpu} == {"n1": 0.5, "n2": 0.5}
    daemons = samples(text, names.NODES_DAEMON_REQUESTS.name)
    assert {each.value for each in daemons if each.labels["resource_type"] == "cpu"} == {0.1}
    for metric, cores in ((names.NODES_POD_LIMITS, 2.5), (names.NODES_DAEMON_LIMITS, 0.2)):
        told = values(text, metric.name, "node_name", "resource_type")
        assert (told["n1", "cpu"], told["n2", "cpu"]) == (cores, cores), metric.name
        assert not any(resource == "memory" for _, resource in told), "what nothing bounds has no series"
    overhead = values(text, names.NODES_OVERHEAD.name, "node_name", "resource_type")
    assert overhead["n1", "cpu"] == pytest.approx(0.1)
    strangers = [e for e in samples(text, names.NODES_ALLOCATABLE.name) if e.labels["node_name"] == "fargate"]
    assert {each.labels["provisioner"] for each in strangers} == {""}


def test_pods_are_told_with_where_they_run_and_who_owns_them() -> None:
    pods = {
        each.labels["name"]: each.labels for each in samples(ClusterSeries().render(world()), names.PODS_STATE.name)
    }
    assert set(pods) == {"waits", *(f"{kind}-{node}" for kind in ("web", "free", "ds") for node in ("n1", "n2"))}
    assert (pods["waits"]["node"], pods["waits"]["zone"], pods["waits"]["phase"]) == ("N/A", "N/A", "Pending")
    assert pods["waits"]["owner"] == "/apis/apps/v1/namespaces/default/replicasets/web"
    assert (pods["web-n1"]["node"], pods["web-n1"]["provisioner"]) == ("n1", "default")
    assert set(pods["waits"]) == set(names.PODS_STATE.labels)


def test_provisioners_are_told_with_use_and_limits() -> None:
    text = ClusterSeries().render(world())
    assert values(text, names.PROVISIONER_LIMIT.name, "provisioner", "resource_type") == {
        ("default", "cpu"): 10.0,
        ("default", "nvidia.com/gpu"): 0.0,
    }
    assert values(text, names.PROVISIONER_USAGE.name, "provisioner", "resource_type") == {("default", "cpu"): 4.0}
    percent = values(text, names.PROVISIONER_USAGE_PCT.name, "provisioner", "resource_type")
    assert percent == {("default", "cpu"): 40.0, ("default", "nvidia.com/gpu"): 100.0}


def test_what_is_gone_has_no_series_and_what_changed_has_its_new_labels() -> None:
    page = ClusterSeries()
    page.render(world())
    text = page.render(world(["n2"]))
    assert {each.labels["node_name"] for each in samples(text, names.NODES_ALLOCATABLE.name)} == {"n2", "fargate"}
    leaving = factories.state_node(node=factories.node(name="n2", zone="zone-x"), marked_for_deletion=True)
    text = page.render(factories.snapshot(nodes=[leaving]))
    (labels, *_) = [each.labels for each in samples(text, names.NODES_ALLOCATABLE.name)]
    assert (labels["phase"], labels["zone"]) == ("Terminated", "zone-x")


def test_pods_beyond_the_bound_are_counted_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_series, "MOST_POD_SERIES", 2)
    text = ClusterSeries().render(world())
    assert len(samples(text, names.PODS_STATE.name)) == 2
    assert values(text, names.DROPPED_SERIES.name, "metric") == {(names.PODS_STATE.name,): 5.0}


def test_odd_characters_in_labels_do_not_break_the_page() -> None:
    node = factories.node(name="n", labels={keys.ZONE: 'a"b\\c\nd'})
    text = ClusterSeries().render(factories.snapshot(nodes=[factories.state_node(node=node)]))
    assert {each.labels["zone"] for each in samples(text, names.NODES_ALLOCATABLE.name)} == {'a"b\\c\nd'}
