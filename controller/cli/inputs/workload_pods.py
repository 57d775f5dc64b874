"""Expand workloads into the pending pods that their controllers would create.

Deployments, ReplicaSets, ReplicationControllers and StatefulSets (with their claims) by replicas, Jobs and CronJobs by
the pods that run at once. DaemonSets are not expanded: the solver adds them to every node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from controller.cli.inputs.files import LocatedObject
from controller.core.api.document import Document, items, mapping, objects, text
from controller.core.api.parse import parse_pod
from controller.core.api.strict import Report, kind_of

SCALED = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
WORKLOADS = (*SCALED, "Job", "CronJob", "Pod")
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
"""kube-scheduler's condition on a pod without a feasible node."""
MOST_PODS = 150_000
"""Pods of a cluster, as far as Kubernetes supports: https://kubernetes.io/docs/setup/best-practices/cluster-large/"""


@dataclass(frozen=True, slots=True)
class ReplicaOverrides:
    """Replica counts that replace the declared ones; `replicas` by NAME or NAMESPACE/NAME."""

    replicas: Mapping[str, int] = field(default_factory=dict)
    autoscaled: str = ""
    """min or max: take the HorizontalPodAutoscalers' bound; empty: minReplicas where none are declared."""


@dataclass(frozen=True, slots=True)
class ExpandedWorkloads:
    """Pods and claims as JSON documents; `scaled`: the keys of `ReplicaOverrides.replicas` that matched."""

    pods: tuple[Document, ...]
    claims: tuple[Document, ...]
    scaled: frozenset[str]


def expand(located: Iterable[LocatedObject], overrides: ReplicaOverrides, report: Report) -> ExpandedWorkloads:
    """Expand all workloads. Problems go to `report` with file and key path."""
    located = tuple(located)
    targets = _autoscaled(located, overrides.autoscaled)
    pods: list[Document] = []
    claims: list[Document] = []
    scaled: set[str] = set()
    for each in located:
        if each.kind == "Pod":
            pods.append(_waiting(each.document, each.in_words, report))
        elif each.kind in WORKLOADS:
            template, count, path = _template(each, targets, overrides, scaled, report)
            if count > MOST_PODS:
                report.add(each.in_words, f"has {count:,} pods", f"a cluster has {MOST_PODS:,} at most: write fewer")
                continue
            made = list(_replicas(each, template, path, count, report))
            pods.extend(made)
            if each.kind == "StatefulSet":
                claims.extend(_claims(each.document, made))
    return ExpandedWorkloads(tuple(pods), tuple(claims), frozenset(scaled))


def _autoscaled(located: Iterable[LocatedObject], want: str) -> dict[tuple[str, str, str], tuple[int, bool]]:
    """Return (namespace, kind, name) → (replicas, whether they win over the declared ones)."""
    replicas = {}
    for each in located:
        if each.kind == "HorizontalPodAutoscaler":
            spec = mapping(each.document.get("spec"))
            target = mapping(spec.get("scaleTargetRef"))
            least = spec.get("minReplicas", 1)
            count = spec.get("maxReplicas") if want == "max" else least
            if isinstance(count, int):
                key = (namespace_of(each.document), text(target.get("kind")), text(target.get("name")))
                replicas[key] = (count, bool(want))
    return replicas


def namespace_of(document: Document) -> str:
    """Return an object's namespace: `default` where it names none."""
    return text(mapping(document.get("metadata")).get("namespace")) or "default"


def _template(
    each: LocatedObject,
    targets: Mapping[tuple[str, str, str], tuple[int, bool]],
    overrides: ReplicaOverrides,
    scaled: set[str],
    report: Report,
) -> tuple[Document, int, str]:
    """Return (pod template, number of pods, key path of the template)."""
    spec, path = mapping(each.document.get("spec")), "spec"
    if each.kind == "CronJob":
        spec, path = mapping(mapping(spec.get("jobTemplate")).get("spec")), "spec.jobTemplate.spec"
    if each.kind in SCALED:
        count = _count(spec, "replicas", each, path, report)
        known = targets.get((namespace_of(each.document), each.kind, each.name))
        if known is not None and (known[1] or spec.get("replicas") is None):
            count = known[0]
    else:
        count = _count(spec, "parallelism", each, path, report)
        if spec.get("completions") is not None:
            count = min(count, _count(spec, "completions", each, path, report))
        if spec.get("suspend") is True or mapping(each.document.get("spec")).get("suspend") is True:
            count = 0
    for name in (each.name, f"{namespace_of(each.document)}/{each.name}"):
        if name in overrides.replicas:
            count = overrides.replicas[name]
            scaled.add(name)
    return mapping(spec.get("template")), count, f"{path}.template"


def _count(spec: Document, name: str, each: LocatedObject, path: str, report: Report) -> int:
    value = spec.get(name, 1)
    if value is None:
        return 1
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        report.add(f"{each.in_words}: {path}.{name}", f"must be a whole number of 0 or more, not {value!r}")
        return 0
    return value


def _replicas(each: LocatedObject, template: Document, path: str, count: int, report: Report) -> Iterator[Document]:
    metadata = mapping(template.get("metadata"))
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": namespace_of(each.document),
            "labels": dict(mapping(metadata.get("labels"))),
            "annotations": dict(mapping(metadata.get("annotations"))),
            "ownerReferences": [_owner(each)],
        },
        "spec": template.get("spec"),
    }
    _check(pod, f"{each.in_words}: {path}.", report)
    for number in range(count):
        name = f"{each.name}-{number}"
        named = {**pod, "metadata": {**pod["metadata"], "name": name, "uid": f"{each.kind}/{name}"}}
        yield {**named, **_status(each, named, number)}


def _owner(each: LocatedObject) -> dict[str, Any]:
    kind = {"Deployment": "ReplicaSet", "CronJob": "Job"}.get(each.kind, each.kind)
    api_version = {"Job": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
    owner = {"apiVersion": api_version, "kind": kind, "name": each.name, "controller": True}
    return {**owner, "uid": f"{each.kind}/{namespace_of(each.document)}/{each.name}"}


def _status(each: LocatedObject, pod: Document, number: int) -> dict[str, Any]:
    """Return the spec and status of a pending pod; a StatefulSet's with its claims as volumes."""
    spec = dict(mapping(pod["spec"]))
    if each.kind == "StatefulSet":
        templates = objects(mapping(each.document.get("spec")).get("volumeClaimTemplates"))
        names = [text(mapping(one.get("metadata")).get("name")) for one in templates]
        own = [{"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{each.name}-{number}"}} for name in names]
        spec["volumes"] = [*items(spec.get("volumes")), *own]
    return {"spec": spec, "status": {"phase": "Pending", "conditions": [UNSCHEDULABLE]}}


def _claims(document: Document, pods: Iterable[Document]) -> Iterator[Document]:
    for pod in pods:
        for template in objects(mapping(document.get("spec")).get("volumeClaimTemplates")):
            metadata = mapping(template.get("metadata"))
            name = f"{text(metadata.get('name'))}-{pod['metadata']['name']}"
            namespace = pod["metadata"]["namespace"]
            yield {
                **template,
                "kind": "PersistentVolumeClaim",
                "metadata": {**metadata, "name": name, "namespace": namespace, "uid": f"{namespace}/{name}"},
            }


def _waiting(document: Document, where: str, report: Report) -> Document:
    """Return a manifest's Pod as pending: without its status and node."""
    _check(document, f"{where}: ", report)
    metadata = dict(mapping(document.get("metadata")))
    name = text(metadata.get("name")) or f"{text(metadata.get('generateName'))}0"
    metadata.update(name=name, namespace=namespace_of(document), uid=text(metadata.get("uid")) or f"Pod/{name}")
    spec = {key: value for key, value in mapping(document.get("spec")).items() if key != "nodeName"}
    return {**document, "metadata": metadata, "spec": spec, "status": {"conditions": [UNSCHEDULABLE]}}


def _check(pod: Document, prefix: str, report: Report) -> None:
    spec = pod.get("spec")
    if not isinstance(spec, Mapping):
        report.add(f"{prefix}spec", "is missing" if spec is None else f"must be an object, not {kind_of(spec)}")
    elif not isinstance(spec.get("containers"), list) or not spec["containers"]:
        report.add(f"{prefix}spec.containers", "is missing", "a pod has at least one container")
    else:
        for message in parse_pod(pod).spec.malformed:
            path, separator, rest = message.partition(": ")
            report.add(f"{prefix}{path}" if separator else prefix.rstrip(": ."), rest or path)
