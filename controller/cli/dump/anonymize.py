"""Anonymise objects: copy only the fields named here, which scheduling reads, and replace names by pseudonyms.

An allow-list: fields that a later Kubernetes version adds stay out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.cli.dump.anonymize_pod import PodAnonymizer
from controller.cli.dump.pseudonyms import Pseudonyms
from controller.core.api.document import Document, mapping, objects, text
from controller.core.api.labels import OPENS_WITH
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.guards.headroom import HEADROOM_ANNOTATION
from controller.core.guards.mix import BASE_ANNOTATION, PERCENTAGE_ANNOTATION
from controller.core.guards.spending import PRICE_LIMIT_ANNOTATION
from controller.core.zones.balance import (
    INTERVAL_ANNOTATION,
    PREMIUM_ANNOTATION,
    SCOPE_ANNOTATION,
    SHARE_ANNOTATION,
)
from controller.core.zones.services import TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE

ANNOTATIONS = (
    V1ALPHA5.keys.do_not_evict,
    V1ALPHA5.keys.do_not_consolidate,
    "controller.kubernetes.io/pod-deletion-cost",
    V1ALPHA5.keys.disruption_budgets,
    "karpenter.sh/consolidation-threshold",
    PRICE_LIMIT_ANNOTATION,
    BASE_ANNOTATION,
    PERCENTAGE_ANNOTATION,
    HEADROOM_ANNOTATION,
    SHARE_ANNOTATION,
    PREMIUM_ANNOTATION,
    SCOPE_ANNOTATION,
    INTERVAL_ANNOTATION,
    TOPOLOGY_MODE,
    TOPOLOGY_AWARE_HINTS,
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
"""Annotations that decisions depend on and whose values identify nobody."""
NAMING_ANNOTATIONS = ("volume.beta.kubernetes.io/storage-class", "volume.kubernetes.io/selected-node", OPENS_WITH)
"""Annotations that decisions depend on and whose values are names: these become pseudonyms."""
TEMPLATE_FIELDS = ("amiFamily", "metadataOptions", "detailedMonitoring")
EBS_FIELDS = ("volumeSize", "volumeType", "iops", "throughput", "encrypted", "deleteOnTermination")
PROVISIONER_FIELDS = ("weight", "limits", "consolidation", "ttlSecondsAfterEmpty", "ttlSecondsUntilExpired")
KUBELET_FIELDS = (
    "containerRuntime", "maxPods", "podsPerCore", "evictionMaxPodGracePeriod", "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent", "cpuCFSQuota",
)  # fmt: skip
KUBELET_MAPS = ("systemReserved", "kubeReserved", "evictionHard", "evictionSoft", "evictionSoftGracePeriod")
RESERVED = (
    "cpu", "memory", "ephemeral-storage", "pid", "memory.available", "nodefs.available", "nodefs.inodesFree",
    "imagefs.available", "imagefs.inodesFree", "pid.available",
)  # fmt: skip
"""Keys that those maps may have: resources and the kubelet's eviction signals."""
IN_TREE = ("awsElasticBlockStore", "gcePersistentDisk", "azureDisk", "cinder", "vsphereVolume", "local", "hostPath")


@dataclass(frozen=True, slots=True)
class Anonymizer:
    """Anonymises the objects of one dump."""

    names: Pseudonyms

    def anonymous(self, document: Document) -> dict[str, Any] | None:
        """Return an anonymous copy of an object; None for kinds that dumps leave out."""
        makers: Mapping[str, Callable[[Document], dict[str, Any]]] = {
            "Pod": self._pods.pod,
            "Node": self._node,
            "Provisioner": self._provisioner,
            "AWSNodeTemplate": self._template,
            "DaemonSet": self._daemon_set,
            "PodDisruptionBudget": self._budget,
            "PersistentVolumeClaim": self._claim,
            "PersistentVolume": self._volume,
            "StorageClass": self._storage_class,
            "CSINode": self._csi_node,
            "Namespace": lambda _: {},
            "Service": self._service,
        }
        make = makers.get(text(document.get("kind")))
        if make is None:
            return None
        kept = {key: document[key] for key in ("apiVersion", "kind") if key in document}
        return {**kept, "metadata": self._metadata(document), **make(document)}

    @property
    def _pods(self) -> PodAnonymizer:
        return PodAnonymizer(self.names)

    def _metadata(self, document: Document) -> dict[str, Any]:
        meta, alias = mapping(document.get("metadata")), self.names.alias
        kept: dict[str, Any] = {"name": alias(text(meta.get("name"))), "uid": alias(text(meta.get("uid")))}
        if meta.get("namespace"):
            kept["namespace"] = alias(text(meta["namespace"]))
        kept.update({key: meta[key] for key in ("creationTimestamp", "deletionTimestamp", "generation") if key in meta})
        annotations = mapping(meta.get("annotations"))
        kept["annotations"] = {key: annotations[key] for key in ANNOTATIONS if key in annotations}
        kept["annotations"].update({key: alias(annotations[key]) for key in NAMING_ANNOTATIONS if key in annotations})
        kept["labels"] = self._pods.labels(meta.get("labels"))
        owners = objects(meta.get("ownerReferences"))
        kept["ownerReferences"] = [self._owner(each) for each in owners]
        return kept

    def _owner(self, owner: Document) -> dict[str, Any]:
        api_version, kind = self.names.owner_type(text(owner.get("apiVersion")), text(owner.get("kind")))
        named = {key: self.names.alias(text(owner.get(key))) for key in ("name", "uid")}
        return {"apiVersion": api_version, "kind": kind, **named}

    def _node(self, node: Document) -> dict[str, Any]:
        spec, status = mapping(node.get("spec")), mapping(node.get("status"))
        conditions = [
            {key: each.get(key) for key in ("type", "status")}
            for each in objects(status.get("conditions"))
            if each.get("type") == "Ready"
        ]
        return {
            "spec": {"taints": self._taints(spec.get("taints")), "unschedulable": spec.get("unschedulable") is True},
            "status": {
                "capacity": self._pods.amounts(status.get("capacity")),
                "allocatable": self._pods.amounts(status.get("allocatable")),
                "conditions": conditions,
            },
        }

    def _taints(self, value: Any) -> list[dict[str, Any]]:
        return [
            {
                "key": self.names.key(text(each.get("key"))),
                "value": self.names.value(text(each.get("key")), text(each.get("value"))),
                "effect": each.get("effect"),
            }
            for each in objects(value)
        ]

    def _provisioner(self, provisioner: Document) -> dict[str, Any]:
        spec = mapping(provisioner.get("spec"))
        kept: dict[str, Any] = {key: spec[key] for key in PROVISIONER_FIELDS if key in spec}
        limits = mapping(mapping(spec.get("limits")).get("resources"))
        if limits:
            kept["limits"] = {"resources": self._pods.amounts(limits)}
        kept["requirements"] = self._pods.expressions(spec.get("requirements"))
        kept["labels"] = self._pods.labels(spec.get("labels"))
        for key in ("taints", "startupTaints"):
            if spec.get(key):
                kept[key] = self._taints(spec[key])
        if isinstance(spec.get("kubeletConfiguration"), Mapping):
            kubelet = spec["kubeletConfiguration"]
            kept["kubeletConfiguration"] = {key: kubelet[key] for key in KUBELET_FIELDS if key in kubelet}
            kept["kubeletConfiguration"].update(
                {key: {name: kubelet[key][name] for name in RESERVED if name in mapping(kubelet[key])}
                 for key in KUBELET_MAPS if key in kubelet}
            )  # fmt: skip
        reference = text(mapping(spec.get("providerRef")).get("name"))
        if reference or not spec.get("provider"):
            kept["providerRef"] = {"name": self.names.alias(reference)}
        else:
            kept["provider"] = self._template_spec(mapping(spec["provider"]))
        return {"spec": kept}

    def _template(self, template: Document) -> dict[str, Any]:
        return {"spec": self._template_spec(mapping(template.get("spec")))}

    def _template_spec(self, spec: Document) -> dict[str, Any]:
        kept: dict[str, Any] = {key: spec[key] for key in TEMPLATE_FIELDS if key in spec}
        for key in ("subnetSelector", "securityGroupSelector"):
            if spec.get(key):
                kept[key] = {"dumped": self.names.alias(str(spec[key]))}
        mappings = [
            {
                "deviceName": each.get("deviceName"),
                "ebs": {key: value for key, value in mapping(each.get("ebs")).items() if key in EBS_FIELDS},
            }
            for each in objects(spec.get("blockDeviceMappings"))
        ]
        return {**kept, **({"blockDeviceMappings": mappings} if mappings else {})}

    def _daemon_set(self, daemon_set: Document) -> dict[str, Any]:
        spec = mapping(daemon_set.get("spec"))
        template = mapping(spec.get("template"))
        return {
            "spec": {
                "selector": self._pods.selector(spec.get("selector")),
                "template": {
                    "metadata": {"labels": self._pods.labels(mapping(template.get("metadata")).get("labels"))},
                    "spec": self._pods.spec(mapping(template.get("spec"))),
                },
            }
        }

    def _budget(self, budget: Document) -> dict[str, Any]:
        status = mapping(budget.get("status"))
        counted = ("disruptionsAllowed", "observedGeneration")
        return {
            "spec": {"selector": self._pods.selector(mapping(budget.get("spec")).get("selector"))},
            "status": {key: status[key] for key in counted if key in status},
        }

    def _service(self, service: Document) -> dict[str, Any]:
        spec = mapping(service.get("spec"))
        kept = {key: spec[key] for key in ("type", "trafficDistribution") if key in spec}
        if spec.get("clusterIP") == "None":
            kept["clusterIP"] = "None"
        return {"spec": {**kept, "selector": self._pods.labels(spec.get("selector"))}}

    def _claim(self, claim: Document) -> dict[str, Any]:
        spec, alias = mapping(claim.get("spec")), self.names.alias
        kept = {key: spec[key] for key in ("accessModes", "resources") if key in spec}
        for key in ("storageClassName", "volumeName"):
            if key in spec:
                kept[key] = alias(text(spec[key]))
        return {"spec": kept}

    def _volume(self, volume: Document) -> dict[str, Any]:
        spec, alias = mapping(volume.get("spec")), self.names.alias
        kept: dict[str, Any] = {key: spec[key] for key in ("capacity", "accessModes") if key in spec}
        kept["storageClassName"] = alias(text(spec.get("storageClassName")))
        claim = mapping(spec.get("claimRef"))
        if claim:
            kept["claimRef"] = {key: alias(text(claim.get(key))) for key in ("namespace", "name")}
        required = mapping(mapping(spec.get("nodeAffinity")).get("required"))
        if required:
            kept["nodeAffinity"] = {"required": self._pods.node_terms(required)}
        if "csi" in spec:
            kept["csi"] = {"driver": self.names.driver(text(mapping(spec["csi"]).get("driver")))}
        kept.update({key: {} for key in IN_TREE if key in spec})
        return {"spec": kept, "status": {"phase": mapping(volume.get("status")).get("phase")}}

    def _storage_class(self, storage_class: Document) -> dict[str, Any]:
        kept: dict[str, Any] = {
            "provisioner": self.names.driver(text(storage_class.get("provisioner"))),
            "volumeBindingMode": storage_class.get("volumeBindingMode"),
        }
        if storage_class.get("allowedTopologies"):
            kept["allowedTopologies"] = [
                {"matchLabelExpressions": self._pods.expressions(each.get("matchLabelExpressions"), operators=False)}
                for each in objects(storage_class["allowedTopologies"])
            ]
        return kept

    def _csi_node(self, csi_node: Document) -> dict[str, Any]:
        drivers = [
            {"name": self.names.driver(text(each.get("name"))), "allocatable": each.get("allocatable")}
            for each in objects(mapping(csi_node.get("spec")).get("drivers"))
        ]
        return {"spec": {"drivers": drivers}}


def anonymous(documents: Iterable[Document], names: Pseudonyms) -> list[dict[str, Any]]:
    """Return anonymous copies of all objects whose kind a dump has."""
    made = map(Anonymizer(names).anonymous, documents)
    return [each for each in made if each is not None]
