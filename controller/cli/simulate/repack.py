"""Remove nodes and unbind their pods, to plan new nodes for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from controller.cli.inputs.files import LocatedObject
from controller.cli.inputs.workload_pods import UNSCHEDULABLE
from controller.core.api.document import mapping, text
from controller.core.api.labels import PROVISIONER_NAME
from controller.core.api.parse import parse_pod
from controller.core.provisioning.problem import reschedulable

OURS, ALL = "ours", "all"
FARGATE = ("eks.amazonaws.com/compute-type", "fargate")


def repacked(located: Sequence[LocatedObject], which: str) -> tuple[LocatedObject, ...]:
    """Remove `ours` (nodes of Provisioners) or `all` nodes but Fargate's, and unbind their pods; empty `which`: none.

    DaemonSet pods stay bound to the removed nodes: the newest one has the DaemonSet's requests.
    """
    if not which:
        return tuple(located)
    gone = {each.name for each in located if each.kind == "Node" and _removed(each, which)}
    kept = (each for each in located if not (each.kind in ("Node", "CSINode") and each.name in gone))
    return tuple(_unbound(each) if each.kind == "Pod" and _ran_on(each, gone) else each for each in kept)


def _removed(node: LocatedObject, which: str) -> bool:
    labels = mapping(mapping(node.document.get("metadata")).get("labels"))
    if which == OURS:
        return PROVISIONER_NAME in labels
    key, value = FARGATE
    return labels.get(key) != value


def _ran_on(pod: LocatedObject, gone: Iterable[str]) -> bool:
    name = text(mapping(pod.document.get("spec")).get("nodeName"))
    return name in set(gone) and reschedulable(parse_pod(pod.document))


def _unbound(pod: LocatedObject) -> LocatedObject:
    spec = {key: value for key, value in mapping(pod.document.get("spec")).items() if key != "nodeName"}
    changed: dict[str, Any] = {**pod.document, "spec": spec, "status": {"conditions": [UNSCHEDULABLE]}}
    return replace(pod, document=changed)
