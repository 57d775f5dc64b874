"""The PersistentVolume controller: binds claims to volumes, asks provisioners for new ones, releases what is left."""

from __future__ import annotations

from sandbox.world.controllers.base import Context, Controller, is_deleting
from sandbox.world.resources import PVCS, PVS, STORAGE_CLASSES, Key, Obj, key_of
from sandbox.world.scheduling.quantity import value
from sandbox.world.scheduling.volumes import NO_PROVISIONER, is_bound, satisfies

SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
COMPONENT = "persistentvolume-controller"


class VolumeBindingController(Controller):
    """Keys are claims, and volumes by an empty namespace; a volume's change queues the claim that it refers to."""

    name = "volume-binding"
    concurrency = 1  # two claims must not take the same volume

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.claims = self.watch(PVCS)
        self.volumes = self.informers.of(PVS)
        self.classes = self.informers.of(STORAGE_CLASSES)
        self.volumes.add_handler(self._on_volume)
        self.classes.add_handler(self._on_class)

    def _on_volume(self, _: Obj | None, new: Obj | None) -> None:
        reference = new["spec"].get("claimRef") if new is not None else None
        if reference:
            self.queue.add((reference["namespace"], reference["name"]))
        elif new is not None:
            self.queue.add(key_of(new))
            self._on_class(None, new)

    def _on_class(self, _: Obj | None, new: Obj | None) -> None:
        for claim in self.claims if new is not None else ():
            if not is_bound(claim):
                self.queue.add(key_of(claim))

    async def sync(self, key: Key) -> float | None:
        """Bind one claim or ask for its volume; release the volumes of a claim that is gone."""
        if not key[0]:
            await self._offer(key)
            return None
        claim = self.claims.get(key)
        await self._release(key, claim)
        if claim is None or is_deleting(claim) or is_bound(claim):
            return None
        claim = await self._default_class(claim)
        chosen = self._volume_for(claim)
        if chosen is not None:
            await self._bind(claim, chosen)
            return None
        await self._ask_for_volume(claim)
        return None

    async def _offer(self, key: Key) -> None:
        """A new volume that nobody has claimed becomes Available."""
        volume = self.volumes.get(key)
        if volume is None or volume["spec"].get("claimRef"):
            return
        if (volume.get("status") or {}).get("phase", "Pending") == "Pending":
            await self.patch(PVS, key, {"status": {"phase": "Available"}}, subresource="status")

    async def _release(self, key: Key, claim: Obj | None) -> None:
        for volume in self.volumes:
            reference = volume["spec"].get("claimRef") or {}
            if (reference.get("namespace"), reference.get("name")) != key or not reference.get("uid"):
                continue
            gone = claim is None or claim["metadata"]["uid"] != reference["uid"]
            if gone and (volume.get("status") or {}).get("phase") == "Bound":
                await self.patch(PVS, key_of(volume), {"status": {"phase": "Released"}}, subresource="status")

    async def _default_class(self, claim: Obj) -> Obj:
        """A claim that names no class gets the default one."""
        if claim["spec"].get("storageClassName") is not None:
            return claim
        defaults = [c for c in self.classes if (c["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"]
        if not defaults:
            return claim
        newest = max(defaults, key=lambda c: (c["metadata"]["creationTimestamp"], c["metadata"]["name"]))
        return await self.patch(PVCS, key_of(claim), {"spec": {"storageClassName": newest["metadata"]["name"]}})

    def _delayed(self, claim: Obj) -> bool:
        chosen = self.classes.get(("", claim["spec"].get("storageClassName") or ""))
        return chosen is not None and chosen.get("volumeBindingMode") == "WaitForFirstConsumer"

    def _volume_for(self, claim: Obj) -> Obj | None:
        """The volume that refers to the claim, or that the claim names; else, without delay, the smallest that fits."""
        mine = key_of(claim)
        for volume in self.volumes:
            reference = volume["spec"].get("claimRef") or {}
            if (reference.get("namespace"), reference.get("name")) == mine:
                if reference.get("uid") in (None, "", claim["metadata"]["uid"]):
                    return volume
            elif volume["metadata"]["name"] == claim["spec"].get("volumeName") and not reference:
                return volume
        if self._delayed(claim) or claim["spec"].get("volumeName"):
            return None
        fitting = [volume for volume in self.volumes if satisfies(volume, claim)]
        return min(
            fitting, key=lambda v: (value(v["spec"]["capacity"]["storage"]), v["metadata"]["name"]), default=None
        )

    async def _bind(self, claim: Obj, volume: Obj) -> None:
        """Volume first, then claim, then both phases: each step can be repeated."""
        meta = claim["metadata"]
        reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta["namespace"]}
        reference |= {"name": meta["name"], "uid": meta["uid"]}
        await self.patch(PVS, key_of(volume), {"spec": {"claimRef": reference}})
        await self.patch(PVS, key_of(volume), {"status": {"phase": "Bound"}}, subresource="status")
        body = {
            "metadata": {"annotations": {BIND_COMPLETED: "yes"}},
            "spec": {"volumeName": volume["metadata"]["name"]},
        }
        await self.patch(PVCS, key_of(claim), body)
        status = {
            "phase": "Bound",
            "accessModes": volume["spec"]["accessModes"],
            "capacity": {"storage": volume["spec"]["capacity"]["storage"]},
        }
        await self.patch(PVCS, key_of(claim), {"status": status}, subresource="status")

    async def _ask_for_volume(self, claim: Obj) -> None:
        annotations = claim["metadata"].get("annotations") or {}
        chosen = self.classes.get(("", claim["spec"].get("storageClassName") or ""))
        if chosen is None:
            message = "no persistent volumes available for this claim and no storage class is set"
            self._event(claim, "FailedBinding", message)
        elif self._delayed(claim) and SELECTED_NODE not in annotations:
            self._event(claim, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
        elif chosen["provisioner"] != NO_PROVISIONER and annotations.get(PROVISIONER) != chosen["provisioner"]:
            named = {PROVISIONER: chosen["provisioner"], BETA_PROVISIONER: chosen["provisioner"]}
            await self.patch(PVCS, key_of(claim), {"metadata": {"annotations": named}})
            message = (
                f"Waiting for a volume to be created either by the external provisioner '{chosen['provisioner']}' or "
                "manually by the system administrator. If volume creation is delayed, please verify that the "
                "provisioner is running and correctly registered."
            )
            self._event(claim, "ExternalProvisioning", message)

    def _event(self, claim: Obj, reason: str, message: str) -> None:
        self.recorder.publish(PVCS, claim, reason, message, component=COMPONENT)
