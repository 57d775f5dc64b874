"""The sandbox's scheduler and the real kube-scheduler give the same verdicts, in the same words, on the same
cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandbox import controlplane
from sandbox.apiserver import Running
from sandbox.realkube import ASSETS_VARIABLE
from sandbox.world.client import ApiClient, ApiError, Connection
from sandbox.world.resources import NODES, PODS, PVCS, PVS, STORAGE_CLASSES, Obj, Resource, key_of
from tests.sandbox.world import cases
from tests.sandbox.world.builders import cluster, judge

SERVICE_ACCOUNTS = Resource("v1", "serviceaccounts", "ServiceAccount")
DEADLINE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where kube-scheduler put a pod, or the message of its PodScheduled condition."""

    node: str
    message: str


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    if not os.environ.get(ASSETS_VARIABLE):
        pytest.skip(f"{ASSETS_VARIABLE} is not set")
    # No controller manager: nodes keep the taints that the cases give them.
    with controlplane.start("real", state=tmp_path_factory.mktemp("plane"), components=("kube-scheduler",)) as plane:
        yield plane


@pytest.mark.real
@pytest.mark.xdist_group("real-scheduler")
def test_same_verdicts_and_words_as_kube_scheduler(real: Running) -> None:
    """Bound: the node is one that we call feasible. Not bound: we have none either, and say the same."""
    candidates = cases.single_rules() | cases.mixtures(80, seed=7)
    assert real.kubeconfig is not None
    outcomes = asyncio.run(_ask_kube_scheduler(real.kubeconfig, candidates))
    view = cluster(
        cases.NODES, cases.PLACED, claims=cases.CLAIMS, volumes=cases.VOLUMES, classes=cases.CLASSES
    )  # fmt: skip
    differences = []
    for name, candidate in candidates.items():
        ours, theirs = judge(candidate, view), outcomes[name]
        names = sorted(each.name for each in ours.feasible)
        if theirs.node not in names if theirs.node else theirs.message != ours.message:
            differences.append(f"{name}\n  kube-scheduler: {theirs}\n  ours: {names or ours.message}")
    assert not differences, "\n".join(differences)
    assert {bool(outcome.node) for outcome in outcomes.values()} == {True, False}


async def _ask_kube_scheduler(kubeconfig: Path, candidates: dict[str, Obj]) -> dict[str, Outcome]:
    async with ApiClient(Connection.from_kubeconfig(kubeconfig)) as client:
        await _create_cluster(client)
        return {name: await _outcome(client, candidate) for name, candidate in candidates.items()}


async def _create_cluster(client: ApiClient) -> None:
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "default"}})
    for node in cases.NODES:
        made = await client.create(NODES, node)
        await client.replace(NODES, {**made, "status": node["status"]}, "status")
        # Admission taints new nodes as not ready, and the taints of the case are all that should be there.
        await client.patch(NODES, key_of(node), {"spec": {"taints": node["spec"]["taints"] or None}})
    for storage_class in cases.CLASSES:
        await client.create(STORAGE_CLASSES, storage_class)
    claims = {}
    for claim in cases.CLAIMS:
        made = await client.create(PVCS, claim)
        claims[made["metadata"]["name"]] = made["metadata"]["uid"]
        bound = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
        if claim["spec"].get("volumeName"):
            await client.patch(PVCS, key_of(claim), bound)
        await client.patch(PVCS, key_of(claim), {"status": claim["status"]}, subresource="status")
    for volume in cases.VOLUMES:
        spec = dict(volume["spec"])
        if reference := spec.get("claimRef"):
            spec["claimRef"] = {**reference, "uid": claims[reference["name"]]}
        made = await client.create(PVS, {**volume, "spec": spec})
        await client.patch(PVS, key_of(volume), {"status": volume["status"]}, subresource="status")
    for placed in cases.PLACED:
        await client.create(PODS, {**placed, "metadata": {**placed["metadata"], "uid": None}})
    await _settled(client)


async def _settled(client: ApiClient) -> None:
    """Wait until kube-scheduler sees the nodes: a pod that fits anywhere is bound."""
    probe = {"metadata": {"name": "probe", "namespace": "default"}, "spec": cases.single_rules()["anywhere"]["spec"]}
    await client.create(PODS, probe)
    async with asyncio.timeout(DEADLINE_SECONDS * 3):
        while not (found := await client.get(PODS, "default", "probe"))["spec"].get("nodeName"):
            await asyncio.sleep(0.05)
    await client.delete(PODS, found, grace_seconds=0)


async def _outcome(client: ApiClient, candidate: Obj) -> Outcome:
    made = await client.create(PODS, {**candidate, "metadata": {**candidate["metadata"], "uid": None}})
    async with asyncio.timeout(DEADLINE_SECONDS):
        while (outcome := _read(made)) is None:
            await asyncio.sleep(0.01)
            made = await client.get(PODS, *key_of(made))
    await client.delete(PODS, made, grace_seconds=0)
    async with asyncio.timeout(DEADLINE_SECONDS):
        while await _exists(client, made):
            await asyncio.sleep(0.01)
    return outcome


async def _exists(client: ApiClient, pod: Obj) -> bool:
    try:
        await client.get(PODS, *key_of(pod))
    except ApiError as error:
        if error.not_found:
            return False
        raise
    return True


def _read(pod: Obj) -> Outcome | None:
    if node := pod["spec"].get("nodeName"):
        return Outcome(node, "")
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Outcome("", condition["message"])
    return None
