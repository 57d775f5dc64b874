"""Anonymise objects: copy only the members named here, which scheduling reads, and replace names by pseudonyms.

An allow-list: members that a later Kubernetes version adds stay out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from controller.cli.dump.copy_rules import (
    Rule,
    alias,
    alias_unless,
    amounts,
    driver,
    each,
    kept,
    key,
    keyed,
    labels,
    members,
    owner,
    plain,
    texts,
)
from controller.cli.dump.pseudonyms import Pseudonyms
from controller.core.api.document import Document, text
from controller.core.api.labels import OPENS_WITH
from controller.core.api.v1alpha5 import V1ALPHA5
from controller.core.guards.headroom import HEADROOM_ANNOTATION
from controller.core.guards.mix import BASE_ANNOTATION, PERCENTAGE_ANNOTATION
from controller.core.guards.spending import PRICE_LIMIT_ANNOTATION
from controller.core.zones.balance import INTERVAL_ANNOTATION, PREMIUM_ANNOTATION, SCOPE_ANNOTATION, SHARE_ANNOTATION
from controller.core.zones.services import TOPOLOGY_AWARE_HINTS, TOPOLOGY_MODE

ANNOTATIONS: Final = kept(
    V1ALPHA5.keys.do_not_evict, V1ALPHA5.keys.do_not_consolidate, "controller.kubernetes.io/pod-deletion-cost",
    V1ALPHA5.keys.disruption_budgets, "karpenter.sh/consolidation-threshold", PRICE_LIMIT_ANNOTATION, BASE_ANNOTATION,
    PERCENTAGE_ANNOTATION, HEADROOM_ANNOTATION, SHARE_ANNOTATION, PREMIUM_ANNOTATION, SCOPE_ANNOTATION,
    INTERVAL_ANNOTATION, TOPOLOGY_MODE, TOPOLOGY_AWARE_HINTS, "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)  # fmt: skip
"""Annotations that decisions depend on and whose values identify nobody."""
NAMING_ANNOTATIONS: Final = dict.fromkeys(
    ("volume.beta.kubernetes.io/storage-class", "volume.kubernetes.io/selected-node", OPENS_WITH), alias
)
"""Annotations that decisions depend on and whose values are names."""
RESERVED: Final = kept(
    "cpu", "memory", "ephemeral-storage", "pid", "memory.available", "nodefs.available", "nodefs.inodesFree",
    "imagefs.available", "imagefs.inodesFree", "pid.available",
)  # fmt: skip
"""Resources and the kubelet's eviction signals."""
IN_TREE: Final = (
    "awsElasticBlockStore", "gcePersistentDisk", "azureDisk", "cinder", "vsphereVolume", "local", "hostPath",
)  # fmt: skip
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

NAME: Final = members({"name": alias})
TAINTS: Final = each(keyed("effect"))
EXPRESSIONS: Final = each(keyed("operator"))
SELECTOR: Final = members({"matchLabels": labels, "matchExpressions": EXPRESSIONS})
RESOURCES: Final = members({"requests": amounts, "limits": amounts})
NODE_TERM: Final = members({
    "matchExpressions": EXPRESSIONS, "matchFields": each(members({**kept("key", "operator"), "values": texts(alias)})),
})  # fmt: skip
NODE_SELECTOR: Final = members({"nodeSelectorTerms": each(NODE_TERM)})
POD_TERM: Final = members({
    "topologyKey": key, "labelSelector": SELECTOR, "namespaces": texts(alias), "namespaceSelector": SELECTOR,
    "matchLabelKeys": texts(key), "mismatchLabelKeys": texts(key),
})  # fmt: skip
POD_AFFINITY: Final = members(
    {REQUIRED: each(POD_TERM), PREFERRED: each(members({"weight": plain, "podAffinityTerm": POD_TERM}))}
)
AFFINITY: Final = members({
    "nodeAffinity": members(
        {REQUIRED: NODE_SELECTOR, PREFERRED: each(members({"weight": plain, "preference": NODE_TERM}))}
    ),
    "podAffinity": POD_AFFINITY, "podAntiAffinity": POD_AFFINITY,
})  # fmt: skip
CONTAINERS: Final = each(members({
    "name": lambda *_: "c", "resources": RESOURCES, "restartPolicy": plain,
    "ports": each(members(kept("containerPort", "hostPort", "protocol")), lambda port: port.get("hostPort")),
}))  # fmt: skip
CLAIM_TEMPLATE: Final = members({"spec": members({"storageClassName": alias})})
VOLUMES: Final = each(
    members({
        "name": alias, "persistentVolumeClaim": members({"claimName": alias}),
        "ephemeral": members({"volumeClaimTemplate": CLAIM_TEMPLATE}),
    }),
    lambda volume: "persistentVolumeClaim" in volume or "ephemeral" in volume,
)  # fmt: skip
"""Those of claims; others do not influence scheduling."""
SPREAD: Final = each(members({
    **kept("maxSkew", "minDomains", "whenUnsatisfiable", "nodeAffinityPolicy", "nodeTaintsPolicy"),
    "topologyKey": key, "labelSelector": SELECTOR, "matchLabelKeys": texts(key),
}))  # fmt: skip
POD_SPEC: Final = members({
    **kept("priority", "preemptionPolicy", "terminationGracePeriodSeconds", "hostNetwork"),
    "containers": CONTAINERS, "initContainers": CONTAINERS, "nodeName": alias,
    "priorityClassName": alias_unless("system-cluster-critical", "system-node-critical"),
    "schedulerName": alias_unless("default-scheduler"),
    "overhead": amounts, "resources": RESOURCES, "schedulingGates": each(NAME), "resourceClaims": each(NAME),
    "schedulingGroup": members({"podGroupName": alias}), "workloadRef": NAME, "nodeSelector": labels,
    "tolerations": each(keyed("operator", "effect", "tolerationSeconds")), "topologySpreadConstraints": SPREAD,
    "affinity": AFFINITY, "volumes": VOLUMES,
})  # fmt: skip


def discovered(selector: Any, names: Pseudonyms) -> dict[str, str] | None:
    """Keep of a selector of AWS's resources that there is one, and which templates have the same."""
    return {"dumped": names.alias(str(selector))} if selector else None


TEMPLATE: Final = members({
    **kept("amiFamily", "metadataOptions", "detailedMonitoring"),
    "subnetSelector": discovered, "securityGroupSelector": discovered,
    "blockDeviceMappings": each(members({"deviceName": plain, "ebs": members(kept(
        "volumeSize", "volumeType", "iops", "throughput", "encrypted", "deleteOnTermination",
    ))})),
})  # fmt: skip
KUBELET: Final = members({
    **kept("containerRuntime", "maxPods", "podsPerCore", "evictionMaxPodGracePeriod", "imageGCHighThresholdPercent",
           "imageGCLowThresholdPercent", "cpuCFSQuota"),
    **dict.fromkeys(("systemReserved", "kubeReserved", "evictionHard", "evictionSoft", "evictionSoftGracePeriod"),
                    members(RESERVED)),
})  # fmt: skip
METADATA: Final = members({
    "name": alias, "uid": alias, "namespace": alias, **kept("creationTimestamp", "deletionTimestamp", "generation"),
    "annotations": members({**ANNOTATIONS, **NAMING_ANNOTATIONS}), "labels": labels, "ownerReferences": each(owner),
})  # fmt: skip

KINDS: Final[dict[str, dict[str, Rule]]] = {
    "Pod": {
        "spec": POD_SPEC,
        "status": members({
            **kept("phase", "reason"), "nominatedNodeName": alias,
            "conditions": each(
                members(kept("type", "status", "reason")), lambda one: one.get("type") in ("PodScheduled", "Ready")
            ),
        }),
    },
    "Node": {
        "spec": members({"taints": TAINTS, "unschedulable": plain}),
        "status": members({
            "capacity": amounts, "allocatable": amounts,
            "conditions": each(members(kept("type", "status")), lambda one: one.get("type") == "Ready"),
        }),
    },
    "Provisioner": {
        "spec": members({
            **kept("weight", "consolidation", "ttlSecondsAfterEmpty", "ttlSecondsUntilExpired"),
            "limits": members({"resources": amounts}), "requirements": EXPRESSIONS, "labels": labels, "taints": TAINTS,
            "startupTaints": TAINTS, "kubeletConfiguration": KUBELET, "providerRef": NAME, "provider": TEMPLATE,
        }),
    },
    "AWSNodeTemplate": {"spec": TEMPLATE},
    "DaemonSet": {
        "spec": members({
            "selector": SELECTOR,
            "template": members({"metadata": members({"labels": labels}), "spec": POD_SPEC}),
        }),
    },
    "PodDisruptionBudget": {
        "spec": members({"selector": SELECTOR}), "status": members(kept("disruptionsAllowed", "observedGeneration")),
    },
    "PersistentVolumeClaim": {
        "spec": members({**kept("accessModes", "resources"), "storageClassName": alias, "volumeName": alias}),
    },
    "PersistentVolume": {
        "spec": members({
            **kept("capacity", "accessModes"), "storageClassName": alias,
            "claimRef": members({"namespace": alias, "name": alias}),
            "nodeAffinity": members({"required": NODE_SELECTOR}), "csi": members({"driver": driver}),
            **dict.fromkeys(IN_TREE, members({})),
        }),
        "status": members(kept("phase")),
    },
    "StorageClass": {
        "provisioner": driver, "volumeBindingMode": plain,
        "allowedTopologies": each(members({"matchLabelExpressions": each(keyed())})),
    },
    "CSINode": {"spec": members({"drivers": each(members({"name": driver, "allocatable": plain}))})},
    "Namespace": {},
    "Service": {
        "spec": members({
            **kept("type", "trafficDistribution"), "selector": labels,
            "clusterIP": lambda value, _: value if value == "None" else None,
        }),
    },
}  # fmt: skip
"""The members of each kind that a dump has, beside `metadata`; other kinds are left out."""


def anonymous(documents: Iterable[Document], names: Pseudonyms) -> list[dict[str, Any]]:
    """Return anonymous copies of all objects whose kind a dump has."""
    every = {kind: members({**kept("apiVersion", "kind"), "metadata": METADATA, **own}) for kind, own in KINDS.items()}
    return [every[kind](one, names) for one in documents if (kind := text(one.get("kind"))) in every]
