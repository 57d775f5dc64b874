"""Informers of a part of a resource: kubelets list and watch bound pods alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sandbox import apiserver
from sandbox.world.client import ApiClient, Connection
from sandbox.world.informer import Informers
from sandbox.world.resources import PODS, Obj
from sandbox.world.world import BOUND_PODS
from tests.sandbox.world.harness import DEADLINE_SECONDS, Cluster, ScriptedCloud


def test_a_field_selector_leaves_out_pods_until_they_are_bound(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with apiserver.serve(kubeconfig=kubeconfig) as running:
        kube = Cluster(running, ScriptedCloud(), real=False)
        for name, bound in (("waits", {}), ("later", {}), ("runs", {"nodeName": "node-1"})):
            kube.create(PODS, name, kube.pod_spec(**bound))
        assert asyncio.run(_told(kubeconfig, kube)) == ["runs", "later"]


async def _told(kubeconfig: Path, kube: Cluster) -> list[str]:
    """The names of the pods that an informer of bound pods tells of, while the pod `later` is bound."""
    async with ApiClient(Connection.from_kubeconfig(kubeconfig)) as client:
        informer = Informers(client, BOUND_PODS).of(PODS)
        names: asyncio.Queue[str] = asyncio.Queue()

        def tell(_old: Obj | None, new: Obj | None) -> None:
            if new is not None:
                names.put_nowait(new["metadata"]["name"])

        informer.add_handler(tell)
        keeping = asyncio.create_task(informer.run())
        await informer.synced.wait()
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "later"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
        }
        path = PODS.path(kube.namespace, "later", "binding")
        await asyncio.to_thread(kube.call, "POST", path, binding)
        told = [await asyncio.wait_for(names.get(), DEADLINE_SECONDS) for _ in range(2)]
        keeping.cancel()
        return told
