"""Nothing that a user wrote leaves the cluster by a dump: names, keys, values, annotations, fields nobody knows."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller.cli.dump.anonymize import anonymous
from controller.cli.dump.pseudonyms import Pseudonyms

MARK = "zq"
"""In every word of the user's; in none of the field's, and in no pseudonym: those are hexadecimal."""
NAMES = Pseudonyms(b"salt")
UNKNOWN = f"{MARK}-unknown"
REQUIRED, PREFERRED = (f"{each}DuringSchedulingIgnoredDuringExecution" for each in ("required", "preferred"))

words = st.from_regex(rf"\A[a-z]{{0,3}}{MARK}[-a-z0-9]{{0,12}}\Z")
keys = st.one_of(
    words,
    st.builds("{}.example.com/{}".format, words, words),
    st.builds("example.kubernetes.io.{}/name".format, words),
    st.builds("kubernetes.io/cluster/{}".format, words),
    st.builds("node-role.kubernetes.io/{}".format, words),
    st.builds("{}.node-restriction.kubernetes.io/{}".format, words, words),
)


def pod_spec(word: str, key: str) -> dict[str, Any]:
    """A pod's spec with the user's text wherever there can be some."""
    selector, expression = {"matchLabels": {key: word}}, {"key": key, "operator": "In", "values": [word]}
    term = {
        "topologyKey": key, "labelSelector": {**selector, "matchExpressions": [expression]}, "namespaces": [word],
        "namespaceSelector": selector, "matchLabelKeys": [key], "mismatchLabelKeys": [key],
    }  # fmt: skip
    nodes = {
        "matchExpressions": [expression],
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": [word]}],
    }
    container = {
        "name": word, "image": word, "command": [word], "args": [word], "workingDir": word,
        "env": [{"name": word, "value": word, "valueFrom": {"secretKeyRef": {"name": word, "key": word}}}],
        "resources": {"requests": {f"{word}.io/{word}": "1"}, "claims": [{"name": word}]},
        "ports": [{"name": word, "containerPort": 80, "hostPort": 80, "hostIP": word}],
        "livenessProbe": {"httpGet": {"path": word, "port": word}}, "volumeMounts": [{"name": word, "mountPath": word}],
    }  # fmt: skip
    claim = {"metadata": {"labels": {key: word}}, "spec": {"storageClassName": word, "volumeName": word}}
    return {
        "containers": [container], "initContainers": [container], "ephemeralContainers": [container],
        "nodeName": word, "serviceAccountName": word, "priorityClassName": word, "schedulerName": word,
        "runtimeClassName": word, "hostname": word, "subdomain": word, "imagePullSecrets": [{"name": word}],
        "hostAliases": [{"ip": word, "hostnames": [word]}], "schedulingGates": [{"name": word}],
        "nodeSelector": {key: word}, "overhead": {f"{word}.io/{word}": "1"}, "resourceClaims": [{"name": word}],
        "tolerations": [{"key": key, "operator": "Equal", "value": word, "effect": "NoExecute"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": key, "labelSelector": selector, "matchLabelKeys": [key]}
        ],
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [nodes]},
                PREFERRED: [{"weight": 1, "preference": nodes}],
            },
            "podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]},
            "podAntiAffinity": {REQUIRED: [term]},
        },
        "volumes": [
            {"name": word, "persistentVolumeClaim": {"claimName": word}},
            {"name": word, "secret": {"secretName": word}},
            {"name": word, "csi": {"driver": word}},
            {"name": word, "ephemeral": {"volumeClaimTemplate": claim}},
        ],
    }  # fmt: skip


def specs(word: str, key: str) -> dict[str, dict[str, Any]]:
    """The rest of an object of each kind."""
    labels, taints = {key: word}, [{"key": key, "value": word, "effect": "NoSchedule"}]
    expression, amounts = {"key": key, "operator": "In", "values": [word]}, {f"{word}.io/{word}": "1"}
    disks = [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi", "kmsKeyID": word, "snapshotID": word}}]
    template = {
        "subnetSelector": labels, "securityGroupSelector": labels, "amiSelector": labels, "userData": word,
        "tags": labels, "instanceProfile": word, "launchTemplate": word, "context": word, "blockDeviceMappings": disks,
    }  # fmt: skip
    provisioner = {
        "labels": labels, "annotations": labels, "taints": taints, "startupTaints": taints,
        "requirements": [expression], "limits": {"resources": amounts},
        "kubeletConfiguration": {"maxPods": 20, "clusterDNS": [word], "kubeReserved": {"cpu": "1", word: word}},
    }  # fmt: skip
    spec = pod_spec(word, key)
    selector = {"matchLabels": labels, "matchExpressions": [expression]}
    volume = {
        "storageClassName": word, "claimRef": {"namespace": word, "name": word, "uid": word},
        "csi": {"driver": word, "volumeHandle": word, "volumeAttributes": labels}, "hostPath": {"path": word},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }  # fmt: skip
    ready = {"type": "Ready", "status": "True", "message": word}
    return {
        "Pod": {"spec": spec, "status": {"nominatedNodeName": word, "message": word, "conditions": [ready]}},
        "Node": {
            "spec": {"taints": taints, "providerID": word, "podCIDR": word},
            "status": {
                "addresses": [{"address": word}], "nodeInfo": labels, "capacity": amounts, "conditions": [ready],
                "images": [{"names": [word]}],
            },
        },
        "Provisioner": {"spec": {**provisioner, "providerRef": {"name": word}}},
        "AWSNodeTemplate": {"spec": template},
        "DaemonSet": {"spec": {"selector": selector, "template": {"metadata": {"labels": labels}, "spec": spec}}},
        "PodDisruptionBudget": {"spec": {"selector": selector}},
        "PersistentVolumeClaim": {"spec": {"storageClassName": word, "volumeName": word, "selector": selector}},
        "PersistentVolume": {"spec": volume},
        "StorageClass": {
            "provisioner": word,
            "parameters": labels,
            "allowedTopologies": [{"matchLabelExpressions": [{"key": key, "values": [word]}]}],
        },
        "CSINode": {"spec": {"drivers": [{"name": word, "nodeID": word, "topologyKeys": [word]}]}},
        "Namespace": {},
        "ConfigMap": {"data": {word: word}},
        "Secret": {"stringData": {word: word}},
        "Event": {"message": word, "involvedObject": {"name": word}},
    }  # fmt: skip


def sprinkled(value: Any) -> Any:
    """The same with a field that nobody knows at every level."""
    if isinstance(value, dict):
        return {**{key: sprinkled(each) for key, each in value.items()}, UNKNOWN: {UNKNOWN: UNKNOWN}}
    return [sprinkled(each) for each in value] if isinstance(value, list) else value


@given(words, keys)
def test_no_word_of_the_user_is_in_a_dump_wherever_it_stood(word: str, key: str) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": word, "uid": word}
    custom = {"apiVersion": f"{word}.io/v1", "kind": word, "name": word, "uid": word}
    metadata = {
        "name": word, "namespace": word, "uid": word, "generateName": word, "finalizers": [word],
        "labels": {key: word, "kubernetes.io/hostname": word, "karpenter.sh/provisioner-name": word},
        "annotations": {key: word, "volume.kubernetes.io/selected-node": word}, "ownerReferences": [owner, custom],
    }  # fmt: skip
    for kind, rest in specs(word, key).items():
        made = json.dumps(anonymous([sprinkled({"kind": kind, "metadata": metadata, **rest})], NAMES))
        assert MARK not in made, kind


def test_annotations_that_decisions_are_made_by_stay() -> None:
    kept = {"karpenter.sh/price-limit": "12.5", "karpenter.sh/on-demand-base": "2", "karpenter.sh/headroom": "[]"}
    metadata = {"name": "p", "annotations": {**kept, "note": "zq"}}
    (made,) = anonymous([{"kind": "Provisioner", "metadata": metadata}], NAMES)
    assert made["metadata"]["annotations"] == kept
