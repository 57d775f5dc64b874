"""What the frugal decoder leaves out must be what no parser reads."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from urllib3 import HTTPResponse

from controller.core.api.parse import parse_pod
from controller.kube.client import KubeClient
from controller.kube.list_decoding import (
    MOST_DEPTH,
    PodDocument,
    decode_list,
    decode_object,
    decoder_of,
    without_depths,
)
from controller.kube.resources import NODES, PODS
from controller.kube.stream import WatchStream
from tests.factories import pod_object
from tests.kube.documents import fresh
from tests.kube.scripted import Script, scripted
from tests.kube.server import Server

RESOURCES = {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"memory": "2Gi", "nvidia.com/gpu": "1"}}
PORTS = [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP", "hostIP": "10.0.0.1"}]
EXPRESSION = {"key": "a", "operator": "In", "values": ["b"]}
AFFINITY_TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, "namespaces": ["x"]}
NODE_TERMS = {"nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}]}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": NODE_TERMS,
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": NODE_TERMS["nodeSelectorTerms"][0]}
        ],
    },
    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [AFFINITY_TERM]},
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": AFFINITY_TERM}]
    },
}
CONTAINER = {
    "name": "main",
    "image": "web",
    "resources": RESOURCES,
    "ports": PORTS,
    "env": [{"name": "A", "value": "b"}],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    "livenessProbe": {"httpGet": {"path": "/", "port": 80}},
}
RESIZING = {
    "name": "main",
    "ready": True,
    "state": {"running": {}},
    "resources": {"requests": {"cpu": "900m"}},
    "allocatedResources": {"cpu": "800m"},
}
RICH = {
    **pod_object(
        name="rich",
        namespace="shop",
        labels={"app": "web"},
        annotations={"karpenter.sh/do-not-evict": "true"},
        finalizers=["x/y"],
        deletionTimestamp="2026-01-02T03:05:05Z",
        deletionGracePeriodSeconds=30,
        generateName="rich-",
        ownerReferences=[{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}],
        managedFields=[{"manager": "kubectl", "fieldsV1": {"f:metadata": {}}}],
    ),
    "spec": {
        "containers": [CONTAINER],
        "initContainers": [{**CONTAINER, "name": "sidecar", "restartPolicy": "Always"}],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "gp3"}}}},
        ],
        "nodeName": "n1",
        "nodeSelector": {"disk": "ssd"},
        "affinity": AFFINITY,
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {},
                "minDomains": 2,
            }
        ],
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9}],
        "overhead": {"cpu": "10m"},
        "resources": {"requests": {"cpu": "3"}},
        "priority": 7,
        "priorityClassName": "system-node-critical",
        "preemptionPolicy": "Never",
        "schedulerName": "mine",
        "schedulingGates": [{"name": "wait"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}],
        "schedulingGroup": {"podGroupName": "g"},
        "workloadRef": {"name": "w", "podGroup": "g"},
        "terminationGracePeriodSeconds": 11,
        "hostNetwork": True,
        "os": {"name": "linux"},
        "runtimeClassName": "kata",
    },
    "status": {
        "phase": "Running",
        "reason": "Evicted",
        "message": "The node was low on resource: ephemeral-storage. ",
        "nominatedNodeName": "n2",
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x7"}],
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
            {"type": "Ready", "status": "True"},
        ],
        "containerStatuses": [RESIZING],
        "initContainerStatuses": [{**RESIZING, "name": "sidecar"}],
    },
}


class Recording(dict[str, Any]):
    """A JSON object that notes which of its fields are read."""

    def __init__(self, document: Mapping[str, Any], path: str, read: set[str]) -> None:
        super().__init__({key: recording(value, f"{path}.{key}", read) for key, value in document.items()})
        self._path, self._read = path, read

    def __getitem__(self, key: str) -> Any:
        self._read.add(f"{self._path}.{key}")
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """As dict.get, noted."""
        self._read.add(f"{self._path}.{key}")
        return super().get(key, default)


def recording(value: Any, path: str, read: set[str]) -> Any:
    if isinstance(value, dict):
        return Recording(value, path, read)
    if isinstance(value, list):
        return [recording(each, f"{path}[]", read) for each in value]
    return value


def test_a_pod_with_every_field_parses_alike_from_the_frugal_and_the_full_document() -> None:
    body = msgspec.json.encode(RICH)
    frugal, full = decoder_of(PODS)(body), decode_object(body)
    assert parse_pod(frugal) == parse_pod(full)
    assert "managedFields" not in frugal["metadata"]
    assert "env" not in frugal["spec"]["containers"][0]
    assert "state" not in frugal["status"]["containerStatuses"][0]


def test_every_field_that_parsing_a_pod_reads_is_decoded() -> None:
    """A parser that comes to read a new field fails here until the decoder keeps it."""
    read: set[str] = set()
    parse_pod(Recording(RICH, "", read))
    assert ".spec.containers[].resources" in read, "the recording works"
    assert {path for path in read if not kept(path)} == set()


@pytest.mark.parametrize("path", [".metadata.managedFields", ".spec.containers[].env", ".status.hostIP"])
def test_the_check_knows_what_is_left_out(path: str) -> None:
    assert not kept(path)


def kept(path: str) -> bool:
    """Whether the decoder keeps the field at a path such as ".spec.containers[].name"."""
    hint: Any = PodDocument
    for part in path.strip(".").split("."):
        fields = get_type_hints(hint)
        name = part.removesuffix("[]")
        if name not in fields:
            return False
        members = [each for each in get_args(fields[name]) if each is not type(None)]
        hint = fields[name] if not members else members[0]
        if get_origin(hint) is list:
            hint = get_args(hint)[0]
        if not is_typeddict(hint):
            return True
    return True


@pytest.mark.parametrize("odd", [{"spec": 5}, {"metadata": {"labels": {"a": 1}}}, {"spec": {"containers": {}}}])
def test_a_pod_with_a_field_of_an_unforeseen_type_is_decoded_in_full(odd: dict[str, Any]) -> None:
    assert decoder_of(PODS)(msgspec.json.encode(odd)) == odd


@pytest.mark.parametrize("resource", [PODS, NODES])
def test_one_odd_object_does_not_spoil_a_list(server: Server, resource: Any) -> None:
    good = fresh(pod_object(name="good"))
    with scripted(Script(items=({"spec": 5}, good)), server) as client:
        names = [item.get("metadata", {}).get("name") for item in client.list_all(resource).items]
    assert names == [None, "good"]


def test_a_list_without_items_is_empty(client: KubeClient) -> None:
    assert (decode_list(b'{"metadata": {}}').items or []) == []
    assert decode_list(b'{"metadata": {"continue": "x"}, "items": null}').metadata.continue_ == "x"


DEEP = b'{"a":' * 3000 + b"[1]" + b"}" * 3000
"""As the parameters of a ResourceClaim's driver may be: the API server looks at their length alone."""


def test_an_object_that_is_nested_too_deep_is_read_without_its_depths_and_spoils_neither_list_nor_watch() -> None:
    claim = b'{"metadata": {"name": "a\\"}]"}, "spec": {"config": [' + DEEP + b', {"b": 1}], "devices": [2, {}]}}'
    page = decode_list(b'{"metadata": {}, "items": [' + claim + b', {"metadata": {"name": "good"}}]}')
    assert page.items is not None
    deep, good = page.items
    for read in (decode_object(deep), decode_object(claim), decoder_of(PODS)(claim)):
        assert read["metadata"] == {"name": 'a"}]'}
        assert read["spec"].get("devices", [2, {}]) == [2, {}], "what comes after it is whole"
    assert decode_object(claim)["spec"]["config"][1] == {"b": 1}
    assert decode_object(good) == {"metadata": {"name": "good"}}
    lines = HTTPResponse(io.BytesIO(b'{"type": "ADDED", "object": ' + claim + b"}\n"), preload_content=False)
    (event,) = WatchStream(lines, "watch", decoder_of(NODES))
    assert event.object["metadata"] == {"name": 'a"}]'}


@given(
    st.recursive(
        st.text(st.sampled_from('[]{}"\\é')), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_json_within_the_depth_stays_as_it_is(value: Any) -> None:
    body = msgspec.json.encode(value)
    assert without_depths(body) == body


def test_depth_is_bounded_exactly() -> None:
    body = b"[" * MOST_DEPTH + b'"x"' + b"]" * MOST_DEPTH
    assert without_depths(body) == body
    assert without_depths(b"[" + body + b",2]") == b"[" * MOST_DEPTH + b"null" + b"]" * (MOST_DEPTH - 1) + b",2]"
