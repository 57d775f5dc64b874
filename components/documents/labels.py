"""Names and labels of the controller's objects (Kubernetes documentation, recommended labels)."""

from __future__ import annotations

from typing import Any, TypeAlias

Later: TypeAlias = Any
"""A string, or a Pulumi output of one: documents place it and never look into it."""

NAME = "karpenter"
"""Of the ServiceAccount, the Deployment and the Service: the names that guides and dashboards look for."""

SELECTOR = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/instance": NAME}


def labels() -> dict[str, str]:
    """Of every object of the controller."""
    return {**SELECTOR, "app.kubernetes.io/managed-by": "pulumi", "app.kubernetes.io/part-of": "nodeless"}
