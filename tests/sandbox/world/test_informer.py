"""Informers with a field selector: kubelets that run alone list and watch bound pods only."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import urllib3

from sandbox import apiserver
from sandbox.world.client import ApiClient, Connection
from sandbox.world.informer import Informers
from sandbox.world.resources import PODS, Obj
from sandbox.world.world import BOUND_PODS, KUBELETS, serve
from tests.sandbox.world.harness import DEADLINE_SECONDS, FAST, Cluster, ScriptedCloud


def test_a_field_selector_leaves_out_pods_until_they_are_bound(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with apiserver.serve(kubeconfig=kubeconfig) as running:
        kube = Cluster(running, ScriptedCloud(), real=False)
        for name, bound in (("waits", {}), ("later", {}), ("runs", {"nodeName": "node-1"})):
            kube.create(PODS, name, kube.pod_spec(**bound))
        assert asyncio.run(_told(kubeconfig, kube)) == ["runs", "later"]


def test_kubelets_that_run_alone_read_bound_pods_only(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    with apiserver.serve(kubeconfig=kubeconfig) as running:
        with serve(kubeconfig, cloud=ScriptedCloud(), settings=replace(FAST, parts=(KUBELETS,))):
            calls = urllib3.request("GET", f"{running.url}/sandbox/calls", timeout=5.0).json()["calls"]
        reads = [call["path"] for call in calls if call["path"].startswith(f"{PODS.path()}?")]
        assert reads
        assert all("fieldSelector=spec.nodeName" in path for path in reads), reads


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
