"""Pods whose resources are being resized in place (KEP-1287, on by default since Kubernetes 1.33).

During a resize, kube-scheduler counts the greatest of what the spec requests, what the kubelet allocated and what the
containers have; once the kubelet calls the resize infeasible, the spec no longer counts.
"""

from __future__ import annotations

from typing import Any

from controller.core.api.document import Document, items, mapping, objects, text
from controller.core.api.quantity import nanos


def resized_spec(spec: Document, status: Document) -> Document:
    """Return the spec with the requests that kube-scheduler counts; the same object if no container is resized."""
    names = ("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")
    changed: dict[str, Any] = {}
    for field, statuses in names:
        by_name = {text(each.get("name")): each for each in objects(status.get(statuses))}
        containers = spec.get(field)
        if not by_name or not isinstance(containers, list):
            continue
        counted = [_counted(container, by_name, status, field) for container in containers]
        if any(new is not old for new, old in zip(counted, containers, strict=True)):
            changed[field] = counted
    return {**spec, **changed} if changed else spec


def _counted(container: Any, by_name: dict[str, Document], status: Document, field: str) -> Any:
    """Return the container with the requests that count: itself, unless its status differs from its spec."""
    if not isinstance(container, dict) or (field == "initContainers" and container.get("restartPolicy") != "Always"):
        return container
    held = by_name.get(text(container.get("name")))
    if held is None or not isinstance(held.get("resources"), dict):
        return container
    resources = mapping(container.get("resources"))
    requested = mapping(resources.get("requests"))
    actual, allocated = mapping(held["resources"].get("requests")), mapping(held.get("allocatedResources"))
    if actual == requested and (not allocated or allocated == requested):
        return container
    sources = [actual, allocated] if _infeasible(status) else [requested, actual, allocated]
    return {**container, "resources": {**resources, "requests": _greatest(sources)}}


def _infeasible(status: Document) -> bool:
    return any(
        condition.get("type") == "PodResizePending" and condition.get("reason") == "Infeasible"
        for condition in items(status.get("conditions"))
        if isinstance(condition, dict)
    )


def _greatest(sources: list[Document]) -> dict[str, Any]:
    """Per resource, the greatest quantity of the sources; one that cannot be read is less than any other."""
    greatest: dict[str, Any] = {}
    for source in sources:
        for name, quantity in source.items():
            if name not in greatest or _amount(quantity) > _amount(greatest[name]):
                greatest[name] = quantity
    return greatest


def _amount(quantity: Any) -> int:
    try:
        return nanos(quantity)
    except (ValueError, TypeError):
        return -1
