"""The EBS CSI driver's part: makes volumes for claims in the zone where their pod goes, and deletes released ones."""

from __future__ import annotations

import asyncio
import logging

from sandbox.world.client import ApiClient, ApiError
from sandbox.world.clock import WorldClock
from sandbox.world.events import EventRecorder
from sandbox.world.informer import Informers
from sandbox.world.machines.instances import Cloud, CloudError
from sandbox.world.resources import NODES, PVCS, PVS, STORAGE_CLASSES, Key, Obj, key_of
from sandbox.world.scheduling.quantity import value
from sandbox.world.scheduling.volumes import is_bound
from sandbox.world.workqueue import Workqueue

DRIVER = "ebs.csi.aws.com"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
ZONE = "topology.kubernetes.io/zone"
COMPONENT = f"{DRIVER}_sandbox"
GIB = 1024**3
RETRY_SECONDS = 2.0

log = logging.getLogger(__name__)


class EbsProvisioner:
    """Keys are claims and, with an empty namespace, volumes."""

    def __init__(
        self, client: ApiClient, informers: Informers, recorder: EventRecorder, clock: WorldClock, cloud: Cloud
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._cloud = cloud
        self._queue: Workqueue[Key] = Workqueue("ebs", clock)
        self._claims = informers.of(PVCS)
        self._volumes = informers.of(PVS)
        self._classes = informers.of(STORAGE_CLASSES)
        self._nodes = informers.of(NODES)
        for informer in (self._claims, self._volumes):
            informer.add_handler(self._on_change)

    def _on_change(self, _: Obj | None, new: Obj | None) -> None:
        if new is not None:
            self._queue.add(key_of(new))

    async def run(self) -> None:
        """Provision and delete for ever."""
        await self._queue.run(self._sync, concurrency=4)

    async def _sync(self, key: Key) -> float | None:
        try:
            if key[0]:
                await self._provision(key)
            else:
                await self._reclaim(key)
        except CloudError as error:
            log.warning("EBS: %s %s: %s", *key, error)
            return RETRY_SECONDS
        return None

    async def _provision(self, key: Key) -> None:
        claim = self._claims.get(key)
        if claim is None or is_bound(claim) or claim["metadata"].get("deletionTimestamp"):
            return
        annotations = claim["metadata"].get("annotations") or {}
        name = f"pvc-{claim['metadata']['uid']}"
        if annotations.get(PROVISIONER) != DRIVER or self._volumes.get(("", name)) is not None:
            return
        chosen = self._classes.get(("", claim["spec"].get("storageClassName") or ""))
        zone = self._zone(chosen, annotations.get(SELECTED_NODE, ""))
        if chosen is None or not zone:
            message = "error generating accessibility requirements: no topology key found for the selected node"
            self._recorder.publish(PVCS, claim, "ProvisioningFailed", message, component=COMPONENT, warning=True)
            return
        size_gib = -(-value(claim["spec"]["resources"]["requests"]["storage"]) // GIB)
        kind = (chosen.get("parameters") or {}).get("type") or "gp3"
        tags = {"CSIVolumeName": name, "kubernetes.io/created-for/pvc/name": key[1]}
        volume_id = await asyncio.to_thread(self._cloud.create_volume, zone, size_gib, kind, tags)
        document = persistent_volume(claim, chosen, name, volume_id, zone, size_gib)
        try:
            self._volumes.absorb(await self._client.create(PVS, document))
        except ApiError as error:
            await asyncio.to_thread(self._cloud.delete_volume, volume_id)
            if not error.conflict:
                raise
            return
        message = f"Successfully provisioned volume {name}"
        self._recorder.publish(PVCS, claim, "ProvisioningSucceeded", message, component=COMPONENT)

    def _zone(self, storage_class: Obj | None, node_name: str) -> str:
        """The selected node's zone; without one (Immediate) the first allowed or known zone."""
        if node_name:
            node = self._nodes.get(("", node_name))
            return str(((node or {}).get("metadata", {}).get("labels") or {}).get(ZONE, ""))
        for topology in (storage_class or {}).get("allowedTopologies") or ():
            for expression in topology.get("matchLabelExpressions") or ():
                if expression["key"] == ZONE:
                    return str(expression["values"][0])
        zones = sorted({(node["metadata"].get("labels") or {}).get(ZONE, "") for node in self._nodes} - {""})
        return zones[0] if zones else ""

    async def _reclaim(self, key: Key) -> None:
        volume = self._volumes.get(key)
        if volume is None or (volume["spec"].get("csi") or {}).get("driver") != DRIVER:
            return
        released = (volume.get("status") or {}).get("phase") == "Released"
        if released and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            await asyncio.to_thread(self._cloud.delete_volume, volume["spec"]["csi"]["volumeHandle"])
            await self._client.delete(PVS, volume)


def persistent_volume(claim: Obj, storage_class: Obj, name: str, volume_id: str, zone: str, size_gib: int) -> Obj:
    """The PersistentVolume of a new EBS volume: reserved for its claim, usable in its zone only."""
    meta = claim["metadata"]
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER}},
        "spec": {
            "accessModes": claim["spec"]["accessModes"],
            "capacity": {"storage": f"{size_gib}Gi"},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
            },
            "csi": {"driver": DRIVER, "volumeHandle": volume_id, "fsType": "ext4"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
            "storageClassName": storage_class["metadata"]["name"],
            "volumeMode": claim["spec"].get("volumeMode") or "Filesystem",
        },
    }
