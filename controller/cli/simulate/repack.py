"""What if it all were packed anew: nodes taken away, and their pods left waiting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from controller.cli.inputs.files import Placed
from controller.cli.inputs.workload_pods import UNSCHEDULABLE
from controller.core.api.document import mapping, text
from controller.core.api.labels import PROVISIONER_NAME
from controller.core.api.parse import parse_pod
from controller.core.provisioning.problem import reschedulable

OURS, ALL = "ours", "all"
FARGATE = ("eks.amazonaws.com/compute-type", "fargate")


def repacked(placed: Sequence[Placed], which: str) -> tuple[Placed, ...]:
    """The objects without `ours` (nodes of Provisioners) or `all` nodes but Fargate's, their pods unbound.

    Pods of DaemonSets stay bound, to nodes that are not there: the newest tells what the others will ask for. Empty
    `which`: nothing changes.
    """
    if not which:
        return tuple(placed)
    gone = {each.name for each in placed if each.kind == "Node" and _taken(each, which)}
    kept = (each for each in placed if not (each.kind in ("Node", "CSINode") and each.name in gone))
    return tuple(_unbound(each) if each.kind == "Pod" and _stood_on(each, gone) else each for each in kept)


def _taken(node: Placed, which: str) -> bool:
    labels = mapping(mapping(node.document.get("metadata")).get("labels"))
    if which == OURS:
        return PROVISIONER_NAME in labels
    key, value = FARGATE
    return labels.get(key) != value


def _stood_on(pod: Placed, gone: Iterable[str]) -> bool:
    name = text(mapping(pod.document.get("spec")).get("nodeName"))
    return name in set(gone) and reschedulable(parse_pod(pod.document))


def _unbound(pod: Placed) -> Placed:
    spec = {key: value for key, value in mapping(pod.document.get("spec")).items() if key != "nodeName"}
    changed: dict[str, Any] = {**pod.document, "spec": spec, "status": {"conditions": [UNSCHEDULABLE]}}
    return replace(pod, document=changed)
