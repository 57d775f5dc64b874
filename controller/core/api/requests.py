"""The effective resource requests of a pod, as kube-scheduler 1.34 counts them, and its limits.

Source: https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers,
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/, pod-level resources (KEP-2837) and pod overhead
(https://kubernetes.io/docs/concepts/scheduling-eviction/pod-overhead/). Karpenter v0.27 knows neither sidecars nor
overhead. Limits stand in for absent requests, as the API server defaults them in pods (but not in the templates of
DaemonSets). Sums are exact, in nano-units; each resource is rounded up once per pod.

While a pod's resources are resized in place (KEP-1287, on by default since Kubernetes 1.33), kube-scheduler counts the
greatest of what the spec requests, what the kubelet allocated and what the containers have; once the kubelet calls the
resize infeasible, the spec no longer counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controller.core.api.document import Document, items, mapping, objects, text
from controller.core.api.frozen import FrozenMap
from controller.core.api.pod import Resources
from controller.core.api.quantity import nanos, rounded

Amounts = dict[str, int]
"""Nano-units by resource name."""

Report = Callable[[str], None]
"""Gets a field that cannot be read, with the reason."""


def pod_requests(spec: Document, report: Report) -> Resources:
    """Return what a pod of this spec takes of a node, `pods: 1` included; zero amounts are left out.

    Fields that cannot be read go to `report` and count as absent.
    """
    total = _containers(spec, _requests, report)
    total |= _pod_level(mapping(spec.get("resources")), total, report)
    _add(total, _quantities(spec.get("overhead"), "spec.overhead", report))
    return _of_one_pod(total)


def pod_limits(spec: Document) -> Resources:
    """Return what a pod of this spec may use at most, `pods: 1` included; resources without a limit are left out.

    Sources: Kubernetes' `PodLimits` (k8s.io/component-helpers/resource). Containers and sidecars together or the
    greatest init container, else the pod-level limit; overhead is added to what has a limit. A container without a
    limit adds nothing. Fields that cannot be read count as absent; `pod_requests` reports them.
    """
    total = _containers(spec, _limits, _ignore)
    level = _quantities(mapping(spec.get("resources")).get("limits"), "spec.resources.limits", _ignore)
    total.update((name, amount) for name, amount in level.items() if _allowed_at_pod_level(name))
    overhead = _quantities(spec.get("overhead"), "spec.overhead", _ignore)
    _add(total, {name: amount for name, amount in overhead.items() if total.get(name)})
    return _of_one_pod(total)


def _of_one_pod(total: Amounts) -> Resources:
    amounts = {name: rounded(name, amount) for name, amount in total.items() if amount > 0 and name != "pods"}
    amounts["pods"] = 1
    return FrozenMap(amounts)


def _ignore(_problem: str) -> None:
    """Report nothing."""


def _containers(spec: Document, of: Callable[[Document, str, Report], Amounts], report: Report) -> Amounts:
    """Return, per resource, the greater of containers with sidecars and any init container with sidecars before it.

    `of` returns what one container counts for: its requests or its limits.
    """
    total: Amounts = {}
    for index, container in enumerate(objects(spec.get("containers"))):
        _add(total, of(container, f"spec.containers[{index}]", report))
    sidecars: Amounts = {}
    start: Amounts = {}
    for index, container in enumerate(objects(spec.get("initContainers"))):
        wants = of(container, f"spec.initContainers[{index}]", report)
        if container.get("restartPolicy") == "Always":
            _add(total, wants)
            _add(sidecars, wants)
            _raise(start, sidecars)
        else:
            _add(wants, sidecars)
            _raise(start, wants)
    _raise(total, start)
    return total


def _limits(container: Document, path: str, report: Report) -> Amounts:
    return _quantities(mapping(container.get("resources")).get("limits"), f"{path}.resources.limits", report)


def _requests(container: Document, path: str, report: Report) -> Amounts:
    resources = mapping(container.get("resources"))
    amounts = _quantities(resources.get("limits"), f"{path}.resources.limits", report)
    amounts.update(_quantities(resources.get("requests"), f"{path}.resources.requests", report))
    return amounts


def _pod_level(resources: Document, containers: Amounts, report: Report) -> Amounts:
    """spec.resources: requests replace the containers' sum; limits stand in where no container has a request."""
    requests = _quantities(resources.get("requests"), "spec.resources.requests", report)
    limits = _quantities(resources.get("limits"), "spec.resources.limits", report)
    requests |= {name: amount for name, amount in limits.items() if name not in requests and name not in containers}
    return {name: amount for name, amount in requests.items() if _allowed_at_pod_level(name)}


def _allowed_at_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _quantities(value: object, path: str, report: Report) -> Amounts:
    amounts: Amounts = {}
    for name, quantity in mapping(value).items():
        try:
            amount = nanos(quantity)
        except (ValueError, TypeError) as error:
            report(f"{path}.{name}: {error}")
            continue
        if amount < 0:
            report(f"{path}.{name}: {quantity!r} is negative: write 0 or more")
            continue
        amounts[name] = amount
    return amounts


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Amounts, floor: Amounts) -> None:
    for name, amount in floor.items():
        if amount > total.get(name, 0):
            total[name] = amount


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
    """Return, per resource, the greatest quantity of the sources; one that cannot be read is the least."""
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
