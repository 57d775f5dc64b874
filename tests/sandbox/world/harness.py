"""A living cluster for tests: an API server, the world beside it, and machines that a test switches on and off."""

from __future__ import annotations

import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import orjson
import urllib3

from sandbox import controlplane
from sandbox.apiserver import Running
from sandbox.world.machines.capacity import MachineShape
from sandbox.world.machines.instances import Instance
from sandbox.world.machines.kubelet import BootTimes
from sandbox.world.machines.podworker import PodTimes
from sandbox.world.resources import PODS, Obj, Resource
from sandbox.world.world import KUBELETS, WorldSettings, serve

T = TypeVar("T")
DEADLINE_SECONDS = 20.0
GIB = 1024**3
SHAPES = {
    "m5.large": MachineShape("m5.large", "amd64", 2, 8 * GIB, 29, {}),
    "m5.xlarge": MachineShape("m5.xlarge", "amd64", 4, 16 * GIB, 58, {}),
    "g4dn.xlarge": MachineShape("g4dn.xlarge", "amd64", 4, 16 * GIB, 29, {"nvidia.com/gpu": 1}),
}


FAST = WorldSettings(
    time_scale=10.0,
    poll_seconds=0.5,
    boot=BootTimes(1.0, 1.0, 1.0),
    pods=PodTimes(0.5, 0.5, 2.0),
    gone_grace_seconds=5.0,
)
"""The whole world, ten times as fast, with short delays."""


class ScriptedCloud:
    """A cloud whose machines are what the test says."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._instances: dict[str, Instance] = {}
        self.volumes: dict[str, str] = {}
        """Zone by volume id."""

    def launch(
        self, *, instance_type: str = "m5.xlarge", zone: str = "ap-northeast-2a", labels: str = "", taints: str = "",
        extra: str = "", tags: dict[str, str] | None = None,
    ) -> Instance:  # fmt: skip
        """A running instance with AL2 user data."""
        number = secrets.token_hex(4)
        address = f"10.{int(number[:2], 16)}.{int(number[2:4], 16)}.{int(number[4:6], 16)}"
        flags = f"--node-labels={labels}" + (f" --register-with-taints={taints}" if taints else "") + extra
        instance = Instance(
            instance_id=f"i-{number}{number}0",
            instance_type=instance_type,
            state="running",
            zone=zone,
            region="ap-northeast-2",
            private_ip=address,
            private_dns_name=f"ip-{address.replace('.', '-')}-{number}.ap-northeast-2.compute.internal",
            capacity_type="spot",
            user_data=f"#!/bin/bash\n/etc/eks/bootstrap.sh 'demo' --kubelet-extra-args '{flags}'\n",
            tags={"kubernetes.io/cluster/demo": "owned", **(tags or {})},
        )
        with self._lock:
            self._instances[instance.instance_id] = instance
        return instance

    def terminate(self, instance: Instance) -> None:
        """The instance ends."""
        with self._lock:
            self._instances[instance.instance_id] = replace(instance, state="terminated")

    def instances(self) -> list[Instance]:
        """See `Cloud`."""
        with self._lock:
            return list(self._instances.values())

    def shape(self, instance_type: str) -> MachineShape:
        """See `Cloud`."""
        return SHAPES[instance_type]

    def create_volume(self, zone: str, size_gib: int, volume_type: str, tags: dict[str, str]) -> str:
        """See `Cloud`."""
        volume_id = f"vol-{secrets.token_hex(8)}"
        self.volumes[volume_id] = zone
        return volume_id

    def delete_volume(self, volume_id: str) -> None:
        """See `Cloud`."""
        self.volumes.pop(volume_id, None)


class Cluster:
    """A test's view: its own namespace, calls as JSON, waiting with a deadline."""

    def __init__(self, running: Running, cloud: ScriptedCloud, *, real: bool) -> None:
        self.cloud = cloud
        self.real = real
        self.running = running
        self.namespace = f"t-{secrets.token_hex(4)}"
        tls: dict[str, Any] = {}
        if running.certificate is not None:
            tls["ssl_context"] = ssl.create_default_context(cafile=str(running.certificate))
        self._pool = urllib3.PoolManager(headers={"Authorization": f"Bearer {running.token}"}, **tls)
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        accounts = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default"
        self.eventually(lambda: self.call("GET", accounts, missing=True) is not None)

    def call(self, method: str, path: str, body: Any = None, *, missing: bool = False) -> Obj | None:
        """One request; `missing` turns 404 into None."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = None if body is None else orjson.dumps(body)
        answer = self._pool.request(
            method, self.running.url + path, body=data, headers={**self._pool.headers, "Content-Type": kind}
        )
        if missing and answer.status == 404:
            return None
        assert answer.status < 400, f"{method} {path}: {answer.status} {answer.data!r}"
        found: Obj = orjson.loads(answer.data)
        return found

    def _path(self, resource: Resource, name: str = "", subresource: str = "") -> str:
        return resource.path(self.namespace if resource.namespaced else "", name, subresource)

    def create(self, resource: Resource, name: str, spec: Any, **fields: Any) -> Obj:
        """Create an object of the test's namespace; `fields` are further top-level fields."""
        body = {"apiVersion": resource.group_version, "kind": resource.kind, "metadata": {"name": name}, **fields}
        if spec is not None:
            body["spec"] = spec
        made = self.call("POST", self._path(resource), body)
        assert made is not None
        return made

    def get(self, resource: Resource, name: str) -> Obj | None:
        """The object, or None."""
        return self.call("GET", self._path(resource, name), missing=True)

    def list(self, resource: Resource, selector: str = "") -> list[Obj]:
        """Objects of the test's namespace (or the cluster) by label selector."""
        query = f"?labelSelector={selector}" if selector else ""
        answer = self.call("GET", self._path(resource) + query)
        assert answer is not None
        items: list[Obj] = answer["items"]
        return items

    def patch(self, resource: Resource, name: str, body: Obj, subresource: str = "") -> None:
        """Merge patch."""
        self.call("PATCH", self._path(resource, name, subresource), body)

    def delete(self, resource: Resource, name: str) -> None:
        """Delete with all dependents, as kubectl does: the API server's own default leaves a Job's pods.

        Gone already is fine.
        """
        self.call("DELETE", self._path(resource, name) + "?propagationPolicy=Background", missing=True)

    def eventually(self, check: Callable[[], T | None], deadline_seconds: float = DEADLINE_SECONDS) -> T:
        """The first truthy answer of `check`, asked again until the deadline; then the test fails with the last one."""
        end = time.monotonic() + deadline_seconds
        while not (answer := check()):
            assert time.monotonic() < end, f"not within {deadline_seconds:.0f} s: {check.__name__}; last: {answer!r}"
            time.sleep(0.05)
        return answer

    def healthy_pods(self, selector: str) -> int:
        """How many pods are Running, or -1 while the server does not answer."""
        try:
            return sum(pod["status"].get("phase") == "Running" for pod in self.list(PODS, selector))
        except (AssertionError, urllib3.exceptions.HTTPError):
            return -1

    def ready_node(self, name: str) -> Obj:
        """Wait until the Node is Ready."""
        return self.eventually(lambda: n if node_is_ready(n := self.node(name)) else None)

    def machine(self, **kwargs: Any) -> str:
        """Launch an instance, wait until its Node is Ready; the node's name."""
        name = self.cloud.launch(labels=f"pool={self.namespace}", **kwargs).private_dns_name
        self.ready_node(name)
        return name

    def node(self, name: str) -> Obj | None:
        """The Node, or None."""
        return self.call("GET", f"/api/v1/nodes/{name}", missing=True)

    def pod_spec(self, **fields: Any) -> Obj:
        """A small pod on the test's own machines, gone at once when deleted."""
        container = {"name": "main", "image": "pause:3.7", "resources": {"requests": {"cpu": "100m"}}}
        return {
            "nodeSelector": {"pool": self.namespace},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **fields,
        }


def node_is_ready(node: Obj | None) -> bool:
    """Ready, and the not-ready taint is off."""
    if node is None:
        return False
    conditions = (node.get("status") or {}).get("conditions") or ()
    tainted = any(t["key"] == "node.kubernetes.io/not-ready" for t in node["spec"].get("taints") or ())
    return not tainted and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


@contextmanager
def living_cluster(kind: controlplane.Kind, state: Path) -> Iterator[tuple[Running, ScriptedCloud]]:
    """An embedded API server with the whole world, or a real control plane with kubelets only; ten times as fast."""
    settings = FAST if kind == "embedded" else replace(FAST, parts=(KUBELETS,))
    cloud = ScriptedCloud()
    components = ("kube-scheduler", "kube-controller-manager")
    with controlplane.start(kind, state=state, components=components) as running:
        assert running.kubeconfig is not None
        with serve(running.kubeconfig, cloud=cloud, settings=settings):
            yield running, cloud
