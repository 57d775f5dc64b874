"""The view's watches: one list, then changes; any cluster; what is wrong is said and what was known stays."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from controller.cli.cluster.cluster_view import ClusterLocation, source_or_none
from controller.cli.cluster.live_view import NONE, LiveCluster, Observation, readable, watch_cluster
from controller.cli.view.command import LiveReader
from controller.errors import ForbiddenError
from controller.kube.client import KubeClient
from controller.kube.connection import connect
from controller.kube.resources import CLUSTER_STATE, CONFIG_MAPS, NODES, PODS, PROVISIONERS, STORAGE_CLASSES, Resource
from controller.settings import Settings
from sandbox.apiserver import Running, serve
from tests.cli.cluster_files import READY, labels
from tests.cli.conftest import container

PATIENCE_SECONDS = 20.0
OUTAGE_SECONDS = 0.3


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A cluster that has none of our CRDs, with one node of somebody else's."""
    path = tmp_path_factory.mktemp("foreign") / "kubeconfig"
    with serve(kubeconfig=path) as running:
        make_node(KubeClient(connect(str(path))), "first", pool="blue")
        yield running


@pytest.fixture(scope="module")
def cluster(foreign: Running) -> Iterator[LiveCluster]:
    """It is watch_cluster, nodes of the pool `blue` alone."""
    with watch_cluster(ClusterLocation(kubeconfig=str(foreign.kubeconfig)), "pool=blue") as cluster:
        yield cluster


@pytest.fixture
def kube(foreign: Running) -> KubeClient:
    return KubeClient(connect(str(foreign.kubeconfig)))


def make_node(kube: KubeClient, name: str, **more: str) -> None:
    room = {"cpu": "2", "memory": "8Gi", "pods": "29"}
    kube.create(NODES, {"metadata": {"name": name, "labels": labels("m5.large", **more)}})
    status = {"capacity": room, "allocatable": room, "conditions": [READY]}
    kube.patch(NODES, name, {"status": status}, subresource="status")


def until(cluster: LiveCluster, true: Callable[[Observation], Any]) -> Observation:
    """Observe until it is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true(observation := cluster.observe()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
    return observation


def test_a_cluster_that_is_not_ours_is_seen_with_its_prices(cluster: LiveCluster) -> None:
    view = LiveReader(cluster).read()
    assert [node.name for node in view.nodes] == ["first"]
    assert view.price_per_hour == pytest.approx(0.096)
    assert view.warnings == ()


def test_pods_that_wait_in_a_cluster_that_is_not_ours_are_told_what_its_nodes_lack(
    cluster: LiveCluster, kube: KubeClient
) -> None:
    """That there is no Provisioner is no news where nobody asked for one."""
    kube.create(PODS, {"metadata": {"name": "big"}, "spec": {"containers": [container("64")]}}, "default")
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"status": {"phase": "Pending", "conditions": [unschedulable]}}
    kube.patch(PODS, "big", status, namespace="default", subresource="status")
    until(cluster, lambda observation: any(pod.unschedulable for pod in observation.cluster.snapshot.pods.values()))
    (waiting,) = LiveReader(cluster).read().waiting
    assert (waiting.workload, waiting.reason) == ("default/big", "The only node has no room")
    kube.delete(PODS, "big", "default")
    until(cluster, lambda observation: not observation.cluster.snapshot.pods)


def test_what_changes_is_seen_and_the_selector_follows_the_labels(cluster: LiveCluster, kube: KubeClient) -> None:
    make_node(kube, "second")
    until(cluster, lambda observation: "second" in observation.cluster.snapshot.nodes)
    assert cluster.observe().names == frozenset({"first"})
    kube.patch(NODES, "second", {"metadata": {"labels": {"pool": "blue"}}})
    until(cluster, lambda observation: observation.names == frozenset({"first", "second"}))
    kube.delete(NODES, "second")
    until(
        cluster,
        lambda observation: observation.names == frozenset({"first"}) and len(observation.cluster.snapshot.nodes) == 1,
    )


def test_nothing_is_read_or_planned_anew_while_nothing_changes(cluster: LiveCluster) -> None:
    first = until(cluster, lambda observation: observation.cluster is cluster.observe().cluster)
    assert cluster.observe().cluster is first.cluster


def test_wrong_settings_are_said_and_the_last_good_ones_hold(cluster: LiveCluster, kube: KubeClient) -> None:
    good = {"aws.clusterName": "shop", "launchLimits": '{"nodesPerMinute": 3}'}
    kube.create(CONFIG_MAPS, {"metadata": {"name": "karpenter-global-settings"}, "data": good}, "default")
    until(cluster, lambda observation: observation.cluster.settings.launch_limits is not None)
    bad = {"data": {"launchLimits": "lots"}}
    kube.patch(CONFIG_MAPS, "karpenter-global-settings", bad, namespace="default")
    observation = until(cluster, lambda observation: observation.notes)
    assert "launchLimits" in observation.notes[0]
    assert observation.cluster.settings.launch_limits is not None
    kube.delete(CONFIG_MAPS, "karpenter-global-settings", "default")
    until(cluster, lambda observation: not observation.notes)


def test_an_outage_is_said_and_what_was_known_stays(cluster: LiveCluster, foreign: Running) -> None:
    headers = {"Authorization": f"Bearer {foreign.token}"}
    fault: dict[str, str | float] = {"kind": "outage", "seconds": OUTAGE_SECONDS}
    requests.post(f"{foreign.url}/sandbox/faults", json=fault, headers=headers, timeout=10).raise_for_status()
    observation = until(cluster, lambda observation: observation.notes)
    assert observation.notes[0].startswith("The API server does not answer")
    assert "first" in observation.cluster.snapshot.nodes
    until(cluster, lambda observation: not observation.notes)


def test_a_region_that_ec2_does_not_have_has_no_prices_and_says_so() -> None:
    source = source_or_none("", "europe-west4", Settings(cluster_name="c"))
    assert source.prices.price("m5.large", "europe-west4-a", "on-demand") is None
    assert source.note.startswith("No prices: ")


class Guarded(KubeClient):
    """Somebody who may not list some kinds."""

    hidden: tuple[Resource, ...] = ()

    def list(self, resource: Resource, *more: Any, **selectors: Any) -> Any:
        if resource in self.hidden:
            raise ForbiddenError(f"list {resource.plural}: not yours")
        return super().list(resource, *more, **selectors)


def test_kinds_that_are_not_there_or_not_to_be_listed_are_left_out_but_not_nodes(foreign: Running) -> None:
    kube = Guarded(connect(str(foreign.kubeconfig)))
    kube.hidden = (STORAGE_CLASSES,)
    resources, notes = readable(kube, CLUSTER_STATE, (NODES, PODS))
    assert NODES in resources
    assert {STORAGE_CLASSES, PROVISIONERS} & set(resources) == set()
    assert notes == ("You may not list storageclasses: what depends on them is unknown",)
    kube.hidden = (NODES,)
    with pytest.raises(ForbiddenError, match="list nodes"):
        readable(kube, CLUSTER_STATE, (NODES, PODS))


def test_a_pod_that_comes_counts_on_its_node(cluster: LiveCluster, kube: KubeClient) -> None:
    kube.create(
        PODS, {"metadata": {"name": "p"}, "spec": {"nodeName": "first", "containers": [container("1")]}}, "default"
    )
    until(cluster, lambda observation: observation.cluster.snapshot.nodes["first"].pods)
    (node,) = LiveReader(cluster).read().nodes
    assert (node.pods, node.use("cpu")) == (1, 0.5)


def test_nodes_are_seen_while_the_pods_are_still_listed(foreign: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a large cluster the list of pods takes long; the view does not wait for it, and says what is missing."""
    listed, list_all = threading.Event(), KubeClient.list_all

    def slowly(client: KubeClient, resource: Resource, *more: Any) -> Any:
        assert resource is not PODS or more[2:3] == (NONE,) or listed.wait(PATIENCE_SECONDS)
        return list_all(client, resource, *more)

    monkeypatch.setattr(KubeClient, "list_all", slowly)
    with watch_cluster(ClusterLocation(kubeconfig=str(foreign.kubeconfig)), early=True) as early:
        reader = LiveReader(early)
        until(early, lambda observation: "first" in observation.cluster.snapshot.nodes)
        view = reader.read()
        assert ([node.name for node in view.nodes], view.listing, view.costs) == (["first"], True, None)
        assert any(each.startswith("Still listing ") and "Pod" in each for each in view.warnings)
        listed.set()
        until(early, lambda observation: not observation.listing)
        view = reader.read()
        assert (view.listing, view.warnings) == (False, ())
        assert view.costs is not None
