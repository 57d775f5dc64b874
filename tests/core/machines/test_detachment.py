"""Volumes: which of them a drained node waits for."""

from __future__ import annotations

from typing import Any

from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import PodVolume, Toleration
from controller.core.api.workloads import PersistentVolume
from controller.core.machines.draining import attached
from tests import factories

NOW = 1_700_000_000.0


def attachment(volume: str, node: str = "node") -> dict[str, Any]:
    source = {"persistentVolumeName": volume}
    return {"metadata": {"name": f"csi-{volume}"}, "spec": {"nodeName": node, "source": source}}


def test_a_volume_that_is_attached_to_the_node_is_waited_for() -> None:
    volumes = attached([attachment("b"), attachment("a")], (), factories.snapshot(), NOW)
    assert volumes == ("a", "b")


def test_the_volume_of_a_daemon_that_stays_is_not_waited_for() -> None:
    """Nobody takes the daemon off the node, and so nobody detaches its volume: it would wait for ever."""
    daemon = factories.running_pod(
        node="node",
        owner=factories.daemon_owner(),
        tolerations=(Toleration(operator="Exists"),),
        pod_fields={"volumes": (PodVolume("data", "cache"),)},
    )
    volumes = FrozenMap({"pv-1": PersistentVolume("pv-1", claim=(daemon.namespace, "cache"))})
    snapshot = factories.snapshot(volumes=volumes)
    assert attached([attachment("pv-1"), attachment("pv-2")], [daemon], snapshot, NOW) == ("pv-2",)


def test_an_attachment_without_a_persistent_volume_counts_by_its_own_name() -> None:
    inline = {"metadata": {"name": "csi-inline"}, "spec": {"nodeName": "node", "source": {}}}
    assert attached([inline], (), factories.snapshot(), NOW) == ("csi-inline",)
