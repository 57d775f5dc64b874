"""Protobuf bodies of the kinds that kubectl's imperative commands send (drain, create, run); answers are always JSON.

kubectl's typed clients write protobuf and accept JSON. The table holds field numbers of the `generated.proto` files of
k8s.io/api 1.34 for these kinds; a field that is not in it is refused with 415 instead of being lost.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sandbox.apiserver.errors import APIError, unsupported_media_type

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"

# Message, then number:name:type. Types: s string, i and b number and flag whose zero is "left out", I and B those whose
# zero counts (pointers in Go), y bytes, t Time, q Quantity, x IntOrString, - not wanted (status), else a message;
# `*` repeated, `mX` a map from strings to X.
_TABLE = """
Unknown 1:typeMeta:TypeMeta 2:raw:y 3:contentEncoding:s 4:contentType:s
TypeMeta 1:apiVersion:s 2:kind:s
ObjectMeta 1:name:s 2:generateName:s 3:namespace:s 4:selfLink:s 5:uid:s 6:resourceVersion:s 7:generation:i\
 8:creationTimestamp:t 9:deletionTimestamp:t 10:deletionGracePeriodSeconds:I 11:labels:ms 12:annotations:ms\
 13:ownerReferences:*OwnerReference 14:finalizers:*s 17:managedFields:-
OwnerReference 1:kind:s 3:name:s 4:uid:s 5:apiVersion:s 6:controller:B 7:blockOwnerDeletion:B
LabelSelector 1:matchLabels:ms 2:matchExpressions:*LabelSelectorRequirement
LabelSelectorRequirement 1:key:s 2:operator:s 3:values:*s
DeleteOptions 1:gracePeriodSeconds:I 2:preconditions:Preconditions 3:orphanDependents:B 4:propagationPolicy:s\
 5:dryRun:*s
Preconditions 1:uid:s 2:resourceVersion:s
ObjectReference 1:kind:s 2:namespace:s 3:name:s 4:uid:s 5:apiVersion:s 6:resourceVersion:s 7:fieldPath:s
LocalObjectReference 1:name:s
Eviction 1:metadata:ObjectMeta 2:deleteOptions:DeleteOptions
Binding 1:metadata:ObjectMeta 2:target:ObjectReference
Namespace 1:metadata:ObjectMeta 2:spec:NamespaceSpec 3:status:-
NamespaceSpec 1:finalizers:*s
ServiceAccount 1:metadata:ObjectMeta 2:secrets:*ObjectReference 3:imagePullSecrets:*LocalObjectReference\
 4:automountServiceAccountToken:B
ConfigMap 1:metadata:ObjectMeta 2:data:ms 3:binaryData:my 4:immutable:B
Secret 1:metadata:ObjectMeta 2:data:my 3:type:s 4:stringData:ms 5:immutable:B
PriorityClass 1:metadata:ObjectMeta 2:value:I 3:globalDefault:b 4:description:s 5:preemptionPolicy:s
PodDisruptionBudget 1:metadata:ObjectMeta 2:spec:PodDisruptionBudgetSpec 3:status:-
PodDisruptionBudgetSpec 1:minAvailable:x 2:selector:LabelSelector 3:maxUnavailable:x 4:unhealthyPodEvictionPolicy:s
Deployment 1:metadata:ObjectMeta 2:spec:DeploymentSpec 3:status:-
DeploymentSpec 1:replicas:I 2:selector:LabelSelector 3:template:PodTemplateSpec 4:strategy:DeploymentStrategy\
 5:minReadySeconds:i 6:revisionHistoryLimit:I 7:paused:b 9:progressDeadlineSeconds:I
DeploymentStrategy 1:type:s
Job 1:metadata:ObjectMeta 2:spec:JobSpec 3:status:-
JobSpec 1:parallelism:I 2:completions:I 3:activeDeadlineSeconds:I 4:selector:LabelSelector 5:manualSelector:B\
 6:template:PodTemplateSpec 7:backoffLimit:I 8:ttlSecondsAfterFinished:I 9:completionMode:s 10:suspend:B
Pod 1:metadata:ObjectMeta 2:spec:PodSpec 3:status:-
PodTemplateSpec 1:metadata:ObjectMeta 2:spec:PodSpec
PodSpec 2:containers:*Container 20:initContainers:*Container 3:restartPolicy:s 4:terminationGracePeriodSeconds:I\
 5:activeDeadlineSeconds:I 6:dnsPolicy:s 7:nodeSelector:ms 8:serviceAccountName:s 9:serviceAccount:s 10:nodeName:s\
 11:hostNetwork:b 12:hostPID:b 13:hostIPC:b 14:securityContext:PodSecurityContext 16:hostname:s 17:subdomain:s\
 19:schedulerName:s 22:tolerations:*Toleration 24:priorityClassName:s 25:priority:I 29:runtimeClassName:s\
 30:enableServiceLinks:B 31:preemptionPolicy:s
PodSecurityContext 2:runAsUser:I 6:runAsGroup:I 3:runAsNonRoot:B 5:fsGroup:I
Toleration 1:key:s 2:operator:s 3:value:s 4:effect:s 5:tolerationSeconds:I
Container 1:name:s 2:image:s 3:command:*s 4:args:*s 5:workingDir:s 6:ports:*ContainerPort 7:env:*EnvVar\
 8:resources:ResourceRequirements 13:terminationMessagePath:s 14:imagePullPolicy:s 16:stdin:b 17:stdinOnce:b\
 18:tty:b 20:terminationMessagePolicy:s
ContainerPort 1:name:s 2:hostPort:i 3:containerPort:i 4:protocol:s 5:hostIP:s
EnvVar 1:name:s 2:value:s
ResourceRequirements 1:limits:mq 2:requests:mq
Scale 1:metadata:ObjectMeta 2:spec:ScaleSpec 3:status:-
ScaleSpec 1:replicas:I
SelfSubjectAccessReview 1:metadata:ObjectMeta 2:spec:SelfSubjectAccessReviewSpec 3:status:-
SelfSubjectAccessReviewSpec 1:resourceAttributes:ResourceAttributes 2:nonResourceAttributes:NonResourceAttributes
ResourceAttributes 1:namespace:s 2:verb:s 3:group:s 4:version:s 5:resource:s 6:subresource:s 7:name:s
NonResourceAttributes 1:path:s 2:verb:s
SelfSubjectReview 1:metadata:ObjectMeta 2:status:-
"""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    type: str


def _parsed() -> dict[str, dict[int, _Field]]:
    found: dict[str, dict[int, _Field]] = {}
    for line in _TABLE.strip().splitlines():
        message, *fields = line.split()
        parts = (field.split(":") for field in fields)
        found[message] = {int(number): _Field(name, kind) for number, name, kind in parts}
    return found


_MESSAGES = _parsed()


def decode(body: bytes) -> dict[str, Any]:
    """A protobuf body as the JSON object that it stands for. Raises 415 for what is not in the table."""
    if not body.startswith(_MAGIC):
        raise _refused("the body does not start with the prefix of Kubernetes' protobuf encoding")
    try:
        envelope = _message(body[len(_MAGIC) :], "Unknown", raw_bytes=True)
        types = envelope.get("typeMeta") or {}
        kind = types.get("kind", "")
        if kind not in _MESSAGES:
            raise _refused(f"{kind} in protobuf is not understood here")
        return {"apiVersion": types.get("apiVersion", ""), "kind": kind, **_message(envelope["raw"], kind)}
    except (IndexError, KeyError, UnicodeDecodeError, struct.error) as error:
        raise _refused(f"the body is malformed: {error!r}") from error


def _refused(why: str) -> APIError:
    error = unsupported_media_type(CONTENT_TYPE, ("application/json", "application/yaml"))
    error.message = f"{why}; send JSON instead (kubectl ... --dry-run=client -o yaml | kubectl apply -f -)"
    return error


def _message(data: bytes, message: str, *, raw_bytes: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, value in _wire(data):
        field = _MESSAGES[message].get(number)
        if field is None:
            raise _refused(f"field {number} of {message} is not understood here")
        if field.type == "-":
            continue
        if field.type.startswith("*"):
            found.setdefault(field.name, []).append(_value(value, field.type[1:]))
        elif field.type in ("ms", "my", "mq"):
            key, element = _pair(value, field.type[1:])
            found.setdefault(field.name, {})[key] = element
        else:
            decoded = value if raw_bytes and field.type == "y" else _value(value, field.type)
            if not _left_out(decoded, field.type):
                found[field.name] = decoded
    return found


def _left_out(value: Any, kind: str) -> bool:
    return value is None or (kind in ("s", "i", "b") and not value)


def _pair(data: Any, kind: str) -> tuple[str, Any]:
    key, value = "", b""
    for number, part in _wire(data):
        if number == 1:
            key = part.decode()
        else:
            value = part
    return key, _value(value, kind)


def _value(value: Any, kind: str) -> Any:
    match kind:
        case "s":
            return value.decode()
        case "i" | "I":
            return value - (1 << 64) if value >= 1 << 63 else value
        case "b" | "B":
            return bool(value)
        case "y":
            return base64.b64encode(value).decode()
        case "q":
            return next((part.decode() for number, part in _wire(value) if number == 1), "0")
        case "t":
            seconds = next((part for number, part in _wire(value) if number == 1), None)
            if seconds is None:
                return None
            return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        case "x":
            parts = dict(_wire(value))
            return parts.get(3, b"").decode() if parts.get(1) else parts.get(2, 0)
    return _message(value, kind)


def _wire(data: bytes) -> Iterator[tuple[int, Any]]:
    """(field number, value) pairs: varints as numbers, length-delimited values as bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 2:
                length, at = _varint(data, at)
                if at + length > len(data):
                    raise IndexError(f"field {tag >> 3} is longer than the body")
                yield tag >> 3, data[at : at + length]
                at += length
            case other:
                raise _refused(f"wire type {other} is not understood here")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
