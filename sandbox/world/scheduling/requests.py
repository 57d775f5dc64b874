"""What a pod asks of a node: the effective requests of kube-scheduler (k8s.io/component-helpers/resource).

Rule (Kubernetes "Init Containers" and "Sidecar Containers" pages): app containers and restartable init containers
add up;
an ordinary init container needs its own plus the sidecars started before it; the greater of the two counts per
resource.
Pod-level resources (on by default since 1.34) replace the sum for the resources they name. RuntimeClass overhead is
added.
"""

from __future__ import annotations

from typing import Any

from sandbox.world.scheduling.quantity import amounts

POD_LEVEL = ("cpu", "memory")
"""Resources that spec.resources may name; huge pages too, by prefix."""


def pod_requests(spec: dict[str, Any]) -> dict[str, int]:
    """Effective requests: millicores for cpu, bytes or counts for all else."""
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, _container(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        asked = _container(container)
        if container.get("restartPolicy") == "Always":
            _add(total, asked)
            _add(sidecars, asked)
            asked = dict(sidecars)
        else:
            _add(asked, sidecars)
        _raise_to(peak, asked)
    _raise_to(total, peak)
    whole = _container({"resources": spec.get("resources")})
    total |= {name: q for name, q in whole.items() if name in POD_LEVEL or name.startswith("hugepages-")}
    _add(total, amounts(spec.get("overhead")))
    return total


def _container(container: dict[str, Any]) -> dict[str, int]:
    """A container's requests; a limit without a request counts as one (the API server's defaulting)."""
    resources = container.get("resources") or {}
    return {**amounts(resources.get("limits")), **amounts(resources.get("requests"))}


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, quantity in more.items():
        total[name] = total.get(name, 0) + quantity


def _raise_to(total: dict[str, int], floor: dict[str, int]) -> None:
    for name, quantity in floor.items():
        total[name] = max(total.get(name, 0), quantity)
