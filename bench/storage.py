"""Volumes of made-up problems: bound and not, made by hand and on demand, of a zone or of one host.

Claims stand as their controllers would have made them; those of ephemeral volumes too.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from bench.generate import ZONES, Object
from bench.standing import DRIVER, HOST, ZONE

BOUND = ("bound", "labelled", "host")
"""Kinds of bound volumes: reached from a zone by node affinity, or by labels alone, or from one host."""
KINDS = (*BOUND, "shared", "wait", "zonal", "static", "ephemeral", "immediate")


class Storage:
    """Volumes, claims and classes of a problem."""

    def __init__(self, chance: random.Random, nodes: list[str]) -> None:
        self._chance = chance
        self._nodes = nodes
        self.volumes: list[Object] = []
        self.claims: list[Object] = []
        zones = [{"key": ZONE, "values": [ZONES[0], ZONES[2]]}]
        self.classes = [
            _storage_class("wait"),
            _storage_class("zonal", allowedTopologies=[{"matchLabelExpressions": zones}]),
            _storage_class("immediate", volumeBindingMode="Immediate"),
        ]
        """Volumes wait for their pods, anywhere or in two zones, or are made at once; of classes to come, by hand."""

    def of(self, space: str, app: str) -> Callable[[str], Object]:
        """Draws a kind of volume for an app, and returns what makes the volume of each of its pods, by pod name."""
        kind = self._chance.choice(KINDS)
        if kind == "host" and not self._nodes:
            kind = "bound"
        if kind == "shared":
            name = self._claim(space, f"data-{app}", "", "bound")
            return lambda _: _mounted(name)
        if kind == "ephemeral":
            return lambda pod: self._ephemeral(space, pod)
        storage_class = "" if kind in BOUND else kind
        if kind == "static":
            storage_class = f"static-{app}"
            self.classes.append(_storage_class(storage_class, provisioner="kubernetes.io/no-provisioner"))
            for number in range(self._chance.randrange(1, 6)):
                self._volume(f"pv-{app}-{number}", "bound", storage_class)
        return lambda pod: _mounted(self._claim(space, f"data-{pod}", storage_class, kind))

    def _claim(self, space: str, name: str, storage_class: str, kind: str) -> str:
        """A claim, bound to a volume of its own where its class is empty; its name."""
        claim: Object = {
            "metadata": {"name": name, "namespace": space, "uid": f"{space}-{name}"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        }
        claim["spec"]["storageClassName"] = storage_class
        self.claims.append(claim)
        if not storage_class:
            volume = self._volume(f"pv-{name}", kind, "")
            volume["spec"]["claimRef"] = {"namespace": space, "name": name, "uid": claim["metadata"]["uid"]}
            volume["status"] = {"phase": "Bound"}
            claim["spec"]["volumeName"] = volume["metadata"]["name"]
            claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
            claim["status"] = {"phase": "Bound"}
        return name

    def _volume(self, name: str, kind: str, storage_class: str) -> Object:
        """A volume that nobody claims yet."""
        zone = self._chance.choice(ZONES)
        key, value = (HOST, self._chance.choice(self._nodes)) if kind == "host" else (ZONE, zone)
        spec: Object = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "csi": {"driver": DRIVER, "volumeHandle": name},
        }
        if kind != "labelled":
            terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        metadata = {"name": name, "labels": {ZONE: zone} if kind == "labelled" else {}}
        made: Object = {"metadata": metadata, "spec": spec, "status": {"phase": "Available"}}
        self.volumes.append(made)
        return made

    def _ephemeral(self, space: str, pod: str) -> Object:
        self._claim(space, f"{pod}-data", "zonal", "zonal")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": pod, "controller": True}
        self.claims[-1]["metadata"]["ownerReferences"] = [owner]
        return {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": self.claims[-1]["spec"]}}}


def _mounted(claim: str) -> Object:
    return {"name": "data", "persistentVolumeClaim": {"claimName": claim}}


def _storage_class(name: str, **fields: Any) -> Object:
    waits = {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    return {"metadata": {"name": name}, **waits, **fields}
