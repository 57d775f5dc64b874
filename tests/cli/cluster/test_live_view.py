"""The view's watches: one list, then changes; any cluster; what is wrong is said and what was known stays."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from controller.cli.cluster.cluster_view import Where, source_for
from controller.cli.cluster.live_view import Sight, Watched, readable, watched
from controller.cli.view.command import Looks
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
def cluster(foreign: Running) -> Iterator[Watched]:
    """It is watched, nodes of the pool `blue` alone."""
    with watched(Where(kubeconfig=str(foreign.kubeconfig)), "pool=blue") as found:
        yield found


@pytest.fixture
def kube(foreign: Running) -> KubeClient:
    return KubeClient(connect(str(foreign.kubeconfig)))


def make_node(kube: KubeClient, name: str, **more: str) -> None:
    room = {"cpu": "2", "memory": "8Gi", "pods": "29"}
    kube.create(NODES, {"metadata": {"name": name, "labels": labels("m5.large", **more)}})
    status = {"capacity": room, "allocatable": room, "conditions": [READY]}
    kube.patch(NODES, name, {"status": status}, subresource="status")


def until(cluster: Watched, true: Callable[[Sight], Any]) -> Sight:
    """Look until it is so."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true(sight := cluster.look()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
    return sight


def test_a_cluster_that_is_not_ours_is_seen_with_its_prices(cluster: Watched) -> None:
    view = Looks(cluster).look()
    assert [node.name for node in view.nodes] == ["first"]
    assert view.price_per_hour == pytest.approx(0.096)
    assert view.warnings == ()


def test_pods_that_wait_in_a_cluster_that_is_not_ours_are_told_what_its_nodes_lack(
    cluster: Watched, kube: KubeClient
) -> None:
    """That there is no Provisioner is no news where nobody asked for one."""
    kube.create(PODS, {"metadata": {"name": "big"}, "spec": {"containers": [container("64")]}}, "default")
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = {"status": {"phase": "Pending", "conditions": [unschedulable]}}
    kube.patch(PODS, "big", status, namespace="default", subresource="status")
    until(cluster, lambda sight: any(pod.unschedulable for pod in sight.present.snapshot.pods.values()))
    (waiting,) = Looks(cluster).look().waiting
    assert (waiting.workload, waiting.reason) == ("default/big", "The only node has no room")
    kube.delete(PODS, "big", "default")
    until(cluster, lambda sight: not sight.present.snapshot.pods)


def test_what_changes_is_seen_and_the_selector_follows_the_labels(cluster: Watched, kube: KubeClient) -> None:
    make_node(kube, "second")
    until(cluster, lambda sight: "second" in sight.present.snapshot.nodes)
    assert cluster.look().names == frozenset({"first"})
    kube.patch(NODES, "second", {"metadata": {"labels": {"pool": "blue"}}})
    until(cluster, lambda sight: sight.names == frozenset({"first", "second"}))
    kube.delete(NODES, "second")
    until(cluster, lambda sight: sight.names == frozenset({"first"}) and len(sight.present.snapshot.nodes) == 1)


def test_nothing_is_read_or_planned_anew_while_nothing_changes(cluster: Watched) -> None:
    first = until(cluster, lambda sight: sight.present is cluster.look().present)
    assert cluster.look().present is first.present


def test_wrong_settings_are_said_and_the_last_good_ones_hold(cluster: Watched, kube: KubeClient) -> None:
    good = {"aws.clusterName": "shop", "launchLimits": '{"nodesPerMinute": 3}'}
    kube.create(CONFIG_MAPS, {"metadata": {"name": "karpenter-global-settings"}, "data": good}, "default")
    until(cluster, lambda sight: sight.present.settings.launch_limits is not None)
    bad = {"data": {"launchLimits": "lots"}}
    kube.patch(CONFIG_MAPS, "karpenter-global-settings", bad, namespace="default")
    sight = until(cluster, lambda sight: sight.notes)
    assert "launchLimits" in sight.notes[0]
    assert sight.present.settings.launch_limits is not None
    kube.delete(CONFIG_MAPS, "karpenter-global-settings", "default")
    until(cluster, lambda sight: not sight.notes)


def test_an_outage_is_said_and_what_was_known_stays(cluster: Watched, foreign: Running) -> None:
    headers = {"Authorization": f"Bearer {foreign.token}"}
    fault: dict[str, str | float] = {"kind": "outage", "seconds": OUTAGE_SECONDS}
    requests.post(f"{foreign.url}/sandbox/faults", json=fault, headers=headers, timeout=10).raise_for_status()
    sight = until(cluster, lambda sight: sight.notes)
    assert sight.notes[0].startswith("The API server does not answer")
    assert "first" in sight.present.snapshot.nodes
    until(cluster, lambda sight: not sight.notes)


def test_a_region_that_ec2_does_not_have_has_no_prices_and_says_so() -> None:
    source = source_for("europe-west4", Settings(cluster_name="c"), Where())
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
    found, notes = readable(kube, CLUSTER_STATE, (NODES, PODS))
    assert NODES in found
    assert {STORAGE_CLASSES, PROVISIONERS} & set(found) == set()
    assert notes == ("You may not list storageclasses: what depends on them is not known",)
    kube.hidden = (NODES,)
    with pytest.raises(ForbiddenError, match="list nodes"):
        readable(kube, CLUSTER_STATE, (NODES, PODS))


def test_a_pod_that_comes_counts_on_its_node(cluster: Watched, kube: KubeClient) -> None:
    kube.create(
        PODS, {"metadata": {"name": "p"}, "spec": {"nodeName": "first", "containers": [container("1")]}}, "default"
    )
    until(cluster, lambda sight: sight.present.snapshot.nodes["first"].pods)
    (node,) = Looks(cluster).look().nodes
    assert (node.pods, node.use("cpu")) == (1, 0.5)
